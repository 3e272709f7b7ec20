"""What should_save() costs a training loop when nothing changed, beside one os.stat() of the same file.

A baseline: the figures hold for the machine, the Python and the file system on which this ran, and a busy
machine moves them. Both are measured in one run, in rounds that alternate, and the median round counts.
Exits with 1 when the call costs a quarter of the stat or more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import timeit
from pathlib import Path

from ckpt_reader import _Reader, should_save

RATIO_MAX = 0.25
CALLS = 2000
STATE = {
    "v": 1,
    "governor": {"id": "host-4711-1764424863", "version": "0.1.0", "alive": True},
    "beat": 1234,
    "beat_every_s": 5.0,
    "written_at": 1764424863.12,
    "decision": {"verdict": "skip", "reason": "fresh", "text": "t" * 200, "at": 1764424863.12},
    "request": None,
    "leaving_at": None,
    "no_us_s": 1800.0,
    "with_us_s": 7200.0,
    "newest": {"name": "step-1200.pt", "step": 1200, "sound": True, "captured_at": 1764421000.0},
    "conditions": dict.fromkeys([f"risk.condition{number}" for number in range(14)], 0),
}


def measure(directory: str, rounds: int) -> tuple[float, float, float]:
    """Nanoseconds, each of the median round: a call of ours, a stat, and one of our looks at the disk."""
    control = os.path.join(directory, ".ckpt-governor")
    state_path = os.path.join(control, "state.json")
    os.mkdir(control)
    Path(state_path).write_text(json.dumps(STATE, separators=(",", ":")))
    reader = _Reader(directory)
    names = {
        "should_save": should_save,
        "directory": directory,
        "stat": os.stat,
        "path": state_path,
        "reader": reader,
    }
    ours = timeit.Timer("should_save(directory)", globals=names)
    stat = timeit.Timer("stat(path)", globals=names)
    look = timeit.Timer("reader.look_at = 0.0; reader.look()", globals=names)  # as if 50 ms had passed
    found = [(ours.timeit(CALLS), stat.timeit(CALLS), look.timeit(CALLS // 20) * 20) for _ in range(rounds)]
    ours_ns, stat_ns, look_ns = (
        statistics.median(column) / CALLS * 1e9 for column in zip(*found, strict=True)
    )
    return ours_ns, stat_ns, look_ns


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="how often both are measured (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        ours_ns, stat_ns, look_ns = measure(directory, options.rounds)
    ratio = ours_ns / stat_ns
    figures = {"should_save_ns": ours_ns, "stat_ns": stat_ns, "ratio": ratio, "look_ns": look_ns}
    if options.json:
        where = {"python": platform.python_version(), "machine": platform.platform()}
        print(json.dumps({"v": 1, **{name: round(value, 3) for name, value in figures.items()}, **where}))
    else:
        print(f"should_save()  {ours_ns:7.0f} ns  nothing changed")
        print(f"os.stat()      {stat_ns:7.0f} ns  of state.json")
        print(f"ratio          {ratio:7.3f}     must be less than {RATIO_MAX}")
        print(f"one look       {look_ns:7.0f} ns  at the disk, at most every 50 ms")
    return int(ratio >= RATIO_MAX)


if __name__ == "__main__":
    sys.exit(main())
