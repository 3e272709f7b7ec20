"""The governor's memory: what is written is what is read, and damage is told, never half believed."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, get_args, get_origin

import attrs
import pytest
from attrs import evolve
from core.build import T0, Desk, broken, copy, ending, knowing, notice, reading
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.conditions import Condition
from ckpt_governor.decide import decide
from ckpt_governor.durations import DURATION_S_MAX
from ckpt_governor.facts import CopyStatus, FailedWrite, Job, Leftover, Observation, Trouble, Volume
from ckpt_governor.ledger import (
    Cause,
    CauseState,
    Decision,
    Edge,
    Ledger,
    Request,
    RequestKind,
    Run,
    SpaceBlock,
    Verdict,
    Write,
    said,
    say,
)
from ckpt_governor.memory import decision_facts, encode_decision, encode_ledger, parse_facts, parse_ledger
from ckpt_governor.numbers import Numbers
from ckpt_governor.records import UNIX_TIME_MAX, RecordError

PLAIN: dict[object, st.SearchStrategy] = {
    float: st.floats(-UNIX_TIME_MAX, UNIX_TIME_MAX),
    int: st.integers(0, 2**62),
    str: st.text(max_size=12),
    bool: st.booleans(),
    type(None): st.none(),
}


DURATIONS = st.lists(st.floats(0, DURATION_S_MAX), max_size=3).map(tuple)
NAMED: dict[str, st.SearchStrategy] = {
    "key": st.builds(
        str.__add__, st.sampled_from(["notice:", "end:", "edge:", "window:", "broken:"]), st.text()
    ),
    "write_samples_s": DURATIONS,
    "gap_samples_s": DURATIONS,
}
"""What must be more than of the right type."""


def anything(kind: Any) -> st.SearchStrategy:
    """Any value of this type, as far as a file can hold it; collections are short."""
    if kind in PLAIN:
        return PLAIN[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        return st.lists(anything(inner[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(st.text(max_size=5), anything(inner[1]), max_size=2)
    if origin is not None:
        return st.one_of([anything(part) for part in inner])
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    fields = {field.name: anything(field.type) for field in attrs.fields(attrs.resolve_types(kind))}
    return st.builds(kind, **{name: NAMED.get(name, values) for name, values in fields.items()})


@given(anything(Ledger))
def test_any_ledger_that_is_written_is_read_again(ledger):
    assert parse_ledger(encode_ledger(ledger)) == ledger


FULL = Ledger(
    last_id=1764424863123,
    look_s=T0,
    run=Run(
        governor_id="h-1-1",
        token="t",
        started_s=T0,
        job_started_s=T0,
        writes=(Write(at_s=T0, reason="window", write_s=None, name="a", status=CopyStatus.BROKEN, bytes=3),),
        refused={"no-time": 2},
        end_sound=False,
        ended_s=T0,
    ),
    request=Request(
        id=7, kind=RequestKind.REPAIR, reason="broken", at_s=T0, first_at_s=T0, deadline_s=T0 + 5
    ),
    causes=(Cause(key="notice:x", reason="risk.preempt", seen_s=T0, since_s=T0, state=CauseState.MISSED),),
    copies=(copy(1, 0), broken(2, 10)),
    judged=(1, -2),
    write_samples_s=(1.5, 2.0),
    edges={"risk.memory": Edge(since_s=T0, written_s=T0, latched=False)},
    space_block=SpaceBlock(bytes=1, free_bytes=2, copy_count=3),
    said=("a", "b"),
    last=Decision(verdict=Verdict.SAVE, reason="window", text="t", at_s=T0, request_id=7, cause="window:1"),
)


def test_a_full_ledger_is_read_again_as_it_was():
    text = encode_ledger(FULL)
    assert parse_ledger(text) == FULL
    assert parse_ledger(text.encode()) == FULL
    assert "\n" not in text
    assert json.loads(text)["v"] == 1


def test_an_empty_ledger_is_read_as_a_new_one():
    assert parse_ledger('{"v":1}') == Ledger()


def test_a_ledger_of_a_later_release_is_read_without_what_is_not_known():
    record = json.loads(encode_ledger(FULL))
    record["weather"] = "fine"
    record["run"]["weather"] = ["fine"]
    assert parse_ledger(json.dumps(record)) == FULL


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param('{"v":1,"last_id":', id="cut"),
        pytest.param('{"v":2}', id="another version"),
        pytest.param('{"v":1,"last_id":"7"}', id="a text for a number"),
        pytest.param('{"v":1,"last_id":true}', id="true for a number"),
        pytest.param('{"v":1,"last_id":1.5}', id="a fraction for a whole number"),
        pytest.param('{"v":1,"said":3}', id="a number for a list"),
        pytest.param('{"v":1,"run":[]}', id="a list for an object"),
        pytest.param('{"v":1,"said":"abc"}', id="a text for a list"),
        pytest.param('{"v":1,"causes":{}}', id="an object for a list"),
        pytest.param('{"v":1,"edges":[]}', id="a list for a table"),
        pytest.param('{"v":1,"causes":[{"key":"x"}]}', id="a cause without its fields"),
        pytest.param(
            '{"v":1,"request":{"id":1,"kind":"wish","reason":"","at_s":0,"first_at_s":0}}', id="another word"
        ),
        pytest.param('{"v":1,"look_s":1e999}', id="infinity"),
        pytest.param('{"v":1,"look_s":NaN}', id="nan"),
        pytest.param(f'{{"v":1,"look_s":{10**400}}}', id="beyond a float"),
        pytest.param('{"v":1,"write_samples_s":[1e999]}', id="infinity within"),
        pytest.param('{"v":1,"write_samples_s":[-1]}', id="a write that took less than nothing"),
        pytest.param('{"v":1,"gap_samples_s":[1e12]}', id="a gap of an age"),
        pytest.param('{"v":1,"look_s":1e300}', id="a moment beyond the calendar"),
        pytest.param('{"v":1,"last_id":-1}', id="a negative count"),
        pytest.param('{"v":1,"last_id":99999999999999999999}', id="more than can be counted"),
        pytest.param(
            '{"v":1,"causes":[{"key":"wish:1","reason":"","seen_s":0,"since_s":0}]}', id="a cause of no sort"
        ),
    ],
)
def test_a_damaged_ledger_is_told_with_its_name(text):
    with pytest.raises(RecordError) as refused:
        parse_ledger(text)
    assert refused.value.file == "ledger.json"
    assert len(str(refused.value)) < 250


@given(st.integers(0, 3000), st.binary(max_size=3))
def test_a_ledger_with_other_bytes_in_it_is_read_or_told(place, bytes_in_it):
    text = encode_ledger(FULL).encode()
    place %= len(text)
    torn = text[:place] + bytes_in_it + text[place + len(bytes_in_it) :]
    try:
        ledger = parse_ledger(torn)
    except RecordError:
        return
    assert parse_ledger(encode_ledger(ledger)) == ledger


# ---- the facts of a decision


def worlds() -> list[tuple[Observation, Numbers, Ledger]]:
    """Moments at which something is decided."""
    rich = Desk(
        evolve(knowing(), copies=(copy(1, -900),)),
        Numbers(with_us_s=600.0, no_us_s=1800.0, duration_s=9000.0),
        copies=(copy(1, -900), broken(2, -30)),
        notices=(notice(Condition.PREEMPT, deadline_s=300.0), notice(Condition.TERMINATE, deadline_s=20.0)),
        readings=(reading(Condition.MEMORY, True), reading(Condition.THERMAL, None)),
        ending=ending(-1),
        job=Job(started_s=T0 - 4000, alive=True, failed=FailedWrite(bytes=1, errno=28), identity="j"),
        troubles=(Trouble(key="k", reason="glue", text="t", condition=Condition.EVICT),),
        leftovers=(Leftover(name="a.tmp", bytes=7),),
        heard_id=3,
        heard_s=T0,
    )
    blind = Desk(blind="it cannot be read")
    full = Desk(
        numbers=Numbers(with_us_s=600.0),
        copies=(copy(1, -900),),
        volume=Volume(free_bytes=0, total_bytes=10**12, free_inodes=0),
    )
    return [(desk.world(0), desk.numbers, desk.ledger) for desk in (rich, blind, full)]


@pytest.mark.parametrize("inputs", worlds(), ids=["rich", "blind", "full"])
def test_the_facts_of_a_decision_decide_the_same_again(inputs):
    world, numbers, ledger = inputs
    decided = decide(world, numbers, ledger).decisions
    assert decided
    line = encode_decision(decided[0], "unit", 1.5, decision_facts(world, numbers, ledger))
    record = json.loads(line)
    again = parse_facts(record["facts"], "decisions.jsonl")
    assert decide(*again).decisions == decided


def test_a_line_of_the_decisions_has_the_documented_shape():
    decision = Decision(
        verdict=Verdict.SAVE,
        reason="risk.preempt",
        text="more urgent work",
        at_s=T0,
        request_id=7,
        cause="notice:x",
    )
    line = encode_decision(decision, "a", 1764424863.5, {"world": {}})
    assert line == (
        '{"v":1,"at":1764424863.5,"unit":"a","verdict":"save","reason":"risk.preempt","text":"more urgent work",'
        '"request":7,"facts":{"world":{}}}'
    )


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="a list"),
        pytest.param({}, id="empty"),
        pytest.param(
            {"world": {"unit": "u", "now_s": "then"}, "numbers": {}, "ledger": {}}, id="a wrong field"
        ),
        pytest.param({"world": {"unit": "u", "now_s": 0}, "numbers": {}, "ledger": []}, id="a wrong ledger"),
    ],
)
def test_facts_that_are_damaged_are_told(facts):
    with pytest.raises(RecordError) as refused:
        parse_facts(facts, "decisions.jsonl")
    assert refused.value.field == "facts"


def test_a_line_that_holds_already_is_remembered_once():
    once = say(Ledger(), "skip:no-time:notice:x")
    assert say(once, "skip:no-time:notice:x") is once
    assert said(once, "skip:no-time:notice:x")
