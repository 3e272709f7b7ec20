"""A unit that cannot be read gets no request; what cannot be read is said once and stops nothing."""

from __future__ import annotations

import pytest
from core.build import Desk, copy, ending, notice, reading

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Trouble
from ckpt_governor.ledger import SAID_MAX
from ckpt_governor.numbers import Numbers

OLD = copy(1, -900)
EVERYTHING = {
    "notices": (notice(), notice(Condition.TERMINATE, inode=12), notice(Condition.REQUEST, inode=13)),
    "ending": ending(0),
    "readings": (reading(Condition.MEMORY, True),),
}


def test_a_blind_unit_gets_no_request_whatever_is_announced():
    unit = Desk(
        numbers=Numbers(with_us_s=60.0), copies=(OLD,), blind="glue cannot be read: EIO", **EVERYTHING
    )
    assert unit.look(0) == [("unknown", "blind")]
    assert unit.told("unknown") == ["glue cannot be read: EIO"]
    assert unit.until(1000, every_s=10) == []
    assert unit.request is None


def test_it_decides_as_soon_as_it_can_see():
    unit = Desk(copies=(OLD,), blind="EIO")
    unit.look(0)
    assert unit.look(1, blind="", notices=(notice(),)) == [("save", "risk.preempt")]


def test_it_is_said_again_when_it_was_readable_in_between():
    unit = Desk(copies=(OLD,), blind="EIO")
    assert unit.look(0) == [("unknown", "blind")]
    assert unit.look(1, blind="") == []
    assert unit.look(2, blind="EIO") == [("unknown", "blind")]


def test_what_is_not_seen_is_not_withdrawn():
    unit = Desk(copies=(OLD,), notices=(notice(),))
    unit.look(0)
    request = unit.request
    unit.look(1, blind="EIO", notices=(), copies=())
    assert unit.request == request
    assert unit.look(2, blind="", notices=(notice(),), copies=(OLD,)) == []
    assert unit.request == request


def trouble(key: str, **fields: object) -> Trouble:
    """Something that cannot be read."""
    return Trouble(**{"key": key, "reason": "glue", "text": f"glue/{key}: not JSON", **fields})


def test_trouble_is_said_once_and_stops_nothing():
    unit = Desk(copies=(OLD,), troubles=(trouble("a"),), notices=(notice(),))
    assert unit.look(0) == [("unknown", "glue"), ("save", "risk.preempt")]
    assert unit.told("unknown") == ["glue/a: not JSON"]
    assert unit.until(50) == []


def test_trouble_that_was_gone_is_said_again():
    unit = Desk(copies=(OLD,), troubles=(trouble("a"),))
    unit.look(0)
    assert unit.look(1, troubles=()) == []
    assert unit.look(2, troubles=(trouble("a"),)) == [("unknown", "glue")]


def test_the_reason_is_the_condition_that_is_unknown():
    unit = Desk(troubles=(trouble("a", reason="risk.memory", condition=Condition.MEMORY),))
    assert unit.look(0) == [("unknown", "risk.memory")]


@pytest.mark.parametrize("count", [300, 2000])
def test_very_much_trouble_is_no_storm(count):
    unit = Desk(copies=(OLD,), troubles=tuple(trouble(f"k{n}") for n in range(count)))
    first = unit.look(0)
    assert 0 < len(first) <= count
    assert unit.until(20) == []
    assert len(unit.ledger.said) <= SAID_MAX


def test_damage_is_seen_by_a_blind_unit_as_well():
    unit = Desk(blind="EIO", troubles=(trouble("a"),))
    assert unit.look(0) == [("unknown", "glue"), ("unknown", "blind")]


def test_when_nothing_is_wanted_nothing_is_said():
    unit = Desk(copies=(OLD,), ledger=None)
    assert unit.until(4000, every_s=10) == []
    assert unit.request is None
