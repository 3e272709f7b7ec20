"""An undated risk: one write at the onset, unless the newest copy is fresh enough."""

from __future__ import annotations

import pytest
from core.build import T0, Desk, copy, knowing, notice, reading, writing

from ckpt_governor.conditions import TRAITS, Condition

UNDATED = [c for c in Condition if c not in (Condition.REQUEST, Condition.TERMINATE)]
names = [condition.value for condition in UNDATED]


@pytest.mark.parametrize("condition", UNDATED, ids=names)
def test_a_risk_is_written_for_when_more_is_at_stake_than_a_write_costs(condition):
    at_stake_s = 40 / TRAITS[condition].precision
    for age_s, said in ((at_stake_s + 1, ("save", condition.value)), (at_stake_s - 1, ("skip", "fresh"))):
        unit = Desk(copies=(copy(1, -age_s),), notices=(notice(condition),))
        assert unit.look(0) == [said]


def test_a_refusal_says_what_is_at_stake_and_what_a_write_takes():
    unit = Desk(copies=(copy(1, -20),), notices=(notice(),))
    unit.look(0)
    assert unit.told("skip", "fresh") == ["risk.preempt: only 20s of work is unsaved, a write takes 40s"]


def test_a_notice_counts_as_served_by_the_fresh_copy():
    unit = Desk(copies=(copy(1, -20),), notices=(notice(),))
    unit.look(0)
    assert unit.acked("risk.preempt") == "served"
    assert unit.cause("notice:file:risk.preempt:11").served_by == 1
    assert unit.until(5000, every_s=20) == []


@pytest.mark.parametrize("condition", [Condition.REQUEST, Condition.TERMINATE])
def test_somebody_who_asks_is_never_told_that_the_copy_is_fresh(condition):
    unit = Desk(knowing(write_s=10), copies=(copy(1, -2, write_s=2),), notices=(notice(condition),))
    assert unit.look(0) == [("save", condition.value)]


def test_a_dated_end_is_never_fresh():
    unit = Desk(copies=(copy(1, -20),), notices=(notice(deadline_s=60),))
    unit.until(8)
    assert unit.told("skip", "fresh") == []
    assert unit.told("save") != []


def test_without_a_sound_copy_nothing_is_fresh():
    unit = Desk(copies=(), notices=(notice(),))
    assert unit.look(0) == [("save", "risk.preempt")]


def test_with_an_unknown_write_time_nothing_is_fresh():
    unit = Desk(knowing(write_s=None), copies=(copy(1, -20),), notices=(notice(),))
    assert unit.look(0) == [("save", "risk.preempt")]


def test_an_edge_that_was_fresh_is_written_for_after_its_period():
    unit = Desk(
        knowing(write_s=4, gap_s=1),
        copies=(copy(1, -5, write_s=4),),
        readings=(reading(Condition.MEMORY, True),),
    )
    assert unit.look(0) == [("skip", "fresh")]
    assert unit.until(80) == [(80.0, "save", "risk.memory")]


def test_a_write_that_goes_on_is_waited_for():
    going = writing(2, -3, changed_s=T0)
    unit = Desk(copies=(copy(1, -900), going), notices=(notice(),))
    assert unit.look(0) == [("skip", "in-flight")]
    assert unit.look(40, copies=(copy(1, -900), copy(2, -3))) == [("skip", "fresh")]
    assert unit.acked("risk.preempt") == "served"
