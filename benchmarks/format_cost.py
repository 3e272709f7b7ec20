"""What looking at copies costs: the cheap check, a look at what has not changed, and the deep check of every byte.

A baseline, measured on the machine on which it runs; what a disk takes is in none of it, for everything lies in memory.
Checks and looks are measured in processor time, which another program on the machine does not change.
The deep check is measured side by side with bare ``zlib.crc32`` that reads the same bytes with as many threads, in
alternating rounds. As a second floor the same bytes are summed where they already lie in the memory of the process:
no program that reads a file reaches that, because the system copies what is read.

    python benchmarks/format_cost.py [--megabytes 1024] [--rounds 9] [--json]

Exits 1 when one of these does not hold:
the cheap check of a torch.save file of 4 GiB with 1,000 records takes less than 5 ms;
a first look at a folder of torch.distributed.checkpoint with 1,000 shards less than 0.3 s, and at the unchanged one
less than 5 ms; a look at 10,000 unchanged files opens none of them, and takes no longer than ten times bare
``os.stat`` of as many as it asks for; the deep check is at least 0.8 times as fast as the bare sum.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from formats.making import Shown, end_of_zip, known, torch_zip
from formats.making_dcp import make_dcp_folder

from ckpt_governor.facts import Structure
from ckpt_governor.formats.deep import check
from ckpt_governor.observe.copies import STATS_MAX, CopyScanner, Look
from ckpt_governor.observe.deep import usable_cpus

CHEAP_MS_MAX = 5.0
SHARDS_FIRST_S_MAX = 0.3
SHARDS_UNCHANGED_MS_MAX = 5.0
UNCHANGED_RATIO_MAX = 10.0
DEEP_RATIO_MIN = 0.8
RECORDS, SHARDS, TENSORS, FILES = 1000, 1000, 2, 10_000


def median_s(
    work: Callable[[], object], rounds: int, clock: Callable[[], float] = time.process_time
) -> float:
    """How long it takes, in seconds."""
    took_s = []
    for _ in range(rounds):
        begun_s = clock()
        work()
        took_s.append(clock() - begun_s)
    return statistics.median(took_s)


# ---- the cheap check -------------------------------------------------------------------------------------------


def make_sparse_zip(path: Path) -> None:
    """A torch.save file of 4 GiB whose tensors are holes."""
    names = [
        "archive/data.pkl",
        *(f"archive/data/{number}" for number in range(RECORDS - 2)),
        "archive/version",
    ]
    each, table = (4 << 30) // RECORDS, bytearray()
    with path.open("wb") as file:
        for number, name in enumerate(names):
            lengths = (each - 30 - len(name), each - 30 - len(name), len(name))
            file.seek(number * each)
            file.write(struct.pack("<4s5H3L2H", b"PK\3\4", 0, 0, 0, 0, 0, 0, *lengths, 0) + name.encode())
            entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", *[0] * 7, *lengths, *[0] * 5, number * each)
            table += entry + name.encode()
        file.seek(RECORDS * each)
        file.write(end_of_zip(RECORDS * each, len(table), RECORDS, bytes(table)))


def measure_cheap_check(folder: Path, rounds: int) -> float:
    """Seconds for one judgement of a file of 4 GiB that nobody has looked at."""
    path = folder / "step-1.pt"
    make_sparse_zip(path)
    format = known("torch-zip")
    assert format.judge(Shown(path)).structure is Structure.COMPLETE
    return median_s(lambda: format.judge(Shown(path)), 20 * rounds)


# ---- looks -----------------------------------------------------------------------------------------------------


class Looker:
    """A scanner with a clock of its own, so that no time need pass between two looks."""

    def __init__(self, unit: Path) -> None:
        self.scanner = CopyScanner(str(unit))
        self.now_s = 1000.0

    def look(self) -> Look:
        """One whole look, a second after the last."""
        self.now_s += 1.0
        while (look := self.scanner.look(self.now_s, time.time() - self.now_s)).partial:
            pass
        return look


def measure_shards(unit: Path, rounds: int) -> tuple[str, float, float]:
    """The word of the format, and seconds for the first look at 1,000 shards and for one when nothing has changed."""
    folder = make_dcp_folder(unit / "step-1", shards=SHARDS, tensors=TENSORS)
    first_s, looker = [], Looker(unit)
    for number in range(rounds):
        os.utime(folder / ".metadata", (time.time(), time.time() + number))  # so that no index is remembered
        looker = Looker(unit)
        first_s.append(median_s(looker.look, 1))
    (copy,) = looker.look().sightings
    assert copy.structure is Structure.COMPLETE, copy
    for _ in range(10):
        looker.look()
    return copy.format, statistics.median(first_s), median_s(looker.look, 10 * rounds)


def measure_unchanged(unit: Path, rounds: int) -> tuple[int, float, float]:
    """Files that were opened in looks at 10,000 unchanged ones, seconds for a look, and for bare stats."""
    data = torch_zip()
    for step in range(FILES):
        (unit / f"step-{step}.pt").write_bytes(data)
    looker = Looker(unit)
    for _ in range(10):
        assert looker.look().copy_count == FILES
    opened: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and not int(str(arguments[2])) & os.O_DIRECTORY:
            opened.append(str(arguments[0]))

    sys.addaudithook(hook)
    look_s = median_s(looker.look, 10 * rounds)
    count, names = len(opened), [unit / f"step-{step}.pt" for step in range(FILES - STATS_MAX, FILES)]
    return count, look_s, median_s(lambda: [os.stat(name) for name in names], 10 * rounds)


# ---- the deep check --------------------------------------------------------------------------------------------


def in_threads(work: Callable[[int], object], count: int) -> None:
    """The same work in so many threads, each told its number."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure_deep(folder: Path, size: int, rounds: int) -> dict[str, float]:
    """Bytes a second of the deep check, of a bare sum that reads, and of one that need not; one record holds it all."""
    path, count = folder / "step-2.pt", usable_cpus()
    block = os.urandom(1 << 20)
    path.write_bytes(torch_zip({"data.pkl": b"\x80\x02.", "data/0": block * (size >> 20)}))
    data, share = memoryview(path.read_bytes()), -(-path.stat().st_size // count)

    def deep() -> None:
        files = Shown(path)
        found = check(files, known("torch-zip").plan(files), threads=count)
        assert (found.wrong, found.unread) == ("", None)
        assert found.checked_bytes >= size

    def reading(number: int) -> None:
        buffer, crc, left = memoryview(bytearray(1 << 20)), 0, share
        with path.open("rb", buffering=0) as file:
            file.seek(number * share)
            while left > 0 and (got := file.readinto(buffer[: min(left, len(buffer))])):
                crc, left = zlib.crc32(buffer[:got], crc), left - got

    def in_memory(number: int) -> None:
        zlib.crc32(data[number * share : (number + 1) * share])

    work = {
        "deep": deep,
        "bare": lambda: in_threads(reading, count),
        "in_memory": lambda: in_threads(in_memory, count),
    }
    took_s: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):
        for name, one in work.items():
            one_s = median_s(one, 1, time.perf_counter)
            if number:  # the first round warms everything up
                took_s[name].append(one_s)
    return {name: len(data) / statistics.median(of_it) for name, of_it in took_s.items()}


# ---- all of it -------------------------------------------------------------------------------------------------


def measure(folder: Path, megabytes: int, rounds: int) -> dict[str, float | str]:
    """Every figure."""
    for name in ("zip", "shards", "files"):
        (folder / name).mkdir()
    cheap_s = measure_cheap_check(folder / "zip", rounds)
    word, first_s, unchanged_s = measure_shards(folder / "shards", rounds)
    speed = measure_deep(folder / "zip", megabytes << 20, rounds)
    opened, look_s, stats_s = measure_unchanged(folder / "files", rounds)
    return {
        "cheap_check_ms": cheap_s * 1000,
        "shards_format": word,
        "shards_first_s": first_s,
        "shards_unchanged_ms": unchanged_s * 1000,
        "unchanged_files_opened": opened,
        "unchanged_look_ms": look_s * 1000,
        "unchanged_ratio": look_s / stats_s,
        "cpus": usable_cpus(),
        "deep_bytes_per_s": speed["deep"],
        "bare_bytes_per_s": speed["bare"],
        "in_memory_bytes_per_s": speed["in_memory"],
        "deep_ratio": speed["deep"] / speed["bare"],
        "deep_ratio_to_memory": speed["deep"] / speed["in_memory"],
    }


def within_bounds(figures: dict[str, float | str]) -> dict[str, bool]:
    """Which bounds hold, by the figure."""
    maxima = {
        "cheap_check_ms": CHEAP_MS_MAX,
        "shards_first_s": SHARDS_FIRST_S_MAX,
        "shards_unchanged_ms": SHARDS_UNCHANGED_MS_MAX,
        "unchanged_files_opened": 0.5,
        "unchanged_ratio": UNCHANGED_RATIO_MAX,
    }
    held = {name: float(figures[name]) < most for name, most in maxima.items()}
    return {**held, "deep_ratio": float(figures["deep_ratio"]) >= DEEP_RATIO_MIN}


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=1024, help="how much the deep check reads")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), given.megabytes, given.rounds)
    held = within_bounds(figures)
    good = all(held.values())
    if given.json:
        print(json.dumps({"v": 1, "good": good, **figures}))
        return 0 if good else 1
    print(f"cheap check        {figures['cheap_check_ms']:6.2f} ms of a file of 4 GiB with {RECORDS} records")
    print(
        f"{SHARDS} shards        {figures['shards_first_s']:6.3f} s at first, as {figures['shards_format']}"
    )
    print(f"unchanged          {figures['shards_unchanged_ms']:6.2f} ms")
    print(f"{FILES} files       {figures['unchanged_look_ms']:6.2f} ms unchanged")
    print(f"                   {figures['unchanged_files_opened']:6} of them opened")
    print(f"                   ratio {figures['unchanged_ratio']:.1f} to {STATS_MAX} bare stats")
    deep, bare, memory = (
        float(figures[f"{name}_bytes_per_s"]) / 1e9 for name in ("deep", "bare", "in_memory")
    )
    print(f"deep check         {deep:6.2f} GB a second with {figures['cpus']} cores")
    print(
        f"bare zlib.crc32    {bare:6.2f} GB a second that reads the same; ratio {figures['deep_ratio']:.2f}"
    )
    print(
        f"                   {memory:6.2f} GB a second in memory; ratio {figures['deep_ratio_to_memory']:.2f}"
    )
    print(
        "within the bounds"
        if good
        else f"OUT OF BOUNDS: {', '.join(name for name, is_so in held.items() if not is_so)}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
