"""A plain PyTorch loop that saves when its checkpoint governor asks: ``python examples/pytorch_loop.py DIR``."""

import argparse
import os
from pathlib import Path

import torch
from torch import nn

from ckpt_reader import should_save


def save(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Writes a copy beside its place and renames it, so that nobody ever resumes from half of one."""
    path = folder / f"step-{step}.pt"
    beside = folder / f"step-{step}.pt.tmp"
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, beside)
    os.replace(beside, path)
    print(f"step {step}: saved {path.name}", flush=True)


def resume(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Takes up the newest copy; returns its step, 0 when there is none."""
    copies = {int(path.stem.removeprefix("step-")): path for path in folder.glob("step-*.pt")}
    if not copies:
        return 0
    state = torch.load(copies[max(copies)], weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"step {state['step']}: resumed", flush=True)
    return int(state["step"])


def main() -> None:
    """Learns which points of a square lie in a circle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=Path, help="the checkpoint directory")
    parser.add_argument("--steps", type=int, default=20_000)
    given = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = resume(given.dir, model, optimizer)
    while step < given.steps:
        step += 1
        points = 2 * torch.rand(64, 2, generator=torch.Generator().manual_seed(step)) - 1
        inside = (points.norm(dim=1, keepdim=True) < 0.7).float()
        loss = nn.functional.binary_cross_entropy_with_logits(model(points), inside)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 500 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
        if should_save(given.dir):  # the save point
            save(given.dir, step, model, optimizer)
    if should_save(given.dir, final=True):  # the last one, which also marks the end
        save(given.dir, step, model, optimizer)


if __name__ == "__main__":
    main()
