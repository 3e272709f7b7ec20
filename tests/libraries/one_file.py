"""What holds for a copy that is one file of a real library: when it is whole, cut, zeroed, watched or killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ckpt_governor.copies import Settle, follow
from ckpt_governor.facts import Copy, CopyStatus, Sighting, Structure
from ckpt_governor.observe.copies import CopyScanner

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
SETTLE = Settle(broken_s=30.0, sound_s=10.0)
SHARES = (0.1, 0.5, 0.9, 0.99)
# A library may print what it likes when it is imported: the words of a job have its output for themselves.
WORDS_ALONE = 'import os, sys\nwords = os.fdopen(os.dup(1), "w")\nos.dup2(2, 1)\n'
_SAY_AND_WAIT = '\nprint("{}", file=words, flush=True)\nsys.stdin.readline()\n'


def sightings(unit: Path) -> tuple[Sighting, ...]:
    """What one look shows, long after everything was written."""
    return CopyScanner(str(unit), budget_s=60.0).look(time.time() + 1e6, 0.0).sightings


def look(path: Path) -> Sighting:
    """The one sighting in the folder of this file or folder, long after it was written."""
    (sighting,) = sightings(path.parent)
    return sighting


def assert_whole(path: Path, word: str, step: int | None = None) -> None:
    """One copy, with the format, step and bytes that it has, and nothing to be said about it."""
    found = look(path)
    expected = (path.name, word, COMPLETE, "", path.stat().st_size)
    assert (found.name, found.format, found.structure, found.why, found.bytes) == expected
    assert found.step == step


def assert_cuts_are_incomplete(path: Path, *, spared_bytes: int = 0, least: int = 0) -> None:
    """Cut at forty places and by one byte, in falling order; the last ``spared_bytes`` hold nothing."""
    size = path.stat().st_size - spared_bytes
    drawn = random.Random(5)
    for count in sorted({size - 1, *(drawn.randrange(least, size) for _ in range(40))}, reverse=True):
        os.truncate(path, count)
        found = look(path)
        assert found.structure is INCOMPLETE, (count, found)


def assert_zeroed_tails(path: Path, *, caught: bool) -> None:
    """Twenty times its full size, with an end of zeros that were really written; whether that can be seen at all."""
    whole = path.read_bytes()
    drawn = random.Random(7)
    for count in [drawn.randrange(len(whole) // 10, len(whole) * 9 // 10) for _ in range(20)]:
        path.write_bytes(whole[:count] + bytes(len(whole) - count))
        assert (look(path).structure is not COMPLETE) == caught, count


def assert_an_unwritten_tail_is_left_open(path: Path) -> None:
    """Full size from the start, and the rest of it still a hole: incomplete as long as it is young."""
    size = path.stat().st_size
    os.truncate(path, size // 2)
    os.truncate(path, size)
    os.utime(path)
    scanner = CopyScanner(str(path.parent), budget_s=60.0)
    (young,) = scanner.look(time.time(), 0.0).sightings
    assert young.structure is INCOMPLETE
    (old,) = scanner.look(time.time() + 60.0, 0.0).sightings
    assert (old.structure, old.why != "") in ((COMPLETE, True), (INCOMPLETE, True), (SHAPELESS, True))


@contextmanager
def saver(path: Path, code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has run ``code`` up to its line ``SAVE`` and goes on when it is told."""
    before, _, after = code.partition("SAVE\n")
    told = f"{WORDS_ALONE}path = sys.argv[1]\n{before}{_SAY_AND_WAIT.format('ready')}{after}"
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", told + _SAY_AND_WAIT.format("saved"), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def tell(process: subprocess.Popen[bytes]) -> None:
    """Let it save."""
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


class Follower:
    """Looks at the unit as fast as it can, and follows what it sees."""

    def __init__(self, unit: Path) -> None:
        self.scanner = CopyScanner(str(unit), budget_s=60.0)
        self.copies: tuple[Copy, ...] = ()
        self.former_s: float | None = None

    def look(self, later_s: float = 0.0) -> tuple[Sighting, ...]:
        """One look; the copies after it are kept."""
        now_s = time.time() + later_s
        found = self.scanner.look(now_s, 0.0).sightings
        self.copies = follow(
            self.copies, found, now_s=now_s, former_look_s=self.former_s, asked_s=None, settle=SETTLE
        )
        self.former_s = now_s
        return found

    def settle(self) -> tuple[Copy, ...]:
        """Enough time passes, and nothing happens."""
        for second in range(1, 40):
            self.look(float(second))
        return self.copies


def assert_a_watched_save_is_whole_only_when_finished(
    path: Path, code: str, loads: Callable[[Path], object]
) -> None:
    """Never complete before the library reads all that was saved, never broken, and sound in the end.

    ``loads`` fails when anything is missing or other than it was saved.
    """
    with saver(path, code) as process:
        follower = Follower(path.parent)
        follower.look()
        tell(process)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        looks = 0
        while not process.stdout.read() and process.poll() is None:
            for sighting in follower.look():
                if sighting.structure is COMPLETE:
                    loads(path)
            assert all(copy.status is not CopyStatus.BROKEN for copy in follower.copies)
            looks += 1
        assert looks > 3
        follower.look()
        (copy,) = follower.settle()
        assert (copy.name, copy.status, copy.serial) == (path.name, CopyStatus.SOUND, 1)


def assert_a_killed_save_is_never_whole(
    path: Path, code: str, share: float, whole_bytes: int, loads: Callable[[Path], object]
) -> None:
    """Killed when about this share of its bytes is there. Where it was faster than the signal, nothing is missing."""
    with saver(path, code) as process:
        follower = Follower(path.parent)
        follower.look()
        tell(process)
        end_s = time.monotonic() + 60.0
        while _written(path.parent) < share * whole_bytes:
            assert process.poll() is None, "it ended before it had saved"
            assert time.monotonic() < end_s, "it saves less than the test expects"
        process.send_signal(signal.SIGKILL)
        process.wait()
    follower.look()
    statuses = [(copy.status, copy.temporary) for copy in follower.settle()]
    if statuses == [(CopyStatus.SOUND, False)]:
        loads(path)
    else:
        assert statuses in ([(CopyStatus.BROKEN, False)], [(CopyStatus.UNKNOWN, True)], [])


def _written(folder: Path) -> int:
    """Bytes that are really there: a file may have its full size from the start."""
    total = 0
    for entry in os.scandir(folder):
        try:
            total += entry.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total
