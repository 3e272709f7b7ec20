"""A small training job for the tests, run as a script: a counter is the model, a copy is a real safetensors file.

It asks for its saves in one of three ways: ``helper`` by ckpt_reader, ``plain`` by the six lines of
docs/plain-read.md, ``deaf`` not at all. It tells what it does in lines of JSON, and trains until ``UNIT.end`` is there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PIECES = 20


def tell(**event: object) -> None:
    """One line for the test."""
    print(json.dumps({"at": time.time(), **event}), flush=True)


def header(count: int, state_at: float, step: int) -> bytes:
    """The beginning of a safetensors file with one tensor of that many bytes."""
    words = {
        "__metadata__": {"state_at": repr(state_at), "step": str(step)},
        "weights": {"dtype": "U8", "shape": [count], "data_offsets": [0, count]},
    }
    text = json.dumps(words).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def state_of(path: Path) -> dict[str, float] | None:
    """Step and moment of the state in a copy; None when the copy is not whole."""
    with suppress(OSError, ValueError, KeyError):
        data = path.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        words = json.loads(data[8:end])
        if len(data) == end + words["weights"]["data_offsets"][1]:
            return {name: float(value) for name, value in words["__metadata__"].items()}
    return None


class Asking:
    """How the job learns that it should save."""

    def __init__(self, how: str, unit: Path) -> None:
        self.how, self.unit, self.served = how, unit, 0
        self.control = unit / ".ckpt-governor"

    def wanted(self) -> tuple[bool, int]:
        """Whether to save now, and the id of the request that is served; 0 when it is the job's own period."""
        if self.how == "helper":
            import ckpt_reader

            former = self._seen()
            asked = ckpt_reader.should_save(self.unit)
            now = self._seen() if asked else former
            return asked, now if now != former else 0
        if self.how == "plain":
            request = None
            with suppress(OSError, ValueError, KeyError):
                request = json.loads((self.unit / ".ckpt-governor" / "state.json").read_bytes())["request"]
            if request and request["id"] > self.served:
                self.served = request["id"]
                return True, self.served
        return False, 0

    def last(self) -> None:
        """Marks the end of training."""
        if self.how == "helper":
            import ckpt_reader

            assert ckpt_reader.should_save(self.unit, final=True)
        else:
            (self.control / "glue" / "ending").touch()

    def _seen(self) -> int:
        with suppress(OSError, ValueError):
            return int(json.loads((self.control / "glue" / "seen").read_bytes())["id"])
        return 0


class Training:
    """The loop, and its copies in place, so that a write that is cut leaves a part of a file."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.unit = given, given.unit
        self.asking = Asking(given.how, given.unit)
        whole = [state for path in self.unit.glob("step-*.safetensors") if (state := state_of(path))]
        self.step = int(max((state["step"] for state in whole), default=0))
        self.stall_s = 0.0
        tell(event="start", resumed=self.step, pid=os.getpid())

    def run(self) -> None:
        """Trains until it is told that it has trained enough."""
        end, looked = Path(f"{self.unit}.end"), False
        while not end.exists():
            begun = time.monotonic()
            time.sleep(self.given.step_s)
            self.stall_s = max(self.stall_s, time.monotonic() - begun - self.given.step_s)
            self.step += 1
            asked, request_id = self.asking.wanted()
            if not looked:
                tell(event="looked")
                looked = True
            if asked:
                self.save(request_id)
        self.asking.last()
        self.save(-1)
        tell(event="end", step=self.step)

    def save(self, request_id: int) -> None:
        """Writes one copy."""
        path, state_at = self.unit / f"step-{self.step}.safetensors", time.time()
        tell(event="begin", name=path.name, request=request_id)
        piece = self.given.bytes // PIECES
        try:
            with open(path, "wb", buffering=0) as file:
                file.write(header(piece * PIECES, state_at, self.step))
                for _ in range(PIECES):
                    time.sleep(self.given.write_s / PIECES)
                    file.write(b"w" * piece)
        except OSError as error:
            tell(event="failed", name=path.name, errno=error.errno)
            return
        tell(event="copy", name=path.name, request=request_id, state_at=state_at, stall_s=self.stall_s)


def main() -> None:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=["helper", "plain", "deaf"])
    parser.add_argument("unit", type=Path)
    parser.add_argument("--bytes", type=int, default=100_000)
    parser.add_argument("--step-s", type=float, default=0.05)
    parser.add_argument("--write-s", type=float, default=0.2)
    parser.add_argument("--term", type=int, help="exit code on SIGTERM; without it the signal ends the job")
    given = parser.parse_args()

    def on_term(*_: object) -> None:
        tell(event="term")
        sys.exit(given.term)

    if given.term is not None:
        signal.signal(signal.SIGTERM, on_term)
    Training(given).run()


if __name__ == "__main__":
    main()
