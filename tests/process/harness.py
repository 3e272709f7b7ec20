"""Real governors and real jobs, and what they leave on disk. Waiting has a deadline; nothing else is timed."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from process import jobs

T = TypeVar("T")

PATIENCE_S = 40.0
"""Far longer than anything here takes on a machine that is not stuck."""
LOOK_TWICE_S = 0.25
"""Longer than the governor's second look at a new or damaged drop-in file."""
_LINE = re.compile(r"\d\d:\d\d:\d\d  ")
CLEARED = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "CKPT_DIR")


def wait_until(find: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
    """What ``find`` gives as soon as that is something; fails after the patience."""
    ends = time.monotonic() + patience_s
    while True:
        found = find()
        if found:
            return found
        assert time.monotonic() < ends, f"waited {patience_s:.0f} s in vain: {what}"
        time.sleep(0.03)


def environment(**more: str) -> dict[str, str]:
    """The environment of this run without what would steer a governor or a job."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in CLEARED and not name.startswith("CKPT_GOVERNOR_")
    }
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


def json_lines(text: str) -> list[dict[str, Any]]:
    """The whole lines of a file of JSON lines."""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


class Process:
    """A real process; what it prints goes to files, so that no pipe is ever full."""

    counter = itertools.count(1)

    def __init__(self, command: list[str], folder: Path, **options: Any) -> None:
        name = f"{next(self.counter):02d}"
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        options.setdefault("env", environment())
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=options.pop("stdout", out), stderr=err, **options
            )
        self.pid = self.process.pid

    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def ended(self, patience_s: float = PATIENCE_S) -> int:
        """Its exit code, once it has ended by itself."""
        wait_until(lambda: not self.running(), f"{self.out}: the process did not end", patience_s)
        return self.process.returncode

    def send(self, number: signal.Signals) -> None:
        """A signal for it."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """The hard end."""
        self.process.kill()
        self.process.wait()

    def printed(self) -> str:
        """All of its stdout."""
        return self.out.read_text()

    def complaints(self) -> str:
        """All of its stderr."""
        return self.err.read_text()


class Governor(Process):
    """``ckpt-governor run`` over one unit."""

    def __init__(self, unit: Unit, *options: str, command: Iterable[str] = (), **more: Any) -> None:
        self.unit = unit
        behind = ["--", *command] if command else []
        program = [sys.executable, "-m", "ckpt_governor", "run", "--dir", str(unit.path)]
        super().__init__([*program, *options, *behind], unit.folder, **more)

    def lines(self, verdict: str = "", reason: str = "") -> list[str]:
        """The decisions it has printed, of one verdict and reason."""
        rows = [line for line in self.printed().splitlines() if _LINE.match(line)]
        return [line for line in rows if _is(line, verdict, reason)]

    def said(self, verdict: str, reason: str = "", patience_s: float = PATIENCE_S) -> str:
        """The first such line, once it is there."""
        what = f"no line {verdict} {reason} in {self.printed()!r}, {self.complaints()!r}"
        return wait_until(lambda: self.lines(verdict, reason), what, patience_s)[0]

    def watching(self) -> Governor:
        """Once it decides for its unit."""
        wait_until(lambda: "watching" in self.printed() or not self.running(), "it never began to watch")
        assert self.running(), self.printed() + self.complaints()
        return self

    def receipt(self) -> str:
        """The receipt as printed."""
        text = self.printed()
        return text[text.index("run ") :] if "run " in text else ""


def _is(line: str, verdict: str, reason: str) -> bool:
    words = line.split(maxsplit=3)
    return (not verdict or words[1] == verdict) and (not reason or words[2] == reason)


class Job(Process):
    """One of the jobs of jobs.py."""

    def __init__(self, unit: Unit, how: str, *options: str) -> None:
        super().__init__([sys.executable, jobs.__file__, how, str(unit.path), *options], unit.folder)

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """What it told."""
        return [event for event in json_lines(self.printed()) if not kind or event["event"] == kind]

    def started(self) -> Job:
        """Once it trains and has asked for the first time: it will answer the next request at once."""
        wait_until(lambda: self.events("looked") or not self.running(), "the job never began")
        assert self.running(), self.complaints()
        return self

    def wrote(self, count: int, patience_s: float = PATIENCE_S) -> list[dict[str, Any]]:
        """Its copies, once there are that many."""
        return wait_until(
            lambda: found if len(found := self.events("copy")) >= count else [],
            f"no {count} copies; the job told {self.events()}",
            patience_s,
        )


class Unit:
    """A checkpoint directory with its control files; other files of the test lie beside it."""

    def __init__(self, folder: Path, path: Path | None = None) -> None:
        self.folder, self.path = folder, path or folder / "checkpoints"
        self.path.mkdir(exist_ok=True)
        self.control = self.path / ".ckpt-governor"
        self.glue, self.acks = self.control / "glue", self.control / "acks"
        self._barriers = itertools.count(1)

    def drop(self, name: str, text: str = "") -> Path:
        """A drop-in file, made as a careful hook makes it; an empty one is touched."""
        path = self.glue / name
        if text:
            beside = self.glue / f"{name}.tmp"
            beside.write_text(text)
            beside.replace(path)
        else:
            path.touch()
        return path

    def ack(self, name: str) -> str:
        """The governor's answer to a drop-in file."""
        try:
            return (self.acks / name).read_text().strip()
        except OSError:
            return ""

    def end_training(self) -> None:
        """Tells the job of this unit that it has trained enough."""
        Path(f"{self.path}.end").touch()

    def state(self) -> dict[str, Any]:
        """state.json; a governor that is just starting has none."""
        try:
            return dict(json.loads((self.control / "state.json").read_bytes()))
        except FileNotFoundError:
            return {}

    def receipt(self) -> dict[str, Any]:
        """receipt.json."""
        return dict(json.loads((self.control / "receipt.json").read_bytes()))

    def decisions(self, verdict: str = "", reason: str = "") -> list[dict[str, Any]]:
        """decisions.jsonl."""
        try:
            lines = json_lines((self.control / "decisions.jsonl").read_text())
        except FileNotFoundError:
            return []
        return [
            line
            for line in lines
            if line["verdict"] == (verdict or line["verdict"])
            and line["reason"] == (reason or line["reason"])
        ]

    def copies(self) -> list[str]:
        """The names of all copies, whole or not."""
        return sorted(path.name for path in self.path.glob("*.safetensors"))

    def whole(self) -> list[str]:
        """The names of the copies that are whole, by the tests' own reading."""
        return [name for name in self.copies() if jobs.state_of(self.path / name)]

    def half(self) -> list[str]:
        """The names of the copies that are not."""
        return [name for name in self.copies() if not jobs.state_of(self.path / name)]

    def looked_at(self) -> None:
        """Returns once the governor has looked at all that was dropped before, twice where it looks twice."""
        self._barrier()
        time.sleep(LOOK_TWICE_S)
        self._barrier()
        self._barrier()  # what the look before has led to is written and printed by now

    def _barrier(self) -> None:
        name = f"barrier-{next(self._barriers)}"
        self.drop(name)
        wait_until(partial(self._told_of, name), f"the governor never looked at {name}")
        (self.glue / name).unlink()

    def _told_of(self, name: str) -> bool:
        return any(name in line["text"] for line in self.decisions("unknown"))

    def nothing_is_asked(self) -> bool:
        """Whether state.json holds no request."""
        return self.state().get("request") is None
