"""Files of the real Flax: states in msgpack, by to_bytes and by save_checkpoint."""

from __future__ import annotations

import pytest
from libraries.one_file import (
    INCOMPLETE,
    SHAPELESS,
    SHARES,
    assert_a_killed_save_is_never_whole,
    assert_a_watched_save_is_whole_only_when_finished,
    assert_an_unwritten_tail_is_left_open,
    assert_cuts_are_incomplete,
    assert_whole,
    assert_zeroed_tails,
    look,
)

pytestmark = pytest.mark.library("flax")


def train_state():
    """A network, the moments of its optimizer, and a step."""
    import jax
    import numpy
    import optax
    from flax.training.train_state import TrainState

    params = {
        f"dense_{n}": {"kernel": numpy.ones((32, 16), "f4") * n, "bias": numpy.zeros(16)} for n in range(12)
    }
    return TrainState.create(apply_fn=jax.nn.relu, params=params, tx=optax.adam(1e-3))


def of_all_kinds():
    """Every type that Flax writes, and holders of many sizes."""
    import jax.numpy as jnp
    import numpy

    kinds = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16"]
    arrays = {kind: numpy.zeros((3, 5), kind) for kind in kinds}
    arrays |= {"bfloat16": jnp.ones(7, jnp.bfloat16), "float8": jnp.ones(7, jnp.float8_e4m3fn)}
    arrays |= {"scalar": numpy.float32(1.5), "zero": numpy.zeros(()), "none": numpy.zeros((0, 4))}
    plain = {
        "int": -7,
        "big": 1 << 40,
        "float": 0.1,
        "complex": 1 + 2j,
        "text": "t" * 70_000,
        "bytes": b"b" * 300,
    }
    many = {str(number): number for number in range(70_000)}
    return {"arrays": arrays, "plain": plain, "many": many, "list": [1, [2, {"a": None}], True], "empty": {}}


@pytest.mark.parametrize("name", ["model_3.msgpack", "checkpoint_3"])
@pytest.mark.parametrize("state", [train_state, of_all_kinds])
def test_a_written_state_is_whole_and_every_cut_of_it_is_not(tmp_path, state, name):
    from flax.serialization import to_bytes

    path = tmp_path / name
    path.write_bytes(to_bytes(state()))
    assert_whole(path, "msgpack", 3)
    assert_cuts_are_incomplete(path, least=0 if name.endswith(".msgpack") else 20)


@pytest.mark.parametrize("state", [{}, {"step": 3}], ids=["empty", "one number"])
def test_the_smallest_states_are_whole(tmp_path, state):
    from flax.serialization import to_bytes

    path = tmp_path / "model_3.msgpack"
    path.write_bytes(to_bytes(state))
    assert_whole(path, "msgpack", 3)
    path.write_bytes(path.read_bytes()[:-1])
    assert look(path).structure is INCOMPLETE


@pytest.mark.parametrize("state", [{}, [], ()])
def test_an_empty_state_under_a_name_without_an_ending_is_never_called_incomplete(tmp_path, state):
    from flax.serialization import to_bytes

    path = tmp_path / "checkpoint_0"
    path.write_bytes(to_bytes(state))
    assert (look(path).format, look(path).structure, look(path).step) == ("msgpack", SHAPELESS, 0)


def test_an_array_in_chunks_is_whole(tmp_path, monkeypatch):
    import numpy
    from flax import serialization

    monkeypatch.setattr(serialization, "MAX_CHUNK_SIZE", 1000)
    path = tmp_path / "checkpoint_3"
    path.write_bytes(serialization.to_bytes({"a": numpy.random.default_rng(3).standard_normal(5000)}))
    assert b"__msgpack_chunked_array__" in path.read_bytes()
    assert_whole(path, "msgpack", 3)
    assert_cuts_are_incomplete(path, least=10)


@pytest.mark.filterwarnings("ignore:Flax Checkpointing will soon be deprecated:DeprecationWarning")
def test_the_checkpoints_of_the_library_are_whole(tmp_path):
    import flax
    from flax.training import checkpoints

    with flax.config.temp_flip_flag("use_orbax_checkpointing", False):
        for step in (1, 2, 3):
            checkpoints.save_checkpoint(str(tmp_path), train_state(), step, keep=1, overwrite=True)
    assert_whole(tmp_path / "checkpoint_3", "msgpack", 3)


def test_an_end_of_zeros_is_seen_and_one_that_nobody_wrote_too(tmp_path):
    from flax.serialization import to_bytes

    path = tmp_path / "checkpoint_3"
    path.write_bytes(to_bytes(train_state()))
    assert_zeroed_tails(path, caught=True)
    path.write_bytes(to_bytes(train_state()))
    assert_an_unwritten_tail_is_left_open(path)


SAVE = """
import flax, numpy
from flax.serialization import to_bytes
from flax.training import checkpoints
flax.config.update("flax_use_orbax_checkpointing", False)
state = {str(number): numpy.full((1024, 4096), number, "f4") for number in range(8)}
data = to_bytes(state)
SAVE
if path.endswith(".msgpack"):
    open(path, "wb").write(data)
else:
    checkpoints.save_checkpoint(path.rpartition("/")[0], state, 3)
"""
SAVED_BYTES = 8 * 1024 * 4096 * 4


def loads(path):
    """The library reads all of it, as it was saved."""
    from flax.serialization import msgpack_restore

    state = msgpack_restore(path.read_bytes())
    assert all((state[str(number)] == number).all() for number in range(8))


@pytest.mark.parametrize("name", ["model_3.msgpack", "checkpoint_3"])
def test_a_save_that_is_watched_is_whole_only_when_it_is_finished(tmp_path, name):
    assert_a_watched_save_is_whole_only_when_finished(tmp_path / name, SAVE, loads)


KILLS = [("model_3.msgpack", share) for share in SHARES] + [("checkpoint_3", 0.5), ("checkpoint_3", 0.99)]


@pytest.mark.parametrize(("name", "share"), KILLS)
def test_a_save_that_is_killed_is_never_whole(tmp_path, name, share):
    assert_a_killed_save_is_never_whole(tmp_path / name, SAVE, share, SAVED_BYTES, loads)
