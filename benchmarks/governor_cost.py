"""What one governor over one idle unit costs: memory, processor time, and the time to its first state.json.

A baseline, measured on the machine on which it runs, side by side in one run: the process against a bare interpreter
that imports its four run-time libraries. Ratios hold across machines; absolute times do not.

    python benchmarks/governor_cost.py [--seconds 60] [--rounds 7] [--json]

Exits 1 when memory reaches 28 MiB, processor time 0.3 % of a core, or the first state takes longer than twice the time
of the imports.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

MEMORY_MIB_MAX = 28.0
PROCESSOR_PERCENT_MAX = 0.3
FIRST_STATE_RATIO_MAX = 2.0
IMPORTS = "import attrs, cattrs, filelock, psutil"


def compile_into(folder: str) -> None:
    """All modules are compiled once and kept, as an installation leaves them, whatever the environment says here."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = folder
    time_first_state_s()
    time_imports_s()


def start(unit: str) -> subprocess.Popen[bytes]:
    """A governor over this unit, its lines thrown away."""
    command = [sys.executable, "-m", "ckpt_governor", "run", "--dir", unit]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the file is there."""
    while not path.exists():
        if process.poll() is not None:
            raise SystemExit(f"the governor ended with {process.returncode}")
        time.sleep(0.0005)


def end(process: subprocess.Popen[bytes]) -> None:
    """Stops it and waits."""
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)


def time_first_state_s() -> float:
    """From the start of the process to its first state.json, in seconds."""
    with tempfile.TemporaryDirectory() as unit:
        begun_s = time.perf_counter()
        process = start(unit)
        wait_for(Path(unit, ".ckpt-governor", "state.json"), process)
        took_s = time.perf_counter() - begun_s
        end(process)
    return took_s


def time_imports_s() -> float:
    """A whole interpreter that imports the four libraries, in seconds."""
    begun_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    return time.perf_counter() - begun_s


FLOOR = """
import json, os, sys, time
while True:
    time.sleep(1.0)
    for entry in os.scandir(sys.argv[1]):
        entry.stat()
    json.loads(json.dumps(dict.fromkeys(map(str, range(100)), 1.5)))
"""


def measure_idle(seconds: float) -> tuple[float, float, float]:
    """Resident memory in MiB, the share of one core, and that of a bare interpreter that wakes as often.

    Both run at the same time over the same idle unit with five copies. The bare one lists the directory and encodes
    one small object: what it takes shows how dear it is on this machine, now, to wake up at all.
    """
    with tempfile.TemporaryDirectory() as unit:
        for step in range(5):
            header = b'{"w":{"dtype":"U8","shape":[1000],"data_offsets":[0,1000]}}'
            data = len(header).to_bytes(8, "little") + header + bytes(1000)
            Path(unit, f"step-{step}.safetensors").write_bytes(data)
        process = start(unit)
        wait_for(Path(unit, ".ckpt-governor", "state.json"), process)
        time.sleep(3.0)  # start-up is another figure
        bare = subprocess.Popen([sys.executable, "-c", FLOOR, unit])
        watched = [psutil.Process(process.pid), psutil.Process(bare.pid)]
        time.sleep(1.0)
        before = [sum(one.cpu_times()[:2]) for one in watched]
        time.sleep(seconds)
        used_s = [sum(one.cpu_times()[:2]) - was for one, was in zip(watched, before, strict=True)]
        memory_mib = watched[0].memory_info().rss / 2**20
        bare.kill()
        bare.wait()
        end(process)
    return memory_mib, used_s[0] / seconds, used_s[1] / seconds


def library_memory_mib() -> float:
    """Resident memory of a bare interpreter with the four libraries, in MiB."""
    code = f"{IMPORTS}; print(psutil.Process().memory_info().rss)"
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout) / 2**20


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the idle governor is watched")
    parser.add_argument("--rounds", type=int, default=7, help="starts, each beside one round of bare imports")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.chdir(Path(__file__).parent.parent)
    with tempfile.TemporaryDirectory() as compiled:
        compile_into(compiled)
        return measure(given)


def measure(given: argparse.Namespace) -> int:
    """Prints the figures; returns the exit code."""
    pairs = [(time_first_state_s(), time_imports_s()) for _ in range(given.rounds)]
    memory_mib, share, floor_share = measure_idle(given.seconds)
    figures = {
        "first_state_s": statistics.median(first for first, _ in pairs),
        "imports_s": statistics.median(imports for _, imports in pairs),
        "first_state_ratio": statistics.median(first / imports for first, imports in pairs),
        "memory_mib": memory_mib,
        "libraries_memory_mib": library_memory_mib(),
        "processor_share": share,
        "floor_share": floor_share,
    }
    good = (
        memory_mib < MEMORY_MIB_MAX
        and share * 100 < PROCESSOR_PERCENT_MAX
        and figures["first_state_ratio"] <= FIRST_STATE_RATIO_MAX
    )
    if given.json:
        print(json.dumps({"v": 1, "good": good, **figures}))
    else:
        print(f"first state.json   {figures['first_state_s'] * 1000:6.0f} ms after the start")
        print(
            f"four imports       {figures['imports_s'] * 1000:6.0f} ms; ratio {figures['first_state_ratio']:.2f}"
        )
        print(
            f"resident memory    {memory_mib:6.1f} MiB; the four libraries alone {figures['libraries_memory_mib']:.1f}"
        )
        print(f"processor          {share * 100:6.2f} % of one core, idle")
        print(
            f"bare interpreter   {floor_share * 100:6.2f} % that wakes as often, lists the unit and encodes one object"
        )
        print("within the bounds" if good else "OUT OF BOUNDS")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
