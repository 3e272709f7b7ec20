"""A real training job in the standard library alone: a small network learns a ring, and saves when it is told to.

``python -m ckpt_governor.demo_job DIR --steps 2000`` trains, resumes from the newest whole copy in DIR, and takes part
as any job does: by ``should_save()`` at its save point. Its copies are safetensors files, written in place and slowly,
as those of a large model are, so that a write that is cut off leaves half a file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ckpt_reader import should_save

HIDDEN = 16
BATCH = 24
RATE, MOMENTUM = 0.05, 0.9
WRITE_S = 0.6
"""How long a write takes: these weights alone would be there at once."""
PIECES = 12

Weights = dict[str, list[float]]


def new_weights() -> Weights:
    """The network before training: 2 inputs, one hidden layer, one output; with the momentum of each weight."""
    chance = random.Random(2)
    hidden = [chance.uniform(-1.5, 1.5) for _ in range(3 * HIDDEN)]
    output = [chance.uniform(-0.5, 0.5) for _ in range(HIDDEN + 1)]
    still = {"hidden.momentum": [0.0] * len(hidden), "output.momentum": [0.0] * len(output)}
    return {"hidden": hidden, "output": output, **still}


def points(step: int) -> list[tuple[float, float, float]]:
    """The batch of a step, the same in every run: points of a square, and whether each lies in the ring."""
    chance = random.Random(step)
    batch = []
    for _ in range(BATCH):
        x, y = chance.uniform(-1.0, 1.0), chance.uniform(-1.0, 1.0)
        batch.append((x, y, 1.0 if 0.35 < math.hypot(x, y) < 0.85 else 0.0))
    return batch


def train_step(weights: Weights, step: int) -> float:
    """One step of gradient descent; returns the mean loss of its batch."""
    hidden, output = weights["hidden"], weights["output"]
    slopes: Weights = {"hidden": [0.0] * len(hidden), "output": [0.0] * len(output)}
    loss = 0.0
    for x, y, wanted in points(step):
        active = [
            math.tanh(hidden[3 * unit] * x + hidden[3 * unit + 1] * y + hidden[3 * unit + 2])
            for unit in range(HIDDEN)
        ]
        score = output[HIDDEN] + sum(output[unit] * active[unit] for unit in range(HIDDEN))
        guess = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, score))))
        loss -= math.log(max(1e-12, guess if wanted else 1.0 - guess)) / BATCH
        error = (guess - wanted) / BATCH
        slopes["output"][HIDDEN] += error
        for unit in range(HIDDEN):
            slopes["output"][unit] += error * active[unit]
            back = error * output[unit] * (1.0 - active[unit] * active[unit])
            for place, given in enumerate((x, y, 1.0)):
                slopes["hidden"][3 * unit + place] += back * given
    for name, slope in slopes.items():
        momentum = weights[f"{name}.momentum"]
        for index, value in enumerate(slope):
            momentum[index] = MOMENTUM * momentum[index] - RATE * value
            weights[name][index] += momentum[index]
    return loss


def encode(weights: Weights, step: int, loss: float) -> bytes:
    """The bytes of a safetensors file: the length of its header, the header, the numbers."""
    header: dict[str, object] = {"__metadata__": {"step": str(step), "loss": repr(loss)}}
    data = b""
    for name, values in weights.items():
        packed = struct.pack(f"<{len(values)}d", *values)
        offsets = [len(data), len(data) + len(packed)]
        header[name] = {"dtype": "F64", "shape": [len(values)], "data_offsets": offsets}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def decode(data: bytes) -> tuple[Weights, int, float]:
    """Weights, step and loss of a copy. Raises ValueError when it is not whole."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        told, weights, numbers = header.pop("__metadata__"), {}, data[8 + length :]
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            weights[name] = list(struct.unpack(f"<{entry['shape'][0]}d", numbers[begin:end]))
        if max(entry["data_offsets"][1] for entry in header.values()) != len(numbers):
            raise ValueError("its length is not what its header says")
        return weights, int(told["step"]), float(told["loss"])
    except (struct.error, KeyError, TypeError, LookupError) as error:
        raise ValueError(f"no whole copy: {error}") from None


def newest_whole(folder: Path) -> tuple[str, Weights, int, float] | None:
    """Name, weights, step and loss of the newest copy that is whole: what a job resumes from."""
    found = []
    for path in folder.glob("step-*.safetensors"):
        with suppress(OSError, ValueError):
            found.append((path.name, *decode(path.read_bytes())))
    return max(found, key=lambda copy: copy[2], default=None)


def save(folder: Path, weights: Weights, step: int, loss: float, *, dies: bool) -> None:
    """Writes a copy in place; one that dies is killed in the middle of it."""
    data = encode(weights, step, loss)
    size = -(-len(data) // PIECES)
    with open(folder / f"step-{step}.safetensors", "wb", buffering=0) as file:
        for piece in range(PIECES):
            if dies and piece == PIECES // 2:
                tell("is killed in the middle of its write")
                os.kill(os.getpid(), signal.SIGKILL)
            file.write(data[piece * size : (piece + 1) * size])
            time.sleep(WRITE_S / PIECES)


def tell(text: str) -> None:
    """One line for whoever watches."""
    sys.stdout.write(f"job   {text}\n")
    sys.stdout.flush()


def begin(folder: Path) -> tuple[Weights, int, list[float]]:
    """Weights, step and the losses so far, from the newest whole copy or from nothing."""
    resumed = newest_whole(folder)
    if resumed is None:
        tell("begins")
        return new_weights(), 0, []
    name, weights, step, loss = resumed
    tell(f"resumes from {name}")
    return weights, step, [loss]


def train(folder: Path, steps: int, *, pace_s: float, dies_in_write: int) -> None:
    """Trains to that step, or until SIGINT says that it is enough, and writes the last copy."""
    weights, step, losses = begin(folder)
    if step >= steps:
        return  # trained already
    enough: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: enough.append(number))
    writes, loss = 0, 0.0
    while step < steps and not enough:
        step += 1
        losses = [*losses[-49:], train_step(weights, step)]
        loss = sum(losses) / len(losses)
        if should_save(folder):
            writes += 1
            tell(f"step {step}, loss {loss:.3f}: writes step-{step}.safetensors")
            save(folder, weights, step, loss, dies=writes == dies_in_write)
        time.sleep(pace_s)
    tell(f"step {step}, loss {loss:.3f}: training is over, writes step-{step}.safetensors")
    if should_save(folder, final=True):
        save(folder, weights, step, loss, dies=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(
        prog="python -m ckpt_governor.demo_job", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("dir", type=Path, help="the checkpoint directory")
    parser.add_argument("--steps", type=int, default=2000, help="train to this step (default 2000)")
    parser.add_argument("--pace", type=float, default=0.003, help="seconds to rest after each step")
    parser.add_argument(
        "--die-in-write", type=int, default=0, metavar="N", help="be killed in the middle of the Nth write"
    )
    given = parser.parse_args(arguments)
    train(given.dir, given.steps, pace_s=given.pace, dies_in_write=given.die_in_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
