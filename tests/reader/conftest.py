"""What the reader's tests share: the governor's files, a clock that is moved by hand, and jobs in real processes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ckpt_reader

PACKAGES = str(Path(ckpt_reader.__file__).parent.parent)
STEP_S = 0.0625  # more than an answer is reused, and a float adds it up exactly

JOB = """
import sys, ckpt_reader
now = 1024.0
ckpt_reader._process = ckpt_reader._Process(lambda: now)
for line in sys.stdin:
    now += float(line)
    print(int(ckpt_reader.should_save(sys.argv[1])), flush=True)
"""


class Clock:
    """A monotonic clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 1024.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Unit:
    """A checkpoint directory, and the governor's hand in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.control = path / ".ckpt-governor"
        self.state_path = self.control / "state.json"
        self.glue = self.control / "glue"
        self.control.mkdir(parents=True)
        self.beats = itertools.count(1)

    def put(self, name: str, data: bytes | str) -> None:
        """Replace a file of the control folder as the governor does: beside, then renamed."""
        beside = self.control / f"{name}.tmp"
        beside.write_bytes(data.encode() if isinstance(data, str) else data)
        beside.replace(self.control / name)

    def state(self, request: object = None, **changes: object) -> dict[str, object]:
        """A state with the next beat; a whole number as ``request`` becomes a request of that id."""
        if isinstance(request, int) and not isinstance(request, bool):
            request = {
                "id": request,
                "kind": "save",
                "reason": "risk.preempt",
                "at": 1764424863.12,
                "deadline": None,
            }
        governor = {"id": "host-4711-1764424863", "version": "0.1.0", "alive": changes.pop("alive", True)}
        return {
            "v": 1,
            "governor": governor,
            "beat": next(self.beats),
            "beat_every_s": 5.0,
            "written_at": 1764424863.12,
            "decision": {
                "verdict": "save",
                "reason": "risk.preempt",
                "text": "it goes",
                "at": 1764424863.12,
            },
            "request": request,
            "leaving_at": None,
            "no_us_s": None,
            "with_us_s": None,
            "newest": None,
            "conditions": {},
            **changes,
        }

    def write(self, request: object = None, **changes: object) -> None:
        """One beat of the governor."""
        self.put("state.json", json.dumps(self.state(request, **changes), separators=(",", ":")))

    def numbers(self, no_us: object) -> None:
        """The two numbers, as they travel with the data."""
        self.put("numbers.json", json.dumps({"v": 1, "no_us": no_us}))

    def left(self) -> list[str]:
        """What the job has put into the glue folder."""
        return sorted(os.listdir(self.glue)) if self.glue.exists() else []


class Asker:
    """A reader of one unit in this process, with its clock."""

    def __init__(self, unit: Unit, clock: Clock) -> None:
        self.unit, self.clock = unit, clock
        self.reader = ckpt_reader._Reader(str(unit.path), clock)

    def ask(self, after_s: float = STEP_S) -> bool:
        """The job's next save point, some time later."""
        self.clock.advance(after_s)
        return self.reader.ask()

    def prove(self, **changes: object) -> None:
        """Let the reader see two beats."""
        for _ in range(2):
            self.unit.write(**changes)
            assert self.ask() is False


class Job:
    """A real process that asks when it is told to; its clock moves by what it is told."""

    def __init__(self, unit: Unit) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", JOB, str(unit.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": PACKAGES},
        )

    def ask(self, after_s: float = STEP_S) -> bool:
        """The job's next save point, some time later."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{after_s}\n")
        self.process.stdin.flush()
        return {"1\n": True, "0\n": False}[self.process.stdout.readline()]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def unit(tmp_path):
    return Unit(tmp_path / "checkpoints")


@pytest.fixture
def asker(unit, clock):
    return Asker(unit, clock)


@pytest.fixture
def new_unit(tmp_path):
    return lambda name: Unit(tmp_path / name)


@pytest.fixture
def new_asker():
    return Asker


@pytest.fixture
def should_save(monkeypatch, clock):
    """The public call in a process that has just started, by the test's clock; time passes before each call."""
    monkeypatch.setattr(ckpt_reader, "_process", ckpt_reader._Process(clock))
    for name in ("CKPT_DIR", "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)

    def call(*args, after_s=STEP_S, **kwargs):
        clock.advance(after_s)
        return ckpt_reader.should_save(*args, **kwargs)

    return call


@pytest.fixture
def new_job():
    """Start a real job on a unit."""
    jobs = []

    def start(unit):
        jobs.append(Job(unit))
        return jobs[-1]

    yield start
    for job in jobs:
        job.process.communicate()  # closes its input, which ends it


@pytest.fixture
def run_python():
    """Run a script in a fresh interpreter, with the package to import and no rank in its environment."""
    ranks = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "CKPT_DIR")

    def run(script, *args, options=(), env=None, cwd=None):
        clean = {name: value for name, value in os.environ.items() if name not in ranks}
        return subprocess.run(
            [sys.executable, *options, "-c", script, *map(str, args)],
            env={**clean, "PYTHONPATH": PACKAGES, **(env or {})},
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
