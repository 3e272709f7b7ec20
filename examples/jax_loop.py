"""A plain JAX loop that saves when its checkpoint governor asks: ``python examples/jax_loop.py DIR``."""

import argparse
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ckpt_reader import should_save

Weights = dict[str, jax.Array]


def save(folder: Path, step: int, weights: Weights) -> None:
    """Writes a copy beside its place and renames it, so that nobody ever resumes from half of one."""
    path = folder / f"step-{step}.npz"
    beside = folder / f"step-{step}.npz.tmp"
    with open(beside, "wb") as file:
        np.savez(file, **jax.device_get(weights))
    os.replace(beside, path)
    print(f"step {step}: saved {path.name}", flush=True)


def resume(folder: Path, weights: Weights) -> tuple[int, Weights]:
    """Step and weights of the newest copy; 0 and what was given when there is none."""
    copies = {int(path.stem.removeprefix("step-")): path for path in folder.glob("step-*.npz")}
    if not copies:
        return 0, weights
    step = max(copies)
    print(f"step {step}: resumed", flush=True)
    with np.load(copies[step]) as state:
        return step, {name: jnp.asarray(state[name]) for name in weights}


def loss_of(weights: Weights, points: jax.Array) -> jax.Array:
    """How badly the network tells which points of a square lie in a circle."""
    hidden = jnp.tanh(points @ weights["into"] + weights["shift"])
    score = hidden @ weights["out"]
    sign = jnp.where(jnp.linalg.norm(points, axis=1) < 0.7, 1.0, -1.0)
    return jnp.mean(jnp.logaddexp(0.0, -sign * score))


@jax.jit
def train_step(weights: Weights, step: int) -> tuple[Weights, jax.Array]:
    """One step of gradient descent on the batch of this step."""
    points = jax.random.uniform(jax.random.key(step), (64, 2), minval=-1.0, maxval=1.0)
    loss, slopes = jax.value_and_grad(loss_of)(weights, points)
    return jax.tree.map(lambda weight, slope: weight - 0.2 * slope, weights, slopes), loss


def main() -> None:
    """Trains, and asks at every step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=Path, help="the checkpoint directory")
    parser.add_argument("--steps", type=int, default=20_000)
    given = parser.parse_args()

    first, second = jax.random.split(jax.random.key(0))
    into, out = 2.0 * jax.random.normal(first, (2, 32)), 0.1 * jax.random.normal(second, (32,))
    step, weights = resume(given.dir, {"into": into, "shift": jnp.linspace(-1.0, 1.0, 32), "out": out})
    while step < given.steps:
        step += 1
        weights, loss = train_step(weights, step)
        if step % 500 == 0:
            print(f"step {step}: loss {loss:.3f}", flush=True)
        if should_save(given.dir):  # the save point
            save(given.dir, step, weights)
    if should_save(given.dir, final=True):  # the last one, which also marks the end
        save(given.dir, step, weights)


if __name__ == "__main__":
    main()
