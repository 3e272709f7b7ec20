"""Young, Daly, known horizons and the end of an allotment, against figures that were worked out elsewhere."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.prices import (
    best_window_s,
    daly_s,
    expected_loss_s,
    last_start_before_end_s,
    periodic_writes,
    price_table,
    risk_period_s,
    young_s,
)

HOUR_S = 3600.0
UNIFORM_40_120 = tuple(40.0 + 80.0 * (index + 0.5) / 4000 for index in range(4000))
"""Write times spread evenly from 40 s to 120 s."""


def exact_period_s(cost_s: float, mu_s: float) -> float:
    """The period with the least ``(exp((T + C) / mu) - 1) / T``, by ternary search: no formula shared with the code."""
    from math import expm1

    low, high = 1e-6, 20 * sqrt(2 * cost_s * mu_s)
    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if expm1((left + cost_s) / mu_s) / left < expm1((right + cost_s) / mu_s) / right:
            high = right
        else:
            low = left
    return (low + high) / 2


@pytest.mark.parametrize(
    ("mu_h", "cost_s", "exact", "daly", "young"),
    [
        pytest.param(8, 60, 1819.2, 1819.2, 1859.0, id="mu 8h, 60s"),
        pytest.param(2, 300, 1883.5, 1883.3, 2078.5, id="mu 2h, 300s"),
    ],
)
def test_the_periods_are_those_of_the_literature(mu_h, cost_s, exact, daly, young):
    mu_s = mu_h * HOUR_S
    assert exact_period_s(cost_s, mu_s) == pytest.approx(exact, abs=0.05)
    assert daly_s(cost_s, mu_s) == pytest.approx(daly, abs=0.05)
    assert young_s(cost_s, mu_s) == pytest.approx(young, abs=0.05)


def test_announced_deaths_stretch_the_period():
    assert young_s(60, 8 * HOUR_S, 0.9) == pytest.approx(3.16 * young_s(60, 8 * HOUR_S), rel=0.001)


@pytest.mark.parametrize(
    "cost_s", [pytest.param(4 * HOUR_S, id="twice mu"), pytest.param(9 * HOUR_S, id="more than twice mu")]
)
def test_a_write_that_costs_twice_the_life_is_repeated_once_a_life(cost_s):
    assert daly_s(cost_s, 2 * HOUR_S) == 2 * HOUR_S


@pytest.mark.parametrize(
    ("mu_h", "cost_s", "window_s"),
    [
        pytest.param(8, 60, 1859.0, id="cheap writes: Young"),
        pytest.param(2, 300, 1883.3, id="a write costs 4 % of mu: Daly"),
    ],
)
def test_auto_uses_the_higher_order_form_when_a_write_is_dear(mu_h, cost_s, window_s):
    assert best_window_s(cost_s, mu_h * HOUR_S) == pytest.approx(window_s, abs=0.05)


def test_auto_is_stretched_by_the_announced_share():
    assert best_window_s(60, 24 * HOUR_S, 0.9) == pytest.approx(young_s(60, 24 * HOUR_S, 0.9))


@pytest.mark.parametrize(
    ("unsaved_s", "start_s"),
    [
        pytest.param(100, 70, id="A 100"),
        pytest.param(150, 95, id="A 150"),
        pytest.param(200, 120, id="A 200"),
        pytest.param(14400, 120, id="A 4h"),
    ],
)
def test_the_start_before_the_end_is_the_one_that_saves_most(unsaved_s, start_s):
    assert last_start_before_end_s(UNIFORM_40_120, unsaved_s) == pytest.approx(start_s, abs=0.1)


def test_four_hours_unsaved_and_log_normal_writes_start_134_seconds_before_the_end():
    from math import exp, log
    from statistics import NormalDist

    count = 20_000
    samples = tuple(60 * exp(0.25 * NormalDist().inv_cdf((index + 0.5) / count)) for index in range(count))
    start_s = last_start_before_end_s(samples, 4 * HOUR_S)
    assert start_s == pytest.approx(134, abs=1)
    assert NormalDist().cdf(log(start_s / 60) / 0.25) == pytest.approx(0.9993, abs=0.0001)


@pytest.mark.parametrize("count", [1, 7])
def test_few_write_times_give_a_quarter_more_than_the_longest(count):
    assert last_start_before_end_s((*[40.0] * (count - 1), 80.0), 14400) == 100


def test_eight_write_times_are_a_distribution():
    assert last_start_before_end_s((40.0,) * 7 + (80.0,), 14400) == 80


@given(
    st.lists(st.floats(1, 1000), min_size=8, max_size=32),
    st.floats(0, 100_000),
)
def test_no_seen_write_time_would_be_a_better_start(samples, unsaved_s):
    def value(x_s: float) -> float:
        return sum(sample <= x_s for sample in samples) / len(samples) * max(0.0, unsaved_s - x_s)

    start_s = last_start_before_end_s(tuple(samples), unsaved_s)
    assert start_s in samples
    assert value(start_s) == pytest.approx(max(map(value, samples)))


def test_the_time_between_writes_at_risk_follows_the_formula():
    # sqrt(2 C ((1-p) I + p E) / p) with C 40, p 0.5, I 300, E 150: ((0.5 * 300 + 0.5 * 150) * 80 / 0.5)
    assert risk_period_s(40, 0.5, 300) == pytest.approx(sqrt(36000))


@pytest.mark.parametrize(
    ("cost_s", "break_even_h"),
    [
        pytest.param(10, [1440, 480, 240, 144], id="10s"),
        pytest.param(60, [240, 80, 40, 24, 16, 11.4, 8.6, 6.7], id="60s"),
        pytest.param(300, [48, 16, 8, 4.8], id="300s"),
    ],
)
def test_one_write_more_pays_below_its_break_even(cost_s, break_even_h):
    for writes, mu_h in enumerate(break_even_h):
        for factor, pays in ((0.98, True), (1.02, False)):
            mu_s = factor * mu_h * HOUR_S
            fewer = expected_loss_s(writes, cost_s, mu_s, 4 * HOUR_S)
            more = expected_loss_s(writes + 1, cost_s, mu_s, 4 * HOUR_S)
            assert (more < fewer) is pays, f"{writes} -> {writes + 1} at {factor} of {mu_h} h"


def test_the_announced_share_lowers_the_expected_loss():
    assert expected_loss_s(0, 60, 8 * HOUR_S, 4 * HOUR_S, 0.9) == pytest.approx(
        expected_loss_s(0, 60, 8 * HOUR_S, 4 * HOUR_S) / 10
    )


@pytest.mark.parametrize(
    ("mtbf_h", "cheapest"),
    [
        pytest.param(300, "none", id="above 240 h"),
        pytest.param(245, "none", id="just above 240 h"),
        pytest.param(235, "middle", id="just below 240 h"),
        pytest.param(31, "middle", id="just above 30 h"),
        pytest.param(29, "periodic", id="just below 30 h"),
        pytest.param(7.5, "periodic", id="7.5 h, where 30m is Young's period"),
    ],
)
def test_four_hours_and_a_minute_a_write_have_the_known_break_evens(mtbf_h, cheapest):
    table = price_table(4 * HOUR_S, 1800, "30m", 60, mtbf_h * HOUR_S)
    assert min(table, key=lambda row: row.expected_loss_s or 0).name == cheapest


def test_thirty_minutes_is_youngs_period_at_seven_and_a_half_hours():
    assert young_s(60, 7.5 * HOUR_S) == pytest.approx(1800)


def test_three_windows_over_four_hours_are_priced():
    none, middle, periodic = price_table(4 * HOUR_S, 1800, "30m", 1.0, None)
    assert (none.writes, none.cost_s, none.silent_death_costs_s) == (0, 0, None)
    assert (middle.writes, middle.cost_s, middle.silent_death_costs_s) == (1, 1, 2 * HOUR_S)
    assert (periodic.writes, periodic.cost_s, periodic.silent_death_costs_s) == (8, 8, 1800)
    assert {row.expected_loss_s for row in (none, middle, periodic)} == {None}


def test_a_cost_that_is_not_known_is_not_made_up():
    assert [row.cost_s for row in price_table(4 * HOUR_S, 1800, "30m", None, 8 * HOUR_S)] == [None] * 3
    assert [row.expected_loss_s for row in price_table(4 * HOUR_S, 1800, "30m", None, 8 * HOUR_S)] == [
        None
    ] * 3


@pytest.mark.parametrize(
    ("horizon_s", "every_s", "writes"),
    [
        pytest.param(14400, 1800, 8, id="the one at the end included"),
        pytest.param(14399, 1800, 7, id="a second short"),
        pytest.param(3 * 0.1, 0.1, 3, id="despite floats"),
        pytest.param(60, 1800, 0, id="longer than the horizon"),
    ],
)
def test_a_period_has_so_many_writes(horizon_s, every_s, writes):
    assert periodic_writes(horizon_s, every_s) == writes
