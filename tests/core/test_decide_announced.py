"""An announced end: one write at the last safe moment, at once where somebody waits, none that does not fit."""

from __future__ import annotations

import pytest
from attrs import evolve
from core.build import POLL_S, T0, Desk, copy, knowing, notice, writing

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Job
from ckpt_governor.ledger import Ledger
from ckpt_governor.numbers import Numbers

OLD = copy(1, -900)
NEED_S = 40 + 5 + 5 + POLL_S
"""Write, gap and margin of the ledger that every desk begins with."""
DATED = [Condition.PREEMPT, Condition.MAINTENANCE, Condition.WALLTIME]
by_name = pytest.mark.parametrize("condition", DATED, ids=[condition.value for condition in DATED])


def desk(**facts: object) -> Desk:
    """A unit whose newest sound copy is a quarter of an hour old."""
    return Desk(**{"copies": (OLD,), **facts})


def saves(said: list[tuple[float, str, str]]) -> list[tuple[float, str]]:
    """The requests among these lines."""
    return [(moment_s, reason) for moment_s, verdict, reason in said if verdict == "save"]


def old_run() -> Ledger:
    """A ledger whose job has gone on for so long that only its copies count."""
    ledger = knowing()
    return evolve(ledger, run=evolve(ledger.run, job_started_s=T0 - 9000))


@by_name
def test_a_dated_end_is_written_for_at_the_last_safe_moment(condition):
    unit = desk(notices=(notice(condition, deadline_s=300),))
    ((moment_s, reason),) = saves(unit.until(280))
    assert reason == condition.value
    assert 300 - NEED_S - 2 * POLL_S <= moment_s <= 300 - NEED_S
    assert unit.request.deadline_s == T0 + 300


@by_name
def test_what_was_placed_in_time_is_not_refused_by_a_late_look(condition):
    unit = desk(notices=(notice(condition, deadline_s=300),))
    assert saves(unit.until(300 - NEED_S - 2 * POLL_S - 0.5, every_s=17.3)) == []
    assert unit.look(300 - NEED_S - 0.2) == [("save", condition.value)]


def test_the_sentence_says_how_much_time_is_left():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=120, text="pod7 is evicted"),))
    (line,) = unit.decide(0)
    assert line.text == "pod7 is evicted, 2m left"
    assert line.request_id == unit.request.id


def test_a_notice_without_a_text_has_its_conditions_sentence():
    (line,) = desk(notices=(notice(),)).decide(0)
    assert line.text == "higher-priority or more urgent work can take these resources"


@pytest.mark.parametrize(
    ("condition", "deadline_s"),
    [
        pytest.param(Condition.TERMINATE, 600, id="a termination"),
        pytest.param(Condition.REQUEST, 600, id="a request with a date"),
        pytest.param(Condition.REQUEST, None, id="a request"),
        pytest.param(Condition.PREEMPT, None, id="a preemption without a date"),
        pytest.param(Condition.MAINTENANCE, None, id="a maintenance without a date"),
    ],
)
def test_these_are_written_for_at_once(condition, deadline_s):
    unit = desk(notices=(notice(condition, deadline_s=deadline_s),))
    assert unit.look(0) == [("save", condition.value)]


@by_name
def test_an_unknown_write_time_is_not_waited_for(condition):
    unit = Desk(
        knowing(write_s=None, gap_s=None), copies=(OLD,), notices=(notice(condition, deadline_s=300),)
    )
    (line,) = unit.decide(0)
    assert (line.verdict.value, line.reason) == ("save", condition.value)
    assert line.text.endswith("no write seen yet")


def test_an_unknown_write_time_refuses_nothing():
    unit = Desk(knowing(write_s=None, gap_s=None), copies=(OLD,), notices=(notice(deadline_s=2),))
    assert unit.look(0) == [("save", "risk.preempt")]


def test_what_the_job_tells_of_its_writes_is_enough_to_wait():
    unit = Desk(
        knowing(write_s=None, gap_s=None),
        copies=(OLD,),
        job=Job(write_s=40.0),
        notices=(notice(deadline_s=300),),
    )
    ((moment_s, _),) = saves(unit.until(290))
    assert 300 - 46 - 2 * POLL_S <= moment_s <= 300 - 46


@pytest.mark.parametrize(
    ("unsaved_s", "at_once"),
    [pytest.param(5990, False, id="under 100 minutes"), pytest.param(6010, True, id="over 100 minutes")],
)
def test_a_spot_notice_of_two_minutes_waits_unless_a_hundred_minutes_are_unsaved(unsaved_s, at_once):
    unit = Desk(old_run(), copies=(copy(1, -unsaved_s),), notices=(notice(deadline_s=120),))
    assert (unit.look(0) == [("save", "risk.preempt")]) is at_once


def test_what_piles_up_while_it_waits_counts():
    unit = Desk(old_run(), copies=(copy(1, -5950),), notices=(notice(deadline_s=120),))
    assert saves(unit.until(60)) == [(50.0, "risk.preempt")]


# ---- no time


def test_a_write_that_does_not_fit_is_refused_and_its_hook_let_go_at_once():
    unit = Desk(knowing(write_s=29, gap_s=5), copies=(OLD,))
    assert unit.look(0, notices=(notice(Condition.TERMINATE, deadline_s=12),)) == [("skip", "no-time")]
    assert unit.told("skip") == ["a write needs 40s, 12s left"]
    assert unit.request is None
    assert unit.acked("risk.terminate") == "unfit"


def test_a_refusal_is_printed_and_counted_once():
    unit = desk(notices=(notice(deadline_s=30),))
    assert unit.look(0) == [("skip", "no-time")]
    assert unit.until(29) == []
    assert unit.ledger.run.refused == {"no-time": 1}


@pytest.mark.parametrize(
    ("left_s", "fits"),
    [pytest.param(NEED_S, True, id="just"), pytest.param(NEED_S - 0.1, False, id="not quite")],
)
def test_a_write_fits_when_gap_write_and_margin_are_left(left_s, fits):
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=left_s),))
    assert unit.look(0) == ([("save", "risk.terminate")] if fits else [("skip", "no-time")])


# ---- answered, missed


def test_a_sound_copy_serves_the_notice_and_its_hook():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=120),))
    unit.look(0)
    unit.look(10, copies=(OLD, writing(2, 5, changed_s=T0 + 10)))
    assert unit.acked("risk.terminate") is None
    assert unit.look(46, copies=(OLD, copy(2, 5))) == []
    assert unit.request is None
    assert unit.acked("risk.terminate") == "served"


def test_any_copy_that_begins_in_the_last_stretch_serves_the_notice():
    unit = desk(notices=(notice(deadline_s=120),))
    unit.until(66)  # one second before it is asked for
    said = unit.until(120, copies=(OLD, copy(2, 67.5, write_s=2)))
    assert saves(said) in ([], [(67.0, "risk.preempt")])
    assert unit.acked("risk.preempt") == "served"


def test_a_copy_from_before_the_last_stretch_serves_nothing():
    unit = desk(notices=(notice(deadline_s=120),))
    unit.until(40)
    unit.until(60, copies=(OLD, copy(2, 10, write_s=20)))
    assert saves(unit.until(110)) == [(67.0, "risk.preempt")]


def test_a_write_that_has_begun_in_the_last_stretch_is_not_asked_for_again():
    unit = desk(notices=(notice(deadline_s=120),))
    unit.until(66)
    unit.look(66.9, copies=(OLD, writing(2, 66.9, changed_s=T0 + 66.9)))
    said = []
    for moment_s in range(67, 107):
        said += unit.look(moment_s, copies=(OLD, writing(2, 67, changed_s=T0 + moment_s)))
    assert said == [("skip", "in-flight")]
    assert unit.look(107, copies=(OLD, copy(2, 67))) == []
    assert unit.acked("risk.preempt") == "served"


def test_a_deadline_that_passes_while_nobody_answers_is_missed():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=55),))
    unit.look(0)
    assert unit.until(55) == [(55.0, "skip", "unheard")]
    assert unit.told("skip") == ["asked 55s ago, and the deadline has passed"]
    assert unit.request is None
    assert unit.acked("risk.terminate") == "missed"
    assert unit.ledger.run.unserved == 1


def test_a_deadline_that_passes_while_the_write_goes_on_is_missed():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=55),))
    unit.look(0)
    for moment_s in range(20, 55):
        unit.look(moment_s, copies=(OLD, writing(2, 20, changed_s=T0 + moment_s)))
    assert unit.look(55, copies=(OLD, writing(2, 20, changed_s=T0 + 55))) == [("skip", "no-time")]
    assert unit.acked("risk.terminate") == "missed"


def test_a_copy_that_is_sound_at_the_deadline_is_in_time():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=55),))
    unit.look(0)
    assert unit.look(55, copies=(OLD, copy(2, 10))) == []
    assert unit.acked("risk.terminate") == "served"


# ---- several


def test_notices_whose_windows_overlap_share_one_write():
    both = (
        notice(Condition.PREEMPT, deadline_s=120),
        notice(Condition.MAINTENANCE, deadline_s=150, inode=12),
    )
    unit = desk(notices=both)
    ((moment_s, reason),) = saves(unit.until(100))
    assert (moment_s, reason) == (67.0, "risk.preempt")
    assert "serves risk.maintenance too" in unit.told("save")[0]
    unit.look(108, copies=(OLD, copy(2, 68)))
    assert [unit.acked(one.ack_name) for one in both] == ["served", "served"]
    assert saves(unit.until(400)) == []


def test_the_reason_is_the_earliest_deadlines():
    both = (
        notice(Condition.PREEMPT, deadline_s=150),
        notice(Condition.MAINTENANCE, deadline_s=120, inode=12),
    )
    unit = desk(notices=both)
    assert saves(unit.until(100)) == [(67.0, "risk.maintenance")]
    assert unit.request.deadline_s == T0 + 120


def test_notices_far_apart_have_their_own_writes():
    both = (
        notice(Condition.PREEMPT, deadline_s=120),
        notice(Condition.MAINTENANCE, deadline_s=600, inode=12),
    )
    unit = desk(notices=both)
    unit.until(107)
    said = unit.until(600, copies=(OLD, copy(2, 68)))
    assert saves(said) == [(547.0, "risk.maintenance")]


def test_a_notice_that_comes_before_the_write_has_begun_shares_it():
    first = notice(Condition.PREEMPT, deadline_s=120)
    second = notice(Condition.MAINTENANCE, deadline_s=150, inode=12, seen_s=70)
    unit = desk(notices=(first,))
    unit.until(70)
    assert unit.look(71, notices=(first, second)) == [("skip", "in-flight")]
    unit.look(114, copies=(OLD, copy(2, 73)))
    assert [unit.acked(one.ack_name) for one in (first, second)] == ["served", "served"]
    assert saves(unit.until(400)) == []


def test_a_notice_that_comes_after_that_write_has_one_of_its_own():
    first = notice(Condition.PREEMPT, deadline_s=120)
    unit = desk(notices=(first,))
    unit.until(110)
    unit.look(111, copies=(OLD, copy(2, 68)))
    second = notice(Condition.MAINTENANCE, deadline_s=250, inode=12, seen_s=112)
    assert saves(unit.until(250, notices=(first, second))) == [(197.0, "risk.maintenance")]


def test_a_person_who_asks_meanwhile_shares_the_write():
    first = notice(Condition.TERMINATE, deadline_s=300)
    unit = desk(notices=(first,))
    unit.look(1)
    both = (first, notice(Condition.REQUEST, inode=12, seen_s=2))
    assert unit.look(2, notices=both) == [("skip", "in-flight")]
    unit.look(50, copies=(OLD, copy(2, 8)))
    assert [unit.acked(one.ack_name) for one in both] == ["served", "served"]


def test_one_that_does_not_fit_does_not_spoil_the_others():
    both = (notice(Condition.TERMINATE, deadline_s=20), notice(Condition.REQUEST, inode=12))
    unit = desk(notices=both)
    assert unit.look(1) == [("skip", "no-time"), ("save", "risk.request")]
    assert unit.request.deadline_s is None
    assert [unit.acked(one.ack_name) for one in both] == ["unfit", None]


def test_a_placed_notice_blocks_nothing():
    unit = desk(numbers=Numbers(with_us_s=1000.0), notices=(notice(deadline_s=3000),))
    assert saves(unit.until(100)) == [(54.0, "window")]
