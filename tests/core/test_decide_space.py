"""A write that would fill the volume is refused before it starts, and served when there is space."""

from __future__ import annotations

import pytest
from attrs import evolve
from core.build import GB, ROOM, T0, Desk, broken, copy, ending, knowing, notice

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import FailedWrite, Job, Volume
from ckpt_governor.ledger import Edge, Ledger
from ckpt_governor.numbers import Numbers

OLD = copy(1, -900)
FULL = Volume(free_bytes=3 * GB, total_bytes=2000 * GB)
TINY = Volume(free_bytes=14 * GB, total_bytes=14 * GB)


def told_before(ledger: Ledger | None = None) -> Ledger:
    """A ledger in which low space, a condition of its own, has had its write already."""
    edge = Edge(since_s=T0 - 1, written_s=T0 - 1)
    return evolve(knowing() if ledger is None else ledger, edges={"risk.space": edge})


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"notices": (notice(),)}, id="a notice"),
        pytest.param({"notices": (notice(Condition.TERMINATE, deadline_s=500),)}, id="a dated notice"),
        pytest.param({"ending": ending(0)}, id="training's end"),
        pytest.param({"numbers": Numbers(with_us_s=600.0)}, id="the window"),
    ],
)
def test_every_cause_is_refused_with_the_numbers_and_served_when_space_is_freed(facts):
    unit = Desk(**{"ledger": told_before(), "copies": (OLD,), "volume": FULL, **facts})
    assert unit.look(1) == [("skip", "no-space")]
    text = unit.lines[0].text
    assert "14.7 GB" in text
    assert "1.9 GB free" in text
    assert unit.request is None
    assert unit.look(2) == []
    assert [verdict for verdict, _ in unit.look(100, volume=ROOM)] == ["save"]


def test_a_broken_copy_is_not_repaired_onto_a_full_volume():
    unit = Desk(told_before(), copies=(OLD, broken(2, -50)), volume=FULL)
    assert unit.look(1) == [("skip", "no-space")]
    assert unit.look(2, volume=ROOM) == [("repair", "broken")]


def test_a_hook_is_let_go_while_the_volume_is_full_and_answered_when_it_is_served():
    unit = Desk(told_before(), copies=(OLD,), volume=FULL, notices=(notice(),))
    unit.look(1)
    assert unit.acked("risk.preempt") == "unfit"
    unit.look(2, volume=ROOM)
    assert unit.acked("risk.preempt") is None
    unit.look(50, copies=(OLD, copy(2, 7)))
    assert unit.acked("risk.preempt") == "served"


def test_a_volume_that_can_never_hold_a_copy_is_infeasible():
    unit = Desk(told_before(), copies=(OLD,), volume=TINY, notices=(notice(),))
    assert unit.look(1) == [("infeasible", "no-space")]
    assert unit.look(2) == []
    assert unit.request is None


def test_a_refusal_of_the_receipt_counts_causes_not_looks():
    unit = Desk(told_before(), copies=(OLD,), volume=FULL, notices=(notice(),))
    unit.until(100)
    assert unit.ledger.run.refused == {"no-space": 1}


def test_a_write_and_its_repair_that_stop_short_block_their_size():
    unit = Desk(copies=(OLD,), notices=(notice(),), copy_count=1)
    assert unit.look(1) == [("save", "risk.preempt")]
    assert unit.look(20, copies=(OLD, broken(2, 5, bytes=9 * GB)), copy_count=2) == [
        ("repair", "risk.preempt")
    ]
    lines = unit.look(40, copies=(OLD, broken(2, 5), broken(3, 25, bytes=9 * GB)), copy_count=3)
    assert set(lines) == {("skip", "no-space")}
    assert "quota?" in unit.lines[-1].text
    assert unit.until(400, every_s=10) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"volume": Volume(free_bytes=1100 * GB, total_bytes=2000 * GB)}, id="space was freed"),
        pytest.param({"copy_count": 2}, id="a copy was removed"),
    ],
)
def test_a_block_ends_when_something_was_freed(change):
    unit = Desk(copies=(OLD,), notices=(notice(),), copy_count=1)
    unit.look(1)
    unit.look(20, copies=(OLD, broken(2, 5)), copy_count=2)
    unit.look(40, copies=(OLD, broken(2, 5), broken(3, 25)), copy_count=3)
    assert unit.request is None
    assert ("repair", "risk.preempt") in unit.look(50, **change)


def test_a_sound_copy_ends_a_block():
    unit = Desk(copies=(OLD,), notices=(notice(),), copy_count=1)
    unit.look(1)
    unit.look(20, copies=(OLD, broken(2, 5)), copy_count=2)
    unit.look(40, copies=(OLD, broken(2, 5), broken(3, 25)), copy_count=2)
    assert unit.ledger.space_block is not None
    unit.look(60, copies=(OLD, broken(2, 5), broken(3, 25), copy(4, 45, write_s=10)))
    assert unit.ledger.space_block is None


def test_one_broken_answer_blocks_nothing():
    unit = Desk(copies=(OLD,), notices=(notice(),), copy_count=1)
    unit.look(1)
    unit.look(20, copies=(OLD, broken(2, 5)), copy_count=2)
    assert unit.ledger.space_block is None


def failed(bytes: int, errno: int = 122) -> Job:
    """A job whose last write failed."""
    return Job(failed=FailedWrite(bytes=bytes, errno=errno))


def test_a_write_that_the_job_says_failed_for_space_blocks_its_size():
    unit = Desk(copies=(OLD,), copy_count=1, job=failed(14 * GB))
    assert unit.look(1, notices=(notice(),)) == [("skip", "no-space")]
    assert unit.look(2, copy_count=2) == [("save", "risk.preempt")]


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(failed(15 * GB), id="a larger one"),
        pytest.param(failed(14 * GB, 5), id="for another reason"),
    ],
)
def test_another_failed_write_blocks_nothing(job):
    unit = Desk(copies=(OLD,), copy_count=1, job=job)
    assert unit.look(1, notices=(notice(),)) == [("save", "risk.preempt")]


def test_the_same_failure_told_on_and_on_does_not_block_again():
    unit = Desk(copies=(OLD,), copy_count=1, job=failed(14 * GB))
    unit.look(1)
    unit.look(2, copy_count=2)
    assert unit.look(3, copy_count=2, notices=(notice(),)) == [("save", "risk.preempt")]


def test_what_is_not_known_refuses_nothing():
    unit = Desk(told_before(), copies=(OLD,), volume=None, notices=(notice(),))
    assert unit.look(1) == [("save", "risk.preempt")]
    unit = Desk(knowing(bytes=None, write_s=None), copies=(), volume=FULL, notices=(notice(),))
    assert unit.look(1) == [("save", "risk.preempt")]
