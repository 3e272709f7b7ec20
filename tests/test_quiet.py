"""A unit in which nothing happens costs a look and a beat; whatever happens is decided at the next look."""

from __future__ import annotations

import json
import os

import pytest
from formats.making import torch_zip

import ckpt_governor.unit as unit_module
from ckpt_governor.files import paths_of
from ckpt_governor.observe.clock import Clock
from ckpt_governor.quiet import QUIET_S_MAX
from ckpt_governor.settings import Settings
from ckpt_governor.unit import Unit

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


@pytest.mark.parametrize("quiet_s", [1, 2, 3, 4, 20])
def test_numbers_that_change_are_in_the_next_state_however_quiet_the_unit_is(hands, quiet_s):
    numbers = hands.unit.paths.of("numbers.json")
    with open(numbers, "w") as file:
        file.write('{"v": 1, "no_us": "5m", "with_us": "2h"}')
    hands.pass_s(quiet_s)
    with open(numbers, "w") as file:
        file.write('{"v": 1, "no_us": "6m", "with_us": "2h30m"}')
    hands.pass_s(1)
    assert (hands.state()["no_us_s"], hands.state()["with_us_s"]) == (360, 9000)
    hands.pass_s(40)  # beats of the quiet unit tell the same
    assert (hands.state()["no_us_s"], hands.state()["with_us_s"]) == (360, 9000)


def test_a_unit_that_turns_blind_is_told_at_the_next_look(hands):
    hands.pass_s(3)
    hands.glue.rmdir()
    hands.glue.write_text("no folder")
    assert hands.pass_s(1) == [("unknown", "blind")]


def test_the_receipt_knows_how_stale_the_copy_became_while_the_unit_rested(hands):
    hands.pass_s(14)
    assert hands.unit.close(hands.clock.moment()).stalest_s == pytest.approx(13.0, abs=1.01)


def test_a_change_after_a_rest_finds_how_stale_the_copy_was_until_then(hands):
    hands.pass_s(12)
    (hands.state_file.parent.parent / "step_1.pt").write_bytes(torch_zip())
    hands.pass_s(1)
    assert hands.unit.ledger.run.stalest_s == pytest.approx(11.0, abs=1.01)


@pytest.mark.parametrize("duration_s", [607, 612, 620])
def test_the_end_of_the_allotted_time_is_looked_ahead_at_in_time(tmp_path, monkeypatch, duration_s):
    hands = Hands(tmp_path, monkeypatch, duration=f"{duration_s}s")
    hands.pass_s(duration_s - 600 - 2)
    assert hands.state()["conditions"]["risk.walltime"] == 0
    hands.pass_s(3)
    assert hands.state()["conditions"]["risk.walltime"] == 1
    hands.unit.release()


def test_a_second_fault_in_the_numbers_is_told_too(hands):
    numbers = hands.unit.paths.of("numbers.json")
    for text in ('{"v": 1, "with_us": "soon"}', '{"v": 1, "with_us": "2h", "no_us": {}}'):
        with open(numbers, "w") as file:
            file.write(text)
        assert hands.pass_s(3) == [("unknown", "numbers")]


def test_a_glue_folder_that_was_deleted_is_made_again_at_the_next_look(hands):
    hands.pass_s(3)
    hands.glue.rmdir()
    hands.pass_s(1)
    assert hands.glue.is_dir()


def rewrite_in_one_step_of_the_clock(path, text):
    """In place, with the size and the time it had: how a write within one step of a coarse clock looks."""
    found = os.stat(path)
    with open(path, "w") as file:
        file.write(text)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert os.stat(path).st_size == found.st_size


@pytest.mark.parametrize("looks_between", [1, 2])
def test_numbers_written_twice_within_one_step_of_the_volumes_clock_are_those_of_the_second(
    hands, looks_between
):
    numbers = hands.unit.paths.of("numbers.json")
    with open(numbers, "w") as file:
        file.write('{"v": 1, "with_us": "2h"}')
    hands.pass_s(looks_between)
    rewrite_in_one_step_of_the_clock(numbers, '{"v": 1, "with_us": "3h"}')
    hands.pass_s(1)
    assert hands.state()["with_us_s"] == 10800


def test_a_request_heard_within_one_step_of_the_volumes_clock_is_heard(hands):
    seen = hands.glue / "seen"
    seen.write_text('{"v": 1, "id": 7}')
    hands.pass_s(1)
    assert hands.unit.world.heard_id == 7
    rewrite_in_one_step_of_the_clock(seen, '{"v": 1, "id": 8}')
    hands.pass_s(1)
    assert hands.unit.world.heard_id == 8
