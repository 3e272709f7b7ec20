"""A unit in which nothing happens costs a look and a beat; whatever happens is decided at the next look."""

from __future__ import annotations

import json

import pytest

import ckpt_governor.unit as unit_module
from ckpt_governor.files import paths_of
from ckpt_governor.observe.clock import Clock
from ckpt_governor.settings import Settings
from ckpt_governor.unit import QUIET_S_MAX, Unit

BEGIN_S = 1764424800.0


class Hands:
    """A unit with a clock that is set by hand; counts the decisions that were computed."""

    def __init__(self, folder, monkeypatch, **settings):
        self.now_s = 0.0
        self.clock = Clock(
            wall=lambda: BEGIN_S + self.now_s, monotonic=lambda: self.now_s, boot=lambda: self.now_s
        )
        self.decided = 0
        decide = unit_module.decide

        def counted(*inputs):
            self.decided += 1
            return decide(*inputs)

        monkeypatch.setattr(unit_module, "decide", counted)
        self.unit = Unit(paths_of(str(folder)), Settings(unit=str(folder), **settings), "hands")
        self.unit.open(self.clock.moment())
        self.state_file = folder / ".ckpt-governor" / "state.json"
        self.glue = folder / ".ckpt-governor" / "glue"

    def pass_s(self, seconds):
        """So many seconds, a look each; returns the verdicts and reasons."""
        said = []
        for _ in range(int(seconds)):
            self.now_s += 1.0
            tick = self.unit.tick(self.clock.moment())
            said += [(line.verdict.value, line.reason) for line in tick.decisions]
        return said

    def state(self):
        return json.loads(self.state_file.read_bytes())


@pytest.fixture
def hands(tmp_path, monkeypatch):
    hands = Hands(tmp_path, monkeypatch)
    yield hands
    hands.unit.release()


def test_a_quiet_unit_is_decided_anew_only_after_a_while(hands):
    hands.pass_s(3)
    before = hands.decided
    assert hands.pass_s(60) == []
    assert 60 / QUIET_S_MAX - 1 <= hands.decided - before <= 60 / QUIET_S_MAX + 1


def test_its_beat_goes_on(hands):
    hands.pass_s(3)
    before = hands.state()
    hands.pass_s(60)
    after = hands.state()
    assert after["beat"] - before["beat"] in (11, 12, 13)
    assert after["written_at"] - before["written_at"] > 50
    assert after["governor"]["alive"] is True


def test_a_notice_in_the_quiet_is_decided_at_the_next_looks(hands):
    hands.pass_s(30)
    (hands.glue / "risk.preempt").touch()
    assert ("save", "risk.preempt") in hands.pass_s(2)


def test_numbers_that_turn_bad_in_the_quiet_are_told(hands, tmp_path):
    hands.pass_s(30)
    (tmp_path / ".ckpt-governor" / "numbers.json").write_text('{"with_us": 0}')
    assert ("unknown", "numbers") in hands.pass_s(3)


def test_a_window_closes_in_the_quiet_to_the_second(tmp_path, monkeypatch):
    hands = Hands(tmp_path, monkeypatch, with_us="100s")
    assert hands.pass_s(74) == []
    assert hands.pass_s(2) == [("save", "window")]
    hands.unit.release()


def test_a_beat_that_cannot_be_written_ends_the_quiet(hands, monkeypatch):
    hands.pass_s(10)
    monkeypatch.setattr(
        type(hands.unit._announcer), "beat", lambda *_: "state cannot be written: for the test"
    )
    hands.pass_s(1)
    monkeypatch.undo()
    assert ("unknown", "blind") in hands.pass_s(1)
