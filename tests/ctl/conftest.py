"""What the tests of ckptctl share: a unit with real copies, the tool itself, and governors that are really there."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from process import jobs
from process.harness import Governor, Job, Process, Unit

from ckpt_governor.cli.ctl import main


class Said(NamedTuple):
    """What one call of the tool came to."""

    code: int
    out: str
    err: str

    @property
    def record(self) -> dict[str, Any]:
        """Its answer, where that is JSON."""
        record: dict[str, Any] = json.loads(self.out)
        assert next(iter(record)) == "v"
        assert record["v"] == 1
        return record


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    """No setting of whoever runs the tests reaches the tool."""
    for name in list(os.environ):
        if name.startswith("CKPT_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ctl(capsys):
    """Call the tool in this process."""

    def call(*arguments: object) -> Said:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse ends so
            code = int(stop.code or 0)
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture
def unit(tmp_path):
    """A checkpoint directory that no governor has seen."""
    return Unit(tmp_path)


def put_copy(
    folder: Path, name: str, *, count: int = 4000, keep: int | None = None, age_s: float = 0.0
) -> Path:
    """A real safetensors file, of which only the first ``keep`` bytes are there."""
    path = folder / name
    path.write_bytes((jobs.header(count, 0.0, 0) + bytes(count))[:keep])
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def put_state(unit: Unit, **changes: Any) -> dict[str, Any]:
    """A state.json as a living governor writes it, with some fields changed."""
    unit.glue.mkdir(parents=True, exist_ok=True)
    unit.acks.mkdir(exist_ok=True)
    state = {
        "v": 1,
        "governor": {"id": "host-1-1", "version": "0.1.0", "alive": True},
        "beat": 7,
        "beat_every_s": 5.0,
        "written_at": time.time(),
        "decision": None,
        "request": None,
        "leaving_at": None,
        "no_us_s": None,
        "with_us_s": None,
        "newest": None,
        "conditions": {},
        **changes,
    }
    beside = unit.control / "state.json.tmp"
    beside.write_text(json.dumps(state))
    beside.replace(unit.control / "state.json")
    return state


@pytest.fixture
def processes():
    """All that was started; killed when the test is over."""
    started: list[Process] = []
    yield started
    for process in started:
        if process.running():
            process.kill()
        print(f"--- {process.process.args!r}: {process.process.returncode}")
        print(process.printed(), process.complaints(), sep="\n")


@pytest.fixture
def govern(unit, processes):
    """Start a governor on the unit and wait until it decides."""

    def start(*options):
        processes.append(Governor(unit, "--poll", "0.2", *options))
        return processes[-1].watching()

    return start


@pytest.fixture
def train(unit, processes):
    """Start a job on the unit and wait until it trains."""

    def start(*options):
        processes.append(Job(unit, "helper", *options))
        return processes[-1].started()

    return start
