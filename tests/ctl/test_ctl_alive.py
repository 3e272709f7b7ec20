"""Whether a governor counts as alive: what state.json says, how old it is, and what damage makes of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.cli.alive import parse_state
from ckpt_governor.cli.waiting import STOPPED_S, Watch

NOW = 1_764_424_863.0
STATE = {"v": 1, "governor": {"id": "a", "alive": True}, "beat": 3, "beat_every_s": 5.0, "written_at": NOW}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*STATE, "id", "alive"]), inner)
    ),
    max_leaves=8,
)


def state(modified_at: float = NOW, **changes):
    found = parse_state(json.dumps({**STATE, **changes}).encode(), modified_at)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("written_at", "modified_at", "lives"),
    [
        pytest.param(NOW - 4, NOW - 4, True, id="a beat ago"),
        pytest.param(NOW - 31, NOW - 31, False, id="more than six beats ago"),
        pytest.param(NOW - 900, NOW - 4, True, id="the governor's clock is slow"),
        pytest.param(NOW - 4, NOW + 900, True, id="the volume's clock is fast"),
        pytest.param(None, NOW - 4, True, id="it does not say when"),
    ],
)
def test_it_lives_when_it_says_so_and_said_so_lately(written_at, modified_at, lives):
    assert state(modified_at, written_at=written_at).lives(NOW) is lives


def test_one_that_has_stopped_does_not_live():
    assert not state(governor={"id": "a", "alive": False}).lives(NOW)


@given(JSON)
def test_any_json_is_a_state_or_none(value):
    found = parse_state(json.dumps(value).encode(), NOW)
    assert found is None or isinstance(found.lives(NOW), bool)


@given(st.dictionaries(st.sampled_from(list(STATE)), JSON))
def test_any_damage_of_one_field_is_survived(changes):
    found = parse_state(json.dumps({**STATE, **changes}).encode(), NOW)
    assert found is None or (0.05 <= found.beat_every_s <= 600 and isinstance(found.age_s(NOW), float))


@pytest.mark.parametrize(
    ("dropped_at", "patience_s"),
    [
        pytest.param(NOW + 1, 30.0, id="the last beat is not old"),
        pytest.param(NOW + 3600, 7.5, id="the volume itself says that it is old"),
    ],
)
def test_a_beat_that_does_not_move_is_waited_for(dropped_at, patience_s):
    watch = Watch(moved_s=0.0, dropped_at=dropped_at)
    assert watch.gone(state(), 0.0) == ""
    assert watch.gone(state(), patience_s - 0.1) == ""
    assert "has not moved" in watch.gone(state(), patience_s)


def test_a_beat_that_moves_starts_the_patience_anew():
    watch = Watch(moved_s=0.0, dropped_at=NOW)
    watch.gone(state(), 0.0)
    assert watch.gone(state(beat=4), 29.0) == ""
    assert watch.gone(state(beat=4), 58.0) == ""
    assert watch.gone(state(beat=4), 59.0) != ""


def test_another_governor_with_the_same_beat_is_a_move():
    watch = Watch(moved_s=0.0, dropped_at=NOW)
    watch.gone(state(), 0.0)
    assert watch.gone(state(governor={"id": "b", "alive": True}), 40.0) == ""


def test_a_stop_is_believed_after_a_moment_for_its_last_answers():
    watch = Watch(moved_s=0.0, dropped_at=NOW)
    stopped = state(governor={"id": "a", "alive": False})
    assert watch.gone(stopped, 1.0) == ""
    assert watch.gone(stopped, 1.0 + STOPPED_S) == "it has stopped"


def test_a_state_that_is_missing_for_a_moment_only_is_nothing():
    watch = Watch(moved_s=0.0, dropped_at=NOW)
    assert watch.gone(None, 0.0) == ""
    assert watch.gone(state(), 0.5) == ""
    assert watch.gone(None, 2.0) == ""
