"""When the write for an announced end must start, and whether one fits at all."""

from __future__ import annotations

import pytest
from attrs import evolve
from core.build import GB, T0, Desk, copy, knowing

from ckpt_governor.conditions import Condition
from ckpt_governor.estimate import costs
from ckpt_governor.facts import FailedWrite, Job, Leftover, Volume
from ckpt_governor.ledger import Cause, Ledger, Refusal, SpaceBlock
from ckpt_governor.numbers import Numbers
from ckpt_governor.placement import due_s, latest_start_s, reserve_bytes, space_misfit, time_misfit

GIB = 1 << 30


def cause(condition: Condition, *, seen_s: float = 0, deadline_s: float | None = None) -> Cause:
    """An announcement of this condition; seconds after T0."""
    return Cause(
        key="notice:x",
        reason=condition.value,
        seen_s=T0 + seen_s,
        since_s=T0 + seen_s,
        deadline_s=None if deadline_s is None else T0 + deadline_s,
    )


def cost_of(ledger: Ledger, **facts: object):
    """The costs as this ledger knows them."""
    desk = Desk(ledger, **facts)
    return costs(desk.world(0), desk.numbers, ledger)


def due(condition: Condition, lead_s: float | None, unsaved_s: float, ledger: Ledger | None = None) -> float:
    """When a write is asked for, in seconds after the announcement."""
    cost = cost_of(knowing(write_s=40, gap_s=5) if ledger is None else ledger)
    return due_s(cause(condition, deadline_s=lead_s), cost, unsaved_s, T0) - T0


SAFE_S = 120 - 40 - 5 - 6
"""D - W - G - margin of a spot notice of 120 s, a write of 40 s and a gap of 5 s, polled each second."""
EARLIER_S = 2
"""At most two polls earlier than the last safe moment: so that a late look does not refuse it."""


def test_a_spot_notice_waits_for_its_last_safe_moment():
    assert SAFE_S - EARLIER_S <= due(Condition.PREEMPT, 120, unsaved_s=600) <= SAFE_S


@pytest.mark.parametrize(
    ("unsaved_min", "waits"),
    [pytest.param(99, True, id="99 minutes"), pytest.param(100, False, id="100 minutes")],
)
def test_a_spot_notice_waits_unless_more_than_a_hundred_minutes_are_unsaved(unsaved_min, waits):
    assert (due(Condition.PREEMPT, 120, unsaved_s=60 * unsaved_min) > 0) is waits


@pytest.mark.parametrize(
    ("condition", "chance"),
    [
        pytest.param(Condition.PREEMPT, 0.02, id="preempt"),
        pytest.param(Condition.MAINTENANCE, 0.02, id="maintenance"),
        pytest.param(Condition.WALLTIME, 0.001, id="walltime"),
    ],
)
def test_it_waits_while_less_is_unsaved_than_the_lead_over_the_chance_of_an_early_end(condition, chance):
    lead_s = 300
    assert due(condition, lead_s, unsaved_s=0.99 * lead_s / chance) > 0
    assert due(condition, lead_s, unsaved_s=1.01 * lead_s / chance) == 0


@pytest.mark.parametrize("condition", [Condition.TERMINATE, Condition.REQUEST])
def test_somebody_who_waits_is_served_at_once(condition):
    assert due(condition, 600, unsaved_s=60) == 0


@pytest.mark.parametrize(
    ("lead_s", "ledger"),
    [
        pytest.param(None, knowing(), id="no date"),
        pytest.param(600, knowing(write_s=None), id="unknown write time"),
    ],
)
def test_what_is_not_known_is_not_waited_for(lead_s, ledger):
    assert due(Condition.PREEMPT, lead_s, unsaved_s=60, ledger=ledger) == 0


def test_few_write_times_start_a_quarter_of_the_longest_earlier():
    few = knowing(write_s=40, gap_s=5, samples=3)
    start_s = due(Condition.PREEMPT, 600, unsaved_s=60, ledger=few)
    safe_s = 600 - 50 - 6.25 - 6  # the gap, too, is known from three samples only
    assert safe_s - EARLIER_S <= start_s <= safe_s


def test_a_write_is_never_placed_where_it_would_not_fit():
    spread = evolve(knowing(gap_s=5), write_samples_s=(40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 120.0))
    cost = cost_of(spread)
    start_s = latest_start_s(cause(Condition.PREEMPT, deadline_s=200), cost, 0, T0)
    assert start_s is not None
    assert time_misfit(T0 + 200, cost, start_s) is None


def test_a_lead_that_is_too_short_is_due_in_the_past():
    assert due(Condition.PREEMPT, 30, unsaved_s=60) < 0


@pytest.mark.parametrize(
    ("left_s", "fits"),
    [
        pytest.param(51.0, True, id="just enough"),
        pytest.param(50.9, False, id="a little short"),
        pytest.param(-5.0, False, id="past"),
    ],
)
def test_a_write_fits_when_gap_write_and_margin_are_left(left_s, fits):
    misfit = time_misfit(T0 + left_s, cost_of(knowing(write_s=40, gap_s=5)), T0)
    assert (misfit is None) is fits


def test_a_refusal_names_what_is_needed_and_what_is_left():
    misfit = time_misfit(T0 + 12, cost_of(knowing(write_s=29, gap_s=5)), T0)
    assert misfit is not None
    assert (misfit.refusal, misfit.text) == (Refusal.NO_TIME, "a write needs 40s, 12s left")


@pytest.mark.parametrize(
    ("deadline_s", "ledger"),
    [
        pytest.param(None, knowing(), id="no deadline"),
        pytest.param(T0 + 1, knowing(write_s=None), id="unknown write time"),
    ],
)
def test_what_is_unknown_never_refuses_for_time(deadline_s, ledger):
    assert time_misfit(deadline_s, cost_of(ledger), T0) is None


# ---- space


@pytest.mark.parametrize(
    ("total", "numbers", "reserve"),
    [
        pytest.param(10 * GB, Numbers(), 10 * GB // 100, id="one per cent"),
        pytest.param(2000 * GB, Numbers(), GIB, id="at most a gibibyte"),
        pytest.param(2000 * GB, Numbers(reserve_bytes=5), 5, id="set by hand"),
        pytest.param(2000 * GB, Numbers(reserve_bytes=0), 0, id="none"),
    ],
)
def test_a_reserve_is_kept_free(total, numbers, reserve):
    assert reserve_bytes(total, numbers) == reserve


NEED = 14_700_000_000
"""The largest of the last three copies, 14 GB, and five per cent."""


def misfit(
    volume: Volume | None, ledger: Ledger | None = None, numbers: Numbers | None = None, **facts: object
):
    """Why a copy does not fit the space, or None."""
    desk = Desk(ledger, numbers, **{"volume": volume, **facts})
    world = desk.world(0)
    return space_misfit(world, desk.numbers, desk.ledger, costs(world, desk.numbers, desk.ledger))


@pytest.mark.parametrize(
    ("free", "fits"),
    [
        pytest.param(NEED + GIB, True, id="just enough"),
        pytest.param(NEED + GIB - 1, False, id="a byte short"),
    ],
)
def test_a_copy_fits_when_the_largest_of_three_and_five_per_cent_are_free_beside_the_reserve(free, fits):
    assert (misfit(Volume(free_bytes=free, total_bytes=2000 * GB)) is None) is fits


def test_a_refusal_names_the_bytes_and_the_leftovers():
    refused = misfit(
        Volume(free_bytes=3 * GB, total_bytes=100 * GB),
        leftovers=tuple(
            Leftover(name=name, bytes=size * GB)
            for name, size in (("a.tmp", 4), ("b.tmp", 1), ("c.tmp", 1), ("d.tmp", 1))
        ),
    )
    assert refused is not None
    assert refused.refusal is Refusal.NO_SPACE
    assert not refused.for_ever
    for said in (
        "14.7 GB",
        "2.0 GB free",
        "1.0 GB kept in reserve",
        "7.0 GB in leftovers",
        "a.tmp, b.tmp, c.tmp",
    ):
        assert said in refused.text


def test_a_volume_that_cannot_hold_one_copy_is_too_small_for_ever():
    refused = misfit(Volume(free_bytes=14 * GB, total_bytes=14 * GB))
    assert refused is not None
    assert refused.for_ever
    assert "14.7 GB" in refused.text
    assert "14.0 GB" in refused.text


@pytest.mark.parametrize(
    ("inodes", "fits"),
    [
        pytest.param(None, True, id="not counted"),
        pytest.param(1000, True, id="enough"),
        pytest.param(0, False, id="none"),
    ],
)
def test_inodes_are_checked_the_same_way(inodes, fits):
    refused = misfit(Volume(free_bytes=1000 * GB, total_bytes=2000 * GB, free_inodes=inodes))
    assert (refused is None) is fits
    assert refused is None or "inodes" in refused.text


@pytest.mark.parametrize(
    ("volume", "ledger"),
    [
        pytest.param(None, knowing(), id="no free space known"),
        pytest.param(Volume(free_bytes=0, total_bytes=10), knowing(bytes=None), id="no size known"),
    ],
)
def test_what_is_unknown_never_refuses_for_space(volume, ledger):
    assert misfit(volume, ledger) is None


def test_a_format_that_stages_a_temporary_beside_its_copy_needs_twice_the_room():
    room = Volume(free_bytes=20 * GB + GIB, total_bytes=2000 * GB)
    assert misfit(room, copies=(copy(1, -100),), stages_beside=False) is None
    assert misfit(room, copies=(copy(1, -100),), stages_beside=True) is not None


def test_after_a_write_and_its_repair_stopped_short_nothing_that_large_is_asked_for():
    ledger = evolve(knowing(), space_block=SpaceBlock(bytes=14 * GB, free_bytes=900 * GB, copy_count=3))
    refused = misfit(Volume(free_bytes=900 * GB, total_bytes=2000 * GB), ledger)
    assert refused is not None
    assert refused.refusal is Refusal.NO_SPACE
    assert "quota?" in refused.text


def test_a_smaller_copy_is_not_blocked_by_a_larger_one():
    ledger = evolve(
        knowing(bytes=7 * GB), space_block=SpaceBlock(bytes=14 * GB, free_bytes=900 * GB, copy_count=3)
    )
    assert misfit(Volume(free_bytes=900 * GB, total_bytes=2000 * GB), ledger) is None


def test_a_write_that_the_job_says_failed_for_space_is_not_asked_for_again():
    job = Job(failed=FailedWrite(bytes=14 * GB, errno=122))
    desk = Desk(copies=(copy(1, -1000),), job=job, copy_count=1)
    desk.look(0)
    world = desk.world(1)
    refused = space_misfit(world, desk.numbers, desk.ledger, costs(world, desk.numbers, desk.ledger))
    assert refused is not None
    assert "quota?" in refused.text
