"""What both examples must show: run for real, told to save once, stopped, resumed, ended, with a governor beside."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from process.harness import Governor, Process, Unit, environment, wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS_MORE = 1500


def run_example(folder: Path, script: str, suffix: str) -> tuple[Path, Path]:
    """Plays it; returns the copy of the notice and the copy of the end."""
    unit = Unit(folder)
    started: list[Process] = []

    def start(steps: int) -> Process:
        command = [
            sys.executable,
            "-W",
            "error",
            str(EXAMPLES / script),
            str(unit.path),
            "--steps",
            str(steps),
        ]
        started.append(Process(command, folder, env=environment(JAX_PLATFORMS="cpu")))
        return started[-1]

    def copies() -> list[Path]:
        return sorted(unit.path.glob(f"*{suffix}"), key=lambda path: path.stat().st_mtime_ns)

    try:
        governor = Governor(unit, "--poll", "0.2")
        started.append(governor)
        governor.watching()
        job = start(10**9)
        wait_until(lambda: "step 500: loss" in job.printed(), "the example never trained", 90)
        unit.drop("risk.preempt")
        wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice was never served")
        unit.looked_at()
        assert unit.nothing_is_asked()
        (first,) = copies()
        assert job.printed().count("saved") == len(governor.lines("save")) == 1
        job.send(signal.SIGTERM)
        assert job.ended() == -signal.SIGTERM

        step = int(first.stem.removeprefix("step-"))
        job = start(step + STEPS_MORE)
        assert job.ended(90) == 0, job.complaints()
        assert job.printed().startswith(f"step {step}: resumed\n")
        assert [line for line in job.printed().splitlines() if "saved" in line] == [
            f"step {step + STEPS_MORE}: saved step-{step + STEPS_MORE}{suffix}"
        ]
        assert job.complaints() == ""
        assert governor.ended() == 0
        _, last = copies()
        assert [(write["reason"], write["status"], write["name"]) for write in unit.receipt()["writes"]] == [
            ("risk.preempt", "sound", first.name),
            ("train.end", "sound", last.name),
        ]
        return first, last
    finally:
        for process in started:
            if process.running():
                process.kill()
            print(process.printed(), process.complaints(), sep="\n")
