"""Whatever happens, a governor that rests between changes says what one that decides at every look says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from formats.making import torch_zip
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ckpt_governor.announce as announce_module
import ckpt_governor.quiet as quiet_module
import ckpt_governor.unit as unit_module
from ckpt_governor.files import paths_of, replace_file
from ckpt_governor.ledger import CauseState
from ckpt_governor.observe.clock import Clock
from ckpt_governor.receipt import Receipt
from ckpt_governor.settings import Settings
from ckpt_governor.unit import Unit

WHOLE = torch_zip()
CONTROL = ".ckpt-governor"
SHOWN = ("no_us_s", "with_us_s", "last_id", "conditions")


class Side:
    """One of two governors that are shown the same, each on a folder of its own."""

    def __init__(self, folder: Path, clock: Clock, quiet_s: float) -> None:
        self.folder, self.clock, self.quiet_s = folder, clock, quiet_s
        self.unit = Unit(paths_of(str(folder)), Settings(unit=str(folder)), "side")
        self.unit.open(clock.moment())

    def tick(self, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
        """One look; what was said, and what the job can read."""
        monkeypatch.setattr(quiet_module, "QUIET_S_MAX", self.quiet_s)
        tick = self.unit.tick(self.clock.moment())
        said = [(line.verdict.value, line.reason) for line in tick.decisions if line.reason != "free-space"]
        state = json.loads((self.folder / ".ckpt-governor" / "state.json").read_bytes())
        request, newest = state.get("request") or {}, state.get("newest") or {}
        return (
            said,
            {name: state[name] for name in SHOWN},
            [request.get(name) for name in ("id", "kind", "reason")],
            [newest.get(name) for name in ("name", "sound")],
            {path.name: path.read_text() for path in (self.folder / ".ckpt-governor" / "acks").iterdir()},
            [
                (cause.reason, cause.state, cause.text, cause.asked_count)
                for cause in tick.ledger.causes
                if cause.live and cause.state is not CauseState.WITHDRAWN  # forgotten sooner or later
            ],
        )


class Twins:
    """Two units with one history; only the volume's times follow the clock that is set by hand."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.begin_s, self.monkeypatch = 0.0, time.time(), monkeypatch
        clock = Clock(
            wall=lambda: self.begin_s + self.now_s, monotonic=lambda: self.now_s, boot=lambda: self.now_s
        )

        def replaced(path: str, text: str, *, durable: bool = False) -> float:
            replace_file(path, text)
            return self.begin_s + self.now_s

        monkeypatch.setattr(announce_module, "replace_file", replaced)
        monkeypatch.setattr(Unit, "_volume_offset_s", lambda *_: 0.0)
        monkeypatch.setattr(unit_module, "volume", lambda _: None)  # the real one changes beside the test
        self.sides = []
        for name, quiet_s in (("awake", 0.0), ("resting", 15.0)):
            (folder / name).mkdir()
            self.sides.append(Side(folder / name, clock, quiet_s))

    def write(self, name: str, data: bytes) -> None:
        for side in self.sides:
            path = side.folder / name
            path.write_bytes(data)
            os.utime(path, (self.begin_s + self.now_s,) * 2)

    def remove(self, name: str) -> None:
        for side in self.sides:
            (side.folder / name).unlink(missing_ok=True)

    def pass_s(self, seconds: float) -> Iterator[tuple[object, object]]:
        """So long, a look each second: what the resting one said, and what the other one said."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 1.0
            awake, resting = (side.tick(self.monkeypatch) for side in self.sides)
            yield resting, awake

    def happens(self, kind: str, name: str, more: int | str | None) -> None:
        """One thing, to both."""
        if kind == "copy":
            self.write(name, WHOLE[: len(WHOLE) * more // 8])
        elif kind == "delete":
            self.remove(name)
        elif kind == "drop":
            text = b"" if more is None else json.dumps({"v": 1, "in": more}).encode()
            self.write(f"{CONTROL}/glue/{name}", text)
        elif kind == "take":
            self.remove(f"{CONTROL}/glue/{name}")
        elif kind == "numbers":
            text = json.dumps({"v": 1, "with_us": name, "no_us": more}).encode()
            self.write(f"{CONTROL}/numbers.json", text)
        elif kind == "ending":
            self.write(f"{CONTROL}/glue/ending", b"")
        else:
            self.write(f"{CONTROL}/glue/job.json", json.dumps({"v": 1, "duration": name}).encode())

    def close(self) -> list[Receipt]:
        """What each one's run came to."""
        return [side.unit.close(side.clock.moment()) for side in self.sides]


NAMES = st.sampled_from(["step-1.pt", "step-2.pt", "step-3.pt"])
NOTICES = st.sampled_from(
    ["risk.preempt", "risk.terminate.a", "risk.request", "risk.maintenance.b", "nothing"]
)
DURATIONS = st.sampled_from(["none", "7s", "20s", "auto"])
ACTIONS = st.one_of(
    st.tuples(st.just("copy"), NAMES, st.integers(1, 8)),
    st.tuples(st.just("delete"), NAMES, st.just(0)),
    st.tuples(st.just("drop"), NOTICES, st.sampled_from([None, 3, 30])),
    st.tuples(st.just("take"), NOTICES, st.just(0)),
    st.tuples(st.just("numbers"), DURATIONS, st.sampled_from(["none", "10s"])),
    st.tuples(st.just("ending"), st.just(""), st.just(0)),
    st.tuples(st.just("job"), st.sampled_from(["3s", "60s", "610s", "630s"]), st.just(0)),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(ACTIONS, st.sampled_from([1, 2, 5, 17, 40])), max_size=12))
def test_resting_changes_nothing_that_is_said(tmp_path_factory, history):
    with pytest.MonkeyPatch.context() as monkeypatch:
        twins = Twins(tmp_path_factory.mktemp("twins"), monkeypatch)
        try:
            for happening, seconds in history:
                twins.happens(*happening)
                for resting, awake in twins.pass_s(seconds):
                    assert resting == awake, f"at {twins.now_s} s"
        finally:
            awake_receipt, resting_receipt = twins.close()
        assert resting_receipt == awake_receipt
