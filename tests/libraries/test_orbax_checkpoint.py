"""Checkpoints of the real Orbax: managers and checkpointers, both layouts, damaged, watched and killed."""

from __future__ import annotations

import os

import pytest
from libraries.folders import (
    SHARES,
    assert_a_killed_save_is_never_whole,
    assert_a_removal_is_no_broken_write,
    assert_caught,
    assert_watched_saves_are_whole_only_when_finished,
    assert_whole,
    seen,
)
from watching import Watched

from ckpt_governor.facts import CopyStatus, Structure

pytestmark = [
    pytest.mark.library("orbax"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def state():
    """Arrays, zeros, numbers, texts."""
    import jax.numpy
    import numpy

    return {
        "a": jax.numpy.arange(1000.0),
        "b": {"w": jax.numpy.ones((64, 64)), "z": jax.numpy.zeros((100, 100)), "s": 3, "scalar": jax.numpy.float32(1)},
        "n": numpy.arange(5),
        "half": jax.numpy.ones((3, 5), "bfloat16"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_to_keep": 2},
        {"enable_async_checkpointing": False},
        {"step_prefix": "step", "step_format_fixed_length": 6},
        {"single_host_load_and_broadcast": True},
    ],
    ids=["asynchronous", "with retention", "synchronous", "with a prefix", "broadcast"],
)
def test_the_steps_of_a_manager_are_copies(tmp_path, options):
    import orbax.checkpoint

    args = orbax.checkpoint.args
    with orbax.checkpoint.CheckpointManager(
        tmp_path, options=orbax.checkpoint.CheckpointManagerOptions(**options)
    ) as manager:
        for step in (1, 2, 3):
            items = args.Composite(state=args.StandardSave(state()), meta=args.JsonSave({"step": step}))
            manager.save(step, args=items, metrics={"loss": 1.0})
        manager.wait_until_finished()
    name = "step_{:06d}" if "step_prefix" in options else "{}"
    kept = (2, 3) if "max_to_keep" in options else (1, 2, 3)
    assert_whole(tmp_path, "orbax", {name.format(step): step for step in kept})


def test_a_step_with_one_item_is_a_copy(tmp_path):
    import orbax.checkpoint

    with orbax.checkpoint.CheckpointManager(tmp_path) as manager:
        manager.save(5, args=orbax.checkpoint.args.StandardSave(state()))
    assert_whole(tmp_path, "orbax", {"5": 5})


@pytest.mark.parametrize("tree", [{"s": 3}, {"a": None}, {"n": {}}, "state"])
def test_what_a_standard_checkpointer_saves_is_a_copy(tmp_path, tree):
    import orbax.checkpoint

    with orbax.checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "my_state", state() if tree == "state" else tree)
    assert_whole(tmp_path, "orbax", {"my_state": None})


def test_texts_are_a_copy(tmp_path):
    import orbax.checkpoint

    with orbax.checkpoint.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "my_state", {"text": "a", "n": 1})
    assert_whole(tmp_path, "orbax", {"my_state": None})


LAYOUTS = [(ocdbt, zarr3) for ocdbt in (False, True) for zarr3 in (False, True)]


def save_layout(folder, ocdbt, zarr3):
    """A copy of this layout."""
    import orbax.checkpoint

    handler = orbax.checkpoint.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3)
    with orbax.checkpoint.Checkpointer(handler) as checkpointer:
        checkpointer.save(folder, state())


@pytest.mark.parametrize(("ocdbt", "zarr3"), LAYOUTS)
def test_every_layout_is_whole(tmp_path, ocdbt, zarr3):
    save_layout(tmp_path / "step_7", ocdbt, zarr3)
    assert_whole(tmp_path, "orbax", {"step_7": 7})


@pytest.mark.parametrize("zarr3", [False, True])
def test_arrays_in_many_chunks_are_counted(tmp_path, zarr3):
    import jax.numpy
    import orbax.checkpoint

    handler = orbax.checkpoint.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=zarr3)
    tree = {"w": jax.numpy.zeros((100, 40)), "v": jax.numpy.ones((33,))}
    arguments = orbax.checkpoint.SaveArgs(chunk_byte_size=2000)
    with orbax.checkpoint.Checkpointer(handler) as checkpointer:
        checkpointer.save(
            tmp_path / "step_7",
            args=orbax.checkpoint.args.PyTreeSave(tree, save_args={"w": arguments, "v": arguments}),
        )
    chunks = [file for file in (tmp_path / "step_7" / "w").rglob("*") if file.name[-1].isdigit()]
    assert len([file for file in chunks if file.is_file()]) > (1 if not zarr3 else 0)
    assert_whole(tmp_path, "orbax", {"step_7": 7})


def test_arrays_and_keys_by_themselves_are_whole(tmp_path):
    import jax
    import orbax.checkpoint

    args = orbax.checkpoint.args
    items = {
        "array": args.ArraySave(jax.numpy.ones((5,))),
        "key": args.JaxRandomKeySave(jax.random.key(0)),
        "tree": args.PyTreeSave(state()),
    }
    with orbax.checkpoint.CheckpointManager(tmp_path) as manager:
        manager.save(1, args=args.Composite(**items))
    assert_whole(tmp_path, "orbax", {"1": 1})


def test_the_newer_interface_is_whole(tmp_path):
    from orbax.checkpoint import v1

    v1.save_pytree(tmp_path / "x", state())
    with v1.training.Checkpointer(tmp_path / "run") as checkpointer:
        checkpointer.save_pytree(1, state())
        checkpointer.save_pytree(2, state())
    assert_whole(tmp_path, "orbax", {"x": None, "run/1": 1, "run/2": 2})


CAUGHT = {
    False: (".zarray", "zarr.json", "_METADATA", "_sharding", "_CHECKPOINT_METADATA", "process_0"),
    True: ("manifest.ocdbt", "_METADATA", "_sharding", "_CHECKPOINT_METADATA", "array_metadatas/process_0"),
}


@pytest.mark.parametrize(("ocdbt", "zarr3"), LAYOUTS)
def test_what_is_cut_or_missing_where_it_can_be_told_is_seen(tmp_path, ocdbt, zarr3):
    save_layout(tmp_path / "step_7", ocdbt, zarr3)

    def spared(how, file):
        if how != "removed":
            return not file.endswith(CAUGHT[ocdbt])  # the sizes of packed data are nowhere that can be read
        if file.endswith("_METADATA"):  # that of a tree, and the one with the time
            return False
        if ocdbt:  # which data there should be is nowhere that can be read; but some must be
            return not (file.endswith("step_7/manifest.ocdbt") or "/step_7/d/" in f"/{file}")
        return "/array_metadatas/" in file or file.count("/") < 2

    print(f"\nOrbax, ocdbt {ocdbt}, zarr3 {zarr3}: {assert_caught(tmp_path, 'step_7', spared=spared)}")


def test_whatever_is_lost_after_a_copy_was_sound_is_missed(tmp_path):
    import orbax.checkpoint

    unit = Watched(tmp_path)
    with orbax.checkpoint.CheckpointManager(tmp_path) as manager:
        manager.save(5, args=orbax.checkpoint.args.StandardSave(state()))
    assert unit.pass_s(2)["5"] == (CopyStatus.SOUND, "")
    files = sorted(file for file in (tmp_path / "5").rglob("*") if file.is_file())
    assert any("ocdbt.process_0/d" in str(file) for file in files)
    for file in files:
        data = file.read_bytes()
        for spoil in (lambda file=file: os.truncate(file, file.stat().st_size // 2), file.unlink):
            spoil()
            status, why = unit.pass_s(31)["5"]
            kept = file.name == "commit_success.txt"  # a text beside the time of the commit
            assert (status is CopyStatus.BROKEN) is not kept, (file, why)
            file.write_bytes(data)
            assert unit.pass_s(2)["5"] == (CopyStatus.SOUND, "")
    (tmp_path / "5" / "_CHECKPOINT_METADATA").unlink()
    assert Watched(tmp_path).pass_s(31)["5"] == (CopyStatus.BROKEN, "it has no _CHECKPOINT_METADATA")


@pytest.mark.parametrize("how", ["standard", "newer"])
def test_every_copy_tells_the_time_of_its_commit_and_lacks_it_when_it_is_gone(tmp_path, how):
    import orbax.checkpoint
    from orbax.checkpoint import v1

    if how == "standard":
        with orbax.checkpoint.StandardCheckpointer() as checkpointer:
            checkpointer.save(tmp_path / "step_7", state())
    else:
        v1.save_pytree(tmp_path / "step_7", state())
    assert_whole(tmp_path, "orbax", {"step_7": 7})
    (tmp_path / "step_7" / "_CHECKPOINT_METADATA").unlink()
    assert seen(tmp_path)["step_7"].structure is Structure.INCOMPLETE


MANAGER = """
import jax.numpy, numpy, orbax.checkpoint
from pathlib import Path
state = {str(n): jax.numpy.asarray(numpy.random.default_rng(n).random((1000, 1000))) for n in range(20)}
options = orbax.checkpoint.CheckpointManagerOptions(max_to_keep=2)
manager = orbax.checkpoint.CheckpointManager(Path(path), options=options)
def save(step):
    manager.save(step, args=orbax.checkpoint.args.StandardSave(state))
    manager.wait_until_finished()
save(1)
SAVE
save(2)
"""
ZARR = """
import jax.numpy, numpy, orbax.checkpoint
from pathlib import Path
state = {str(n): jax.numpy.asarray(numpy.random.default_rng(n).random((1000, 1000))) for n in range(20)}
saver = orbax.checkpoint.Checkpointer(orbax.checkpoint.PyTreeCheckpointHandler(use_ocdbt=False))
saver.save(Path(path) / "1", state)
SAVE
saver.save(Path(path) / "2", state)
"""


def test_watched_saves_are_whole_only_when_they_are_finished(tmp_path):
    assert_watched_saves_are_whole_only_when_finished(tmp_path, MANAGER + "save(3)\n", {"2", "3"})


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("code", [MANAGER, ZARR], ids=["ocdbt", "zarr"])
def test_a_killed_save_is_never_whole(tmp_path, code, share):
    assert_a_killed_save_is_never_whole(tmp_path, code, share, "1")


def test_a_step_that_is_removed_is_no_broken_write(tmp_path):
    import orbax.checkpoint

    with orbax.checkpoint.CheckpointManager(tmp_path) as manager:
        for step in (1, 2):
            manager.save(step, args=orbax.checkpoint.args.StandardSave(state()))
    assert_a_removal_is_no_broken_write(tmp_path, "1")


def test_a_save_that_failed_leaves_only_a_temporary(tmp_path):
    import jax.numpy
    import orbax.checkpoint

    with (
        orbax.checkpoint.StandardCheckpointer() as checkpointer,
        pytest.raises(ValueError, match="zero size"),
    ):
        checkpointer.save(tmp_path / "my_state", {"e": jax.numpy.zeros((0, 3))})
    assert all(sighting.temporary for sighting in seen(tmp_path).values())
