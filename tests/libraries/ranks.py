"""Several real ranks that begin to save when they are told: watched, or killed all together or one alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from libraries.one_file import WORDS_ALONE, Follower

from ckpt_governor.facts import CopyStatus, Structure

PATIENCE_S = 100.0


class Ranks:
    """The processes of one job; each gets its rank, how many there are, the unit and a file to meet at."""

    def __init__(self, processes: list[subprocess.Popen[bytes]], unit: Path) -> None:
        self.processes, self.unit = processes, unit
        self.told_ns = 0

    def tell(self) -> None:
        """Let them save."""
        self.told_ns = time.time_ns()
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()

    def over(self) -> bool:
        """Whether every rank has saved or is gone."""
        return all(process.poll() is not None for process in self.processes)

    def written(self) -> int:
        """Bytes of the files of the unit that were changed since they were told."""
        total = 0
        for folder, _, files in os.walk(self.unit):
            for name in files:
                with suppress(FileNotFoundError):
                    found = os.stat(f"{folder}/{name}")
                    total += found.st_size if found.st_mtime_ns >= self.told_ns else 0
        return total

    def kill(self, rank: int | None) -> None:
        """One rank, and when the others have noticed it or wait for it in vain, they too; or all at once."""
        if rank is not None:
            _kill(self.processes[rank])
            ends_s = time.monotonic() + 3.0
            while not self.over() and time.monotonic() < ends_s:
                time.sleep(0.05)
        for process in self.processes:
            _kill(process)
        for process in self.processes:
            process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def ranks_of(unit: Path, code: str, world: int, *words: str) -> Iterator[Ranks]:
    """Ranks that have run ``code`` up to its line ``SAVE``; they end when they have saved."""
    ready = 'print("ready", file=words, flush=True), sys.stdin.readline()'
    script = unit.parent / "job.py"
    script.write_text(WORDS_ALONE + code.replace("SAVE", ready), encoding="utf-8")
    unit.mkdir(exist_ok=True)
    places = [str(world), str(unit), str(unit.parent / "meet"), *words]
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", str(script), str(rank), *places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that its own writers can be killed with it
        )
        for rank in range(world)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        yield Ranks(processes, unit)
    finally:
        for process in processes:
            _kill(process)
            process.communicate()


def unit_of_ranks(folder: Path, code: str, world: int, *words: str) -> Path:
    """A unit into which so many ranks have saved."""
    unit = folder / "unit"
    with ranks_of(unit, code, world, *words) as ranks:
        ranks.tell()
        assert [process.wait(PATIENCE_S) for process in ranks.processes] == [0] * world
    return unit


def assert_watched_ranks_are_sound_only_when_all_have_saved(ranks: Ranks, name: str) -> None:
    """From the first byte to the last: never broken, and complete only as it was before and as it stays."""
    follower = Follower(ranks.unit)
    before = {sighting.fingerprint for sighting in follower.look()}
    complete: set[str] = set()
    ranks.tell()
    ends_s, looks = time.monotonic() + PATIENCE_S, 0
    while not ranks.over() and time.monotonic() < ends_s:
        for sighting in follower.look():
            if sighting.structure is Structure.COMPLETE:
                complete.add(sighting.fingerprint)
        assert all(copy.status is not CopyStatus.BROKEN for copy in follower.copies), follower.copies
        looks += 1
    assert [process.wait() for process in ranks.processes] == [0] * len(ranks.processes)
    assert looks > 10
    (last,) = follower.look()
    assert complete <= before | {last.fingerprint}
    assert last.fingerprint not in before
    (copy,) = follower.copies
    assert (copy.name, copy.status, copy.bytes) == (name, CopyStatus.SOUND, last.bytes)


def killed(ranks: Ranks, share: float, saved_bytes: int, rank: int | None) -> CopyStatus:
    """What the copy is, long after the ranks were killed with about this share of its bytes written."""
    follower = Follower(ranks.unit)
    follower.look()
    ranks.tell()
    ends_s = time.monotonic() + PATIENCE_S
    while ranks.written() < share * saved_bytes and not ranks.over() and time.monotonic() < ends_s:
        pass
    ranks.kill(rank)
    follower.look()
    (copy,) = follower.settle()
    return copy.status
