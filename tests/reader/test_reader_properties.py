"""Random bytes and random histories: never an exception, never a second yes for one id, never one without a cause."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ckpt_reader
from ckpt_governor.durations import parse_duration

KEYS = ["v", "governor", "id", "alive", "beat", "beat_every_s", "request", "no_us_s", "kind", "no_us"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
NEARLY_STATES = st.fixed_dictionaries(
    {"governor": st.fixed_dictionaries({"id": SCALARS, "alive": st.booleans() | VALUES})},
    optional={
        "v": st.sampled_from([1, 1, 1, 2, None]),
        "beat": st.integers() | VALUES,
        "beat_every_s": SCALARS,
        "no_us_s": SCALARS,
        "request": VALUES | st.fixed_dictionaries({"id": st.integers(0, 5) | VALUES}),
    },
)
CONTENTS = st.binary(max_size=64) | (VALUES | NEARLY_STATES).map(lambda value: json.dumps(value).encode())

BEATS = st.fixed_dictionaries(
    {
        "event": st.sampled_from(["beat", "beat", "beat", "beat", "nothing", "damage", "remove", "stop"]),
        "request": st.none() | st.integers(1, 6),
        "after_s": st.sampled_from([0.0625, 1.0, 5.0, 29.0, 40.0, 700.0]),
    }
)


@pytest.fixture(scope="module")
def new_folder(tmp_path_factory):
    """A folder for every example, so that none sees another's files."""
    folder, numbers = tmp_path_factory.mktemp("units"), itertools.count()

    def new():
        path = folder / str(next(numbers))
        (path / ".ckpt-governor").mkdir(parents=True)
        return path

    return new


@settings(max_examples=150)
@given(contents=st.lists(st.tuples(CONTENTS, CONTENTS, st.floats(0, 1e4)), min_size=1, max_size=5))
def test_no_content_makes_it_raise_or_answer_one_id_twice(new_folder, contents):
    path, now, served = new_folder(), [0.0], []
    reader = ckpt_reader._Reader(str(path), lambda: now[0])
    for state, numbers, after_s in contents:
        (path / ".ckpt-governor" / "state.json").write_bytes(state)
        (path / ".ckpt-governor" / "numbers.json").write_bytes(numbers)
        for wait_s in (after_s, 0.0625):
            now[0] += wait_s
            before = reader.served
            if reader.ask() and reader.served != before:
                served.append(reader.served)
    assert served == sorted(set(served))


@settings(max_examples=150)
@given(history=st.lists(BEATS, max_size=25), no_us_s=st.none() | st.sampled_from([60.0, 600.0]))
def test_every_yes_has_its_cause(new_folder, history, no_us_s):
    path, now, beat = new_folder(), [0.0], itertools.count()
    state_path = path / ".ckpt-governor" / "state.json"
    reader = ckpt_reader._Reader(str(path), lambda: now[0])
    highest, saved_at, looked, damaged = 0, 0.0, False, False
    for step in history:
        now[0] += step["after_s"]
        event, request = step["event"], step["request"]
        if event in ("beat", "stop"):
            state = {
                "v": 1,
                "governor": {"id": "g", "alive": event == "beat"},
                "beat": next(beat),
                "beat_every_s": 5.0,
                "request": request and {"id": request},
                "no_us_s": no_us_s,
            }
            state_path.write_text(json.dumps(state))
        elif event == "damage":
            state_path.write_bytes(b"{")
        elif event == "remove":
            state_path.unlink(missing_ok=True)
        damaged = event == "damage" or (damaged and event == "nothing")
        answer = reader.ask()
        if event == "beat" and looked:  # it lives: a new request counts, and nothing else
            assert answer is (request is not None and request > highest)
        elif answer:  # only the job's own period is left
            assert no_us_s is not None
            assert now[0] - saved_at >= no_us_s
        if answer:
            highest = max(highest, (request or 0) if event == "beat" else 0)
            saved_at = now[0]
        looked = looked or not damaged


@given(
    value=SCALARS
    | st.from_regex(r"\A([0-9]{1,4}(\.[0-9])?[wdhms]){1,3}\Z")
    | st.from_regex(r"\A\s?[0-9.]{1,6}[wdhmsDHMS]?\s?\Z")
)
def test_reader_and_governor_read_the_same_period(value):
    try:
        expected = parse_duration(value)
    except ValueError:
        expected = None
    found = ckpt_reader._period_s(value)
    assert found == (float("inf") if value in (None, "none") else expected)
