"""The unit of a test, its governors and jobs; what still runs at the end is ended, its words shown on failure."""

from __future__ import annotations

import pytest
from process.harness import Governor, Job, Process, Unit


@pytest.fixture
def unit(tmp_path):
    return Unit(tmp_path)


@pytest.fixture
def processes():
    """All that was started; killed when the test is over."""
    started: list[Process] = []
    yield started
    for process in started:
        if process.running():
            process.kill()
        print("---", process.process.args, process.process.returncode)
        print(process.printed(), process.complaints(), sep="\n")


@pytest.fixture
def govern(unit, processes):
    """Start a governor on the unit and wait until it decides."""

    def start(*options, of=unit, **more):
        options = options if "--poll" in options else ("--poll", "0.1", *options)
        processes.append(Governor(of, *options, **more))
        return processes[-1].watching()

    return start


@pytest.fixture
def train(unit, processes):
    """Start a job on the unit and wait until it trains."""

    def start(how="helper", *options, of=unit):
        processes.append(Job(of, how, *options))
        return processes[-1].started()

    return start
