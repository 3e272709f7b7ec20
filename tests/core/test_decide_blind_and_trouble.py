"""A unit that cannot be read gets no request; what cannot be read is said once and stops nothing."""

from __future__ import annotations

import pytest
from core.build import Desk, copy, ending, notice, reading

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Leftover, Trouble
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


# ---- what dead writes have left


def left(name: str, size: int = 1_200_000) -> Leftover:
    return Leftover(name=name, bytes=size)


def test_each_leftover_is_named_once_with_its_bytes():
    unit = Desk(leftovers=(left("a.tmp"),))
    assert unit.look(0) == [("unknown", "leftover")]
    assert unit.told("unknown") == ["left of a write that died: a.tmp (1.2 MB)"]
    assert unit.until(60) == []
    assert unit.look(61, leftovers=(left("a.tmp"), left("b.tmp", 3_000_000))) == [("unknown", "leftover")]
    assert unit.told("unknown")[-1] == "left of a write that died: b.tmp (3.0 MB)"
    assert unit.request is None


def test_several_at_one_look_are_one_line():
    unit = Desk(leftovers=tuple(left(f"{n}.tmp", 10**6 * n) for n in range(1, 8)))
    assert unit.look(0) == [("unknown", "leftover")]
    assert unit.told("unknown") == [
        "left of a write that died: 1.tmp (1.0 MB), 2.tmp (2.0 MB), 3.tmp (3.0 MB), 4.tmp (4.0 MB), 5.tmp (5.0 MB)"
        " and 2 more, 28.0 MB in all"
    ]


def test_one_that_was_removed_and_is_left_again_is_named_again():
    unit = Desk(leftovers=(left("a.tmp"),))
    unit.look(0)
    unit.look(5, leftovers=())
    assert unit.look(6, leftovers=(left("a.tmp"),)) == [("unknown", "leftover")]
