"""What a write costs, learned from observation only."""

from __future__ import annotations

import pytest
from core.build import GB, T0, Desk, copy, knowing, writing
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.estimate import (
    costs,
    high_quantile,
    mean_time_between_deaths_s,
    median,
    next_bytes,
    settle,
)
from ckpt_governor.facts import CopyStatus, Job, Observation
from ckpt_governor.ledger import SAMPLES_MAX, Ledger, remember_sample
from ckpt_governor.numbers import Numbers


@pytest.mark.parametrize(
    ("samples", "quantile"),
    [
        pytest.param((40.0,), 50, id="one"),
        pytest.param((10.0, 80.0, 20.0), 100, id="three"),
        pytest.param((40.0,) * 6 + (80.0,), 100, id="seven"),
        pytest.param((40.0,) * 7 + (80.0,), 80, id="eight"),
        pytest.param(tuple(float(n) for n in range(1, 21)), 19, id="twenty"),
        pytest.param(tuple(float(n) for n in range(1, 33)), 31, id="thirty-two"),
    ],
)
def test_the_quantile_is_cautious_while_few_writes_were_seen(samples, quantile):
    assert high_quantile(samples) == quantile


@given(st.lists(st.floats(0.01, 1e6), min_size=8, max_size=32))
def test_at_least_nineteen_of_twenty_writes_are_within_the_quantile(samples):
    quantile = high_quantile(tuple(samples))
    assert quantile in samples
    assert sum(sample <= quantile for sample in samples) >= 0.95 * len(samples)


@pytest.mark.parametrize(
    ("samples", "middle"),
    [
        pytest.param((3.0,), 3, id="one"),
        pytest.param((9.0, 1.0, 5.0), 5, id="three"),
        pytest.param((1.0, 9.0), 9, id="the upper of two"),
    ],
)
def test_the_typical_write_is_the_median(samples, middle):
    assert median(samples) == middle


def test_the_last_thirty_two_samples_are_kept():
    samples: tuple[float, ...] = ()
    for value in range(40):
        samples = remember_sample(samples, float(value))
    assert samples == tuple(float(value) for value in range(8, 40))
    assert SAMPLES_MAX == 32


def cost_of(ledger: Ledger, numbers: Numbers | None = None, **facts: object):
    """The costs as they are known to this ledger."""
    desk = Desk(ledger, numbers, **facts)
    return costs(desk.world(0), desk.numbers, ledger)


def test_write_gap_and_size_come_from_what_was_seen():
    cost = cost_of(knowing(write_s=40, gap_s=5))
    assert (cost.write_s, cost.gap_s, cost.typical_write_s, cost.bytes) == (40, 5, 40, 14 * GB)


@pytest.mark.parametrize(
    ("numbers", "job", "write_s"),
    [
        pytest.param(Numbers(write_s=30.0), Job(write_s=20.0), 30.0, id="numbers.json before job.json"),
        pytest.param(Numbers(), Job(write_s=20.0), 20.0, id="job.json"),
        pytest.param(Numbers(), Job(), None, id="nobody"),
    ],
)
def test_before_the_first_write_its_time_is_what_was_told(numbers, job, write_s):
    cost = cost_of(knowing(write_s=None, gap_s=None), numbers, job=job)
    assert (cost.write_s, cost.typical_write_s, cost.gap_s) == (write_s, write_s, 0.0)


def test_what_was_seen_replaces_what_was_told():
    assert cost_of(knowing(write_s=40), Numbers(write_s=1.0), job=Job(write_s=2.0)).write_s == 40


@pytest.mark.parametrize(
    ("write_s", "margin_s"),
    [
        pytest.param(None, 6, id="unknown"),
        pytest.param(10.0, 6, id="five seconds at least"),
        pytest.param(50.0, 6, id="where ten per cent begins"),
        pytest.param(100.0, 11, id="ten per cent of the write"),
    ],
)
def test_the_margin_is_five_seconds_or_a_tenth_and_the_lag(write_s, margin_s):
    assert cost_of(knowing(write_s=write_s)).margin_s == margin_s


def test_the_lag_is_the_poll_and_the_measured_visibility():
    cost = cost_of(knowing(write_s=40, gap_s=5), poll_s=2.0, visibility_lag_s=3.0)
    assert cost.lag_s == 5
    assert cost.need_s == 40 + 5 + 5 + 5


def test_an_unknown_write_needs_an_unknown_time():
    assert cost_of(knowing(write_s=None)).need_s is None


@pytest.mark.parametrize(
    ("ledger", "copies", "numbers", "job", "expected"),
    [
        pytest.param(
            knowing(bytes=None, size_samples=(9, 1, 3, 2)), (), Numbers(), Job(), 3, id="of the last three"
        ),
        pytest.param(
            knowing(bytes=None),
            (copy(1, -90, bytes=9), copy(2, -80, bytes=5), copy(3, -70, bytes=6), copy(4, -60, bytes=4)),
            Numbers(bytes=1),
            Job(),
            6,
            id="of those that are there",
        ),
        pytest.param(
            knowing(bytes=None),
            (writing(1, -1, bytes=7),),
            Numbers(bytes=2),
            Job(bytes=3),
            2,
            id="told by numbers",
        ),
        pytest.param(knowing(bytes=None), (), Numbers(), Job(bytes=3), 3, id="told by the job"),
        pytest.param(knowing(bytes=None), (), Numbers(), Job(), None, id="not known"),
    ],
)
def test_the_next_copy_is_as_large_as_the_largest_of_the_last_three(ledger, copies, numbers, job, expected):
    world = Observation(unit="/unit", now_s=T0, copies=copies, job=job)
    assert next_bytes(world, numbers, ledger) == expected


@pytest.mark.parametrize(
    ("ledger", "numbers", "job", "poll_s", "broken_s", "sound_s"),
    [
        pytest.param(Ledger(), Numbers(), Job(), 1.0, 120, 2, id="no write seen yet"),
        pytest.param(knowing(write_s=10), Numbers(), Job(), 1.0, 30, 2, id="short writes"),
        pytest.param(knowing(write_s=100), Numbers(), Job(), 0.1, 100, 2, id="the longest write"),
        pytest.param(knowing(write_s=9999), Numbers(), Job(), 1.0, 1800, 2, id="at most half an hour"),
        pytest.param(knowing(write_s=10, quiet_s_max=20.0), Numbers(), Job(), 1.0, 60, 30, id="quiet writes"),
        pytest.param(knowing(write_s=100), Numbers(), Job(alive=False), 1.0, 25, 2, id="the job is gone"),
        pytest.param(knowing(write_s=10), Numbers(), Job(alive=False), 1.0, 15, 2, id="gone, at least"),
        pytest.param(knowing(write_s=100), Numbers(settle_s=5.0), Job(), 1.0, 5, 2, id="set by hand"),
        pytest.param(knowing(), Numbers(settle_s=1.0), Job(alive=False), 1.0, 1, 1, id="set short by hand"),
    ],
)
def test_a_copy_must_be_quiet_so_long_before_it_is_judged(ledger, numbers, job, poll_s, broken_s, sound_s):
    settled = settle(ledger, numbers, job, poll_s)
    assert (settled.broken_s, settled.sound_s) == (broken_s, sound_s)


DAY_S = 86400.0


@pytest.mark.parametrize(
    ("ledger", "numbers", "mu_s"),
    [
        pytest.param(Ledger(), Numbers(), DAY_S, id="nothing seen: the prior of a day"),
        pytest.param(Ledger(deaths=1, exposure_s=DAY_S), Numbers(), DAY_S, id="one death in a day"),
        pytest.param(Ledger(deaths=3, exposure_s=7 * DAY_S), Numbers(), 2 * DAY_S, id="three in a week"),
        pytest.param(Ledger(deaths=3), Numbers(mtbf_s=7200.0), 7200.0, id="told"),
    ],
)
def test_the_mean_time_between_deaths_has_a_prior_of_a_day(ledger, numbers, mu_s):
    assert mean_time_between_deaths_s(ledger, numbers) == mu_s


def test_a_copy_that_is_not_sound_tells_no_size():
    copies = (copy(1, -90, CopyStatus.BROKEN, bytes=9), copy(2, -80, CopyStatus.UNKNOWN, bytes=8))
    assert next_bytes(Observation(unit="/unit", now_s=T0, copies=copies), Numbers(), Ledger()) is None
