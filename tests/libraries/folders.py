"""What holds for copies of several files of a real library: damaged at random, watched while saved, or killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from libraries.one_file import Follower, saver, sightings, tell

from ckpt_governor.facts import CopyStatus, Sighting, Structure

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
SHARES = (0.1, 0.5, 0.9, 0.99)


def seen(unit: Path) -> dict[str, Sighting]:
    """What one look shows, long after everything was written."""
    return {sighting.name: sighting for sighting in sightings(unit)}


def assert_whole(unit: Path, word: str, steps: dict[str, int | None]) -> None:
    """Exactly these copies, each with its step, and nothing to be said about any."""
    found = seen(unit)
    assert {name: sighting.step for name, sighting in found.items()} == steps
    for sighting in found.values():
        assert (sighting.format, sighting.structure, sighting.why) == (word, COMPLETE, ""), sighting


def files_of(unit: Path, name: str) -> list[Path]:
    """The files of a copy: of a folder all, of a prefix those that begin with it."""
    if (unit / name).is_dir():
        return sorted(file for file in (unit / name).rglob("*") if file.is_file())
    folder, _, prefix = name.rpartition("/")
    return sorted(file for file in (unit / folder).iterdir() if file.name.startswith(f"{prefix}."))


def _removed(file: Path, drawn: random.Random) -> None:
    file.unlink()


def _cut(file: Path, drawn: random.Random) -> None:
    os.truncate(file, drawn.randrange(file.stat().st_size))


def _zeroed(file: Path, drawn: random.Random) -> None:
    data = file.read_bytes()
    at = drawn.randrange(len(data))
    file.write_bytes(data[:at] + bytes(len(data) - at))


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "removed": _removed,
    "cut": _cut,
    "zeroed": _zeroed,
}


def damaged(unit: Path, name: str, times: int = 3) -> Iterator[tuple[str, str, bool]]:
    """Every file of a copy damaged in every way: how, which file, and whether the copy is not complete then."""
    drawn = random.Random(11)
    for file in files_of(unit, name):
        inner = str(file.relative_to(unit))
        whole, found = file.read_bytes(), file.stat()
        for how, damage in DAMAGES.items():
            for _ in range(1 if how == "removed" else times):
                if not whole and how != "removed":
                    continue
                damage(file, drawn)
                if file.exists():  # or its time alone would tell
                    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
                changed = not file.exists() or file.read_bytes() != whole
                after = seen(unit).get(name)
                file.write_bytes(whole)
                os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
                if changed:
                    caught = after is None or after.structure is not COMPLETE or bool(after.lacks)
                    yield how, inner, caught


def assert_caught(unit: Path, name: str, *, spared: Callable[[str, str], bool]) -> str:
    """All damages are seen, but for those of which is known that they cannot; the rates, to be printed."""
    results = list(damaged(unit, name))
    missed = sorted({(how, file) for how, file, caught in results if not caught and not spared(how, file)})
    assert missed == []
    rates = []
    for how in DAMAGES:
        told = [caught for kind, _, caught in results if kind == how]
        rates.append(f"{how} {sum(told)} of {len(told)}")
    return ", ".join(rates)


def assert_a_removal_is_no_broken_write(unit: Path, older: str) -> None:
    """An older copy that is removed file by file never counts as a broken write, and nothing else changes."""
    follower = Follower(unit)
    follower.look()
    follower.settle()
    files = files_of(unit, older)
    random.Random(3).shuffle(files)
    for later, file in enumerate(files):
        file.unlink()
        follower.look(50.0 + later)
        assert all(copy.status is not CopyStatus.BROKEN for copy in follower.copies)
    shutil.rmtree(unit / older, ignore_errors=True)
    follower.look(500.0)
    assert older not in {copy.name for copy in follower.copies}
    assert all(copy.status is CopyStatus.SOUND for copy in follower.copies)


def assert_watched_saves_are_whole_only_when_finished(unit: Path, code: str, finals: set[str]) -> None:
    """Complete at one look means never changed after it; nothing is ever broken; all is sound in the end."""
    complete: dict[str, str] = {}
    with saver(unit, code) as process:
        follower = Follower(unit)
        follower.look()
        tell(process)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        looks = 0
        while not process.stdout.read() and process.poll() is None:
            for sighting in follower.look():
                if sighting.structure is COMPLETE:
                    complete.setdefault(sighting.name, sighting.fingerprint)
            assert all(copy.status is not CopyStatus.BROKEN for copy in follower.copies), follower.copies
            looks += 1
        assert looks > 3
        last = {sighting.name: sighting.fingerprint for sighting in follower.look()}
        assert {name: complete[name] for name in complete if name in last} == {
            name: last[name] for name in complete if name in last
        }
        statuses = {copy.name: copy.status for copy in follower.settle()}
        assert statuses == dict.fromkeys(finals, CopyStatus.SOUND)


def assert_a_killed_save_is_never_whole(unit: Path, code: str, share: float, first: str) -> None:
    """Killed when about this share of the bytes of the first copy is there again: broken, a leftover, or nothing."""
    with saver(unit, code) as process:
        follower = Follower(unit)
        follower.look()
        before = _written(unit)
        tell(process)
        while _written(unit) - before < share * before and process.poll() is None:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    follower.look()
    copies = {copy.name: copy for copy in follower.settle()}
    assert copies[first].status is CopyStatus.SOUND
    for name, copy in copies.items():
        if copy.status is CopyStatus.SOUND:  # it was faster than the signal
            assert copy.bytes >= 0.99 * copies[first].bytes, copy
        else:
            assert (copy.status, copy.temporary) in (
                (CopyStatus.BROKEN, False),
                (CopyStatus.UNKNOWN, True),
            ), name


def _written(folder: Path) -> int:
    """Bytes that are really there: a file may have its full size from the start."""
    total = 0
    for path, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.stat(f"{path}/{name}").st_blocks * 512
            except FileNotFoundError:
                continue
    return total
