"""Training's end: one write for its mark, once, and whether it has a sound copy."""

from __future__ import annotations

import pytest
from attrs import evolve
from core.build import T0, Desk, broken, copy, ending, notice, writing

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import CopyStatus, Job
from ckpt_governor.numbers import Numbers

OLD = copy(1, -900)


def desk(**facts: object) -> Desk:
    """A unit whose newest sound copy is a quarter of an hour old."""
    return Desk(**{"copies": (OLD,), **facts})


def test_the_end_is_written_for_once():
    unit = desk(ending=ending(0))
    assert unit.look(0) == [("save", "train.end")]
    assert unit.request.reason == "train.end"
    unit.look(46, copies=(OLD, copy(2, 5)))
    assert unit.request is None
    assert unit.ledger.run.end_sound is True
    assert unit.until(4000, every_s=20) == []


def test_with_a_window_nothing_is_asked_for_after_the_end():
    unit = desk(ending=ending(0), numbers=Numbers(with_us_s=300.0))
    unit.look(0)
    unit.look(46, copies=(OLD, copy(2, 5)))
    assert unit.until(4000, every_s=20) == []


def test_the_end_names_a_write_that_other_causes_share():
    unit = desk(ending=ending(0), notices=(notice(Condition.TERMINATE, deadline_s=200),))
    (line,) = unit.decide(0)
    assert (line.reason, unit.request.deadline_s) == ("train.end", T0 + 200)
    assert "serves risk.terminate too" in line.text


def test_a_copy_whose_write_began_after_the_mark_serves_it():
    unit = desk(ending=ending(1, written_s=1))
    own = writing(2, 2, changed_s=T0 + 2, written_s=T0 + 2)
    assert unit.look(2, copies=(OLD, own)) == [("save", "train.end")]
    assert unit.request is None
    assert unit.told("save") == [f"training is over: the last copy, {own.name}"]
    assert unit.look(42, copies=(OLD, copy(2, 2, written_s=T0 + 42))) == []
    assert unit.ledger.run.end_sound is True
    assert unit.until(1000, every_s=10) == []


def test_a_copy_that_came_whole_after_the_mark_serves_it_with_its_line():
    unit = desk(ending=ending(1, written_s=0.5))
    assert unit.look(1, copies=(OLD, copy(2, 1, write_s=0, written_s=T0 + 0.7))) == [("save", "train.end")]
    assert unit.told("save") == ["training is over: the last copy, step-2.pt"]
    assert unit.request is None
    assert unit.ledger.run.end_sound is True


def test_a_copy_from_before_the_mark_does_not_serve_it():
    unit = desk(ending=ending(10, written_s=10), copies=(OLD, copy(2, 5, write_s=2, written_s=T0 + 7)))
    assert unit.look(10) == [("save", "train.end")]


def test_within_one_look_the_volumes_times_tell_which_was_first():
    unit = desk(ending=ending(1, written_s=0.5), copies=(OLD, copy(2, 1, write_s=0, written_s=T0 + 0.2)))
    assert unit.look(1) == [("save", "train.end")]
    assert unit.request is not None


def test_a_final_write_that_goes_on_is_waited_for():
    unit = desk(ending=ending(0), job=Job(alive=True))
    unit.look(0)
    unit.look(5, copies=(OLD, writing(2, 5, changed_s=T0 + 5)))
    assert unit.look(8, job=Job(alive=False), copies=(OLD, writing(2, 5, changed_s=T0 + 8))) == []
    assert unit.ledger.run.ended_s is None
    unit.look(12, copies=(OLD, copy(2, 5, write_s=6)))
    assert unit.ledger.run.end_sound is True


def test_a_final_write_that_was_cut_is_judged_before_the_end_is():
    unit = desk(ending=ending(0), job=Job(alive=False))
    unit.look(10, copies=(OLD, writing(2, 1, changed_s=T0 + 3)))
    assert unit.ledger.run.ended_s is None or unit.ledger.run.end_sound is not True


@pytest.mark.parametrize(
    ("last", "sound"),
    [
        pytest.param(copy(2, -60), True, id="a sound last copy"),
        pytest.param(broken(2, -60), False, id="a broken last copy"),
    ],
)
def test_when_the_job_is_gone_what_is_there_is_judged(last, sound):
    unit = desk(copies=(OLD, last), ending=ending(0), job=Job(alive=False))
    unit.ledger = evolve(unit.ledger, repaired=(2,))
    assert unit.look(0) == [("skip", "unheard")]
    assert "nobody is left to write" in unit.told("skip")[0]
    assert unit.request is None
    assert unit.ledger.run.end_sound is sound
    assert unit.until(1000, every_s=10) == []


def test_a_termination_of_a_job_that_is_gone_holds_nobody_up():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=600),), job=Job(alive=True))
    unit.look(0)
    assert unit.look(5, job=Job(alive=False)) == [("skip", "unheard")]
    assert unit.request is None
    assert unit.acked("risk.terminate") == "missed"


def test_a_job_that_cannot_be_told_to_be_gone_is_not():
    unit = desk(ending=ending(0), job=Job(alive=None))
    assert unit.look(0) == [("save", "train.end")]


def test_a_broken_last_copy_is_repaired_while_the_job_is_there():
    unit = desk(ending=ending(0), job=Job(alive=True))
    unit.look(0)
    assert unit.look(46, copies=(OLD, broken(2, 5))) == [("repair", "train.end")]
    unit.look(90, copies=(OLD, broken(2, 5), copy(3, 48)))
    assert unit.ledger.run.end_sound is True


def test_a_broken_last_copy_is_not_repaired_when_nobody_is_left():
    unit = desk(ending=ending(0), job=Job(alive=True))
    unit.look(0)
    lines = unit.look(46, copies=(OLD, broken(2, 5)), job=Job(alive=False))
    assert ("repair", "broken") not in lines
    unit.until(200)
    assert unit.request is None
    assert unit.ledger.run.end_sound is False


def test_an_end_that_nobody_answers_is_asked_for_once():
    unit = desk(ending=ending(0))
    unit.until(400, every_s=1)
    assert [line.reason for line in unit.lines] == ["train.end", "unheard"]
    assert unit.request is None
    assert unit.ledger.run.end_sound is False
    assert unit.until(4000, every_s=20) == []


def test_a_job_that_wrote_just_before_its_mark_and_went_has_its_end():
    last = copy(2, -4, write_s=3, written_s=T0 - 1)
    unit = desk(ending=ending(0, written_s=0), copies=(OLD, last))
    assert [line[1:] for line in unit.until(70)] == [("save", "train.end"), ("skip", "unheard")]
    assert unit.ledger.run.end_sound is True
    assert "written just before the mark" in unit.told("skip")[0]
    assert unit.until(2000, every_s=10) == []


def test_a_copy_of_unknown_worth_ends_the_waiting_but_is_not_called_sound():
    unit = desk(ending=ending(0))
    unit.look(0)
    unreadable = copy(2, 5, CopyStatus.UNKNOWN, why="permission denied")
    assert unit.look(46, copies=(OLD, unreadable)) == [("unknown", "train.end")]
    assert "permission denied" in unit.told("unknown")[0]
    assert unit.request is None
    assert unit.ledger.run.end_sound is False
    assert unit.until(1000, every_s=10) == []


def test_a_new_job_after_the_end_is_watched_again():
    unit = desk(ending=ending(0), numbers=Numbers(with_us_s=300.0), job=Job(identity="a"))
    unit.look(0)
    unit.look(46, copies=(OLD, copy(2, 5)))
    said = unit.until(1000, every_s=1, job=Job(identity="b"))
    assert said[0][1:] == ("save", "window")


def test_a_copy_that_begins_after_the_end_shows_a_new_job():
    unit = desk(ending=ending(0), numbers=Numbers(with_us_s=300.0))
    unit.look(0)
    unit.look(46, copies=(OLD, copy(2, 5)))
    unit.until(500, every_s=5)
    said = unit.until(900, every_s=1, copies=(OLD, copy(2, 5), copy(3, 440)))
    assert said[0][1:] == ("save", "window")


def test_a_quiet_last_write_of_a_job_that_is_gone_is_judged_before_the_end_is():
    unit = desk(ending=ending(0), job=Job(alive=True))
    unit.look(0)
    stopped = writing(2, 5, changed_s=T0 + 10)
    assert unit.look(55, job=Job(alive=False), copies=(OLD, stopped)) == []
    assert unit.ledger.run.ended_s is None
    unit.look(120, copies=(OLD, broken(2, 5)))
    assert unit.ledger.run.end_sound is False


def test_an_end_that_comes_out_broken_again_and_again_is_given_up():
    unit = desk(ending=ending(0), volume=None)
    unit.look(0)
    copies = (OLD,)
    for n in range(6):
        copies = (*copies, broken(2 + n, 1 + 20 * n, write_s=10))
        unit.look(19 + 20 * n, copies=copies)
    assert unit.request is None
    assert unit.ledger.run.end_sound is False
    assert len(unit.told("save")) + len(unit.told("repair")) == 1 + 3
