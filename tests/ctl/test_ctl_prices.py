"""The formulas behind the price table, against the figures that they must give."""

from __future__ import annotations

import pytest

from ckpt_governor.durations import format_period, parse_duration
from ckpt_governor.prices import Price, daly_s, price, price_table, young_s

HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("mu_h", "cost_s", "daly", "young"),
    [
        pytest.param(8, 60.0, 1819.2, 1859.0, id="a death in 8h, a write of 1m"),
        pytest.param(2, 300.0, 1883.3, 2078.5, id="a death in 2h, a write of 5m"),
    ],
)
def test_the_periods_are_those_of_young_and_daly(mu_h, cost_s, daly, young):
    assert daly_s(cost_s, mu_h * HOUR_S) == pytest.approx(daly, abs=0.05)
    assert young_s(cost_s, mu_h * HOUR_S) == pytest.approx(young, abs=0.05)


def cheapest(mu_h: float) -> str:
    rows = price_table(4 * HOUR_S, 0.5 * HOUR_S, "30m", 60.0, mu_h * HOUR_S)
    return min(rows, key=lambda row: row.expected_loss_s or 0.0).name


@pytest.mark.parametrize(
    ("mu_h", "name"),
    [
        pytest.param(241, "none", id="above 240h"),
        pytest.param(239, "middle", id="below 240h"),
        pytest.param(31, "middle", id="above 30h"),
        pytest.param(29, "periodic", id="below 30h"),
    ],
)
def test_what_is_cheapest_for_four_hours_and_a_write_of_a_minute_changes_at_240h_and_30h(mu_h, name):
    assert cheapest(mu_h) == name


def loss_of(window_s: float) -> Price:
    return price(name="", what="", window_s=window_s, writes=99, horizon_s=100.0, write_s=1.0, mtbf_s=1000.0)


@pytest.mark.parametrize(
    ("window_s", "inner"),
    [
        pytest.param(50.0, 1, id="divides, the last is the end's"),
        pytest.param(70.0, 1, id="does not divide"),
        pytest.param(30.0, 3, id="three inside"),
        pytest.param(100.0, 0, id="only at the end"),
        pytest.param(200.0, 0, id="longer than the job"),
    ],
)
def test_the_expected_loss_counts_every_write_inside_the_horizon(window_s, inner):
    assert loss_of(window_s).expected_loss_s == inner * 1.0 + 100.0**2 / (2 * 1000.0 * (inner + 1))


@pytest.mark.parametrize("seconds", [1_000_000.5, 7200.5, 2.5, 1.25, 14400, 315_000_000])
def test_a_period_is_written_so_that_it_is_read_as_the_same(seconds):
    assert parse_duration(format_period(seconds)) == seconds
