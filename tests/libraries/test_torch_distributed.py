"""Folders of the real torch.distributed.checkpoint: single and several ranks, saved again in place, cut and killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from libraries.one_file import Follower, look, saver, sightings, tell

from ckpt_governor.facts import CopyStatus, Structure
from ckpt_governor.formats.deep import check
from ckpt_governor.observe.copies import CopyScanner

pytestmark = pytest.mark.library("torch")
COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS


def state(layers=4, rows=64):
    """A state of tensors of several kinds, with things in it that are none."""
    import torch

    torch.manual_seed(3)
    tensors = {f"layers.{n}.weight": torch.randn(rows, 32) for n in range(layers)}
    odd = {"half": torch.ones(7, dtype=torch.bfloat16), "none": torch.zeros(0), "one": torch.tensor(5)}
    return {"model": {**tensors, **odd}, "step": 3, "options": {"rate": 0.1, "names": ["a", "b"]}}


def save(folder, values=None, *, save_options=None, **writer):
    """By torch's own writer, in this process alone."""
    import torch.distributed.checkpoint as dcp

    storage = dcp.FileSystemWriter(folder, **writer)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of a folder that is saved into again, and of a process without ranks
        dcp.save(values or state(), storage_writer=storage, no_dist=True, **(save_options or {}))
    return folder


def loads(folder, values=None):
    """Whether the library reads everything back."""
    import torch.distributed.checkpoint as dcp

    wanted = values or state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dcp.load(wanted, checkpoint_id=folder, no_dist=True)
        except Exception:  # whatever it says of a damaged one
            return False
    return True


def safetensors_option():
    """The other way in which the writer may store tensors."""
    from torch.distributed.checkpoint.filesystem import SerializationFormat

    return {"serialization_format": SerializationFormat.SAFETENSORS}


WRITERS = {
    "plain": dict,
    "file for each item": lambda: {"single_file_per_rank": False},
    "threads": lambda: {"thread_count": 5},
    "not flushed": lambda: {"sync_files": False},
    "safetensors": safetensors_option,
}
every_writer = pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)


@every_writer
def test_what_is_saved_is_one_complete_copy(tmp_path, writer):
    folder = save(tmp_path / "step_100", **writer())
    sighting = look(folder)
    assert (sighting.name, sighting.format, sighting.step) == ("step_100", "dcp", 100)
    mixed = "safetensors" in str(writer())  # objects before them, in a file of both kinds
    assert (sighting.structure, bool(sighting.why)) == ((SHAPELESS, True) if mixed else (COMPLETE, False))
    assert sighting.bytes == sum(path.stat().st_size for path in folder.iterdir())


def test_tensors_alone_that_are_stored_as_safetensors_are_complete(tmp_path):
    folder = save(tmp_path / "step_100", state()["model"], **safetensors_option())
    assert (look(folder).structure, look(folder).why) == (COMPLETE, "")


def test_a_rank_that_saves_without_the_others_is_complete(tmp_path):
    folder = save(tmp_path / "step_100", save_options={"use_collectives": False})
    assert [path.name for path in folder.glob("*.metadata")] == ["__0.metadata"] or (
        folder / ".metadata"
    ).exists()
    assert look(folder).structure is COMPLETE


def test_a_state_of_nothing_but_objects_is_complete(tmp_path):
    assert look(save(tmp_path / "step_1", {"a": 1, "b": "text"})).structure is COMPLETE


def test_an_asynchronous_save_is_complete(tmp_path):
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "meet"), 1), rank=0, world_size=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.async_save(state(), checkpoint_id=tmp_path / "unit" / "step_100").result()
    finally:
        dist.destroy_process_group()
    assert look(tmp_path / "unit" / "step_100").structure is COMPLETE


@every_writer
def test_whatever_is_cut_is_incomplete(tmp_path, writer):
    whole = save(tmp_path / "whole", **writer())
    drawn = random.Random(5)
    files = sorted(path.name for path in whole.iterdir() if path.stat().st_size)
    for name in files if len(files) < 6 else [".metadata", *drawn.sample(files[1:], 5)]:
        size = (whole / name).stat().st_size
        for count in {size - 1, 0, *(drawn.randrange(size) for _ in range(12))}:
            shutil.copytree(whole, folder := tmp_path / "unit" / "step_100")
            os.truncate(folder / name, count)
            assert look(folder).structure is INCOMPLETE, (name, count)
            shutil.rmtree(folder)


@every_writer
def test_whatever_is_removed_is_missed(tmp_path, writer):
    whole = save(tmp_path / "whole", **writer())
    for name in sorted(path.name for path in whole.iterdir() if path.stat().st_size):
        shutil.copytree(whole, folder := tmp_path / "unit" / "step_100")
        (folder / name).unlink()
        if any(folder.glob("*.distcp")):
            assert look(folder).structure is INCOMPLETE, name
        shutil.rmtree(folder)


def test_a_zeroed_tail_of_full_size_is_found_where_it_reaches_the_last_item(tmp_path):
    whole = save(tmp_path / "whole", state(rows=640))
    drawn = random.Random(5)
    for _ in range(12):
        shutil.copytree(whole, folder := tmp_path / "unit" / "step_100")
        size = (folder / "__0_0.distcp").stat().st_size
        os.truncate(folder / "__0_0.distcp", drawn.randrange(size - 30))
        os.truncate(folder / "__0_0.distcp", size)
        found = look(folder)
        assert found.structure is INCOMPLETE
        assert found.why.endswith(("has no end record", "was never written"))
        shutil.rmtree(folder)


def test_a_deep_check_finds_a_flipped_bit_in_a_tensor(tmp_path):
    folder = save(tmp_path / "step_100", state(rows=640))
    assert deeply(folder) == ""
    shard = folder / "__0_0.distcp"
    data = bytearray(shard.read_bytes())
    data[len(data) * 3 // 8] ^= 1
    shard.write_bytes(data)
    assert "__0_0.distcp: model.layers." in deeply(folder)


def deeply(folder):
    """What a deep check finds wrong."""
    scanner = CopyScanner(str(folder.parent), budget_s=60.0)
    scanner.look(time.time() + 1e6, 0.0)
    root = os.open(folder.parent, os.O_RDONLY)
    try:
        format, files = scanner.files_of(folder.name, root)
        return check(files, format.plan(files)).wrong
    finally:
        os.close(root)


def test_a_folder_that_is_copied_in_any_order_is_never_called_incomplete(tmp_path):
    whole = save(tmp_path / "whole", thread_count=6)
    drawn = random.Random(5)
    for by_hand in [False, True] * 6:
        folder = tmp_path / "unit" / "step_100"
        folder.mkdir(parents=True)
        names = sorted(path.name for path in whole.iterdir())
        drawn.shuffle(names)
        for second, name in enumerate(names):
            shutil.copyfile(whole / name, folder / name)
            if by_hand:
                os.utime(folder / name, (time.time() - 900 + 90 * second,) * 2)
        assert look(folder).structure in (COMPLETE, SHAPELESS)
        shutil.rmtree(folder)


# Two ranks


RANKS = """
import os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

rank, world, unit, meet = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
dist.init_process_group("gloo", store=dist.FileStore(meet, world), rank=rank, world_size=world)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 10))
mesh = init_device_mesh("cpu", (world,))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(4, 64)).sum().backward()
optimizer.step()
weights, moments = get_state_dict(model, optimizer)
state = {"model": weights, "optimizer": moments, "step": 3}
dcp.save(state, checkpoint_id=f"{unit}/step_100")
dcp.async_save(state, checkpoint_id=f"{unit}/step_200").result()
dcp.save(state, storage_writer=dcp.FileSystemWriter(f"{unit}/step_300", single_file_per_rank=False))
dcp.save(state, checkpoint_id=f"{unit}/step_400")
dcp.save(state, checkpoint_id=f"{unit}/step_400")
dcp.save(state, checkpoint_id=f"{unit}/step_500", use_collectives=False)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """A unit into which a sharded model was saved by two ranks in several ways."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "save.py").write_text(RANKS)
    (folder / "unit").mkdir()
    command = [sys.executable, str(folder / "save.py")]
    processes = [
        subprocess.Popen([*command, str(rank), "2", str(folder / "unit"), str(folder / "meet")])
        for rank in range(2)
    ]
    assert [process.wait(110) for process in processes] == [0, 0]
    return folder / "unit"


def test_what_two_ranks_save_is_complete_in_every_way_to_save(ranks):
    found = sightings(ranks)
    shown = {sighting.step: (sighting.format, sighting.structure, sighting.why) for sighting in found}
    assert shown == dict.fromkeys((100, 200, 300, 400, 500), ("dcp", COMPLETE, ""))


@pytest.mark.parametrize("step", [100, 300, 500])
def test_every_file_of_two_ranks_is_missed_when_it_is_gone_or_cut(tmp_path, ranks, step):
    for name in sorted(path.name for path in (ranks / f"step_{step}").iterdir() if path.stat().st_size):
        for spoil in (Path.unlink, lambda path: os.truncate(path, path.stat().st_size // 2)):
            shutil.copytree(ranks / f"step_{step}", folder := tmp_path / "unit" / f"step_{step}")
            spoil(folder / name)
            assert look(folder).structure is INCOMPLETE, name
            shutil.rmtree(folder)


# A save that is watched or killed


SAVER = """
import warnings
warnings.simplefilter("ignore")
import torch, torch.distributed.checkpoint as dcp
state = {f"layer.{n}": torch.randn(1024, 1024) for n in range(16)}
def save():
    dcp.save(state, storage_writer=dcp.FileSystemWriter(path, thread_count=THREADS), no_dist=True)
BEFORE
SAVE
save()
"""
SAVED_BYTES = 16 << 22


def code(*, before="", threads=1):
    """What the saving process runs."""
    return SAVER.replace("BEFORE", before).replace("THREADS", str(threads))


def values():
    """What the saving process saves, in its shape."""
    import torch

    return {f"layer.{n}": torch.zeros(1024, 1024) for n in range(16)}


def watch(process, follower, folder):
    """Looks until the process has saved: the structures that were seen, each once as long as it lasted."""
    lasted = []
    os.set_blocking(process.stdout.fileno(), False)
    while not process.stdout.read() and process.poll() is None:
        for sighting in follower.look():
            if sighting.structure is COMPLETE:
                assert (folder / ".metadata").exists()
            if lasted[-1:] != [sighting.structure]:
                lasted.append(sighting.structure)
        assert all(copy.status is not CopyStatus.BROKEN for copy in follower.copies)
    return lasted


@pytest.mark.parametrize("threads", [1, 4])
def test_a_save_that_is_watched_is_complete_only_when_it_is_finished(tmp_path, threads):
    folder = tmp_path / "step_100"
    with saver(folder, code(threads=threads)) as process:
        follower = Follower(tmp_path)
        follower.look()
        tell(process)
        assert watch(process, follower, folder) in ([INCOMPLETE], [INCOMPLETE, COMPLETE])
    follower.look()
    (copy,) = follower.copies
    assert (copy.status, copy.serial) == (CopyStatus.SOUND, 1)
    assert loads(folder, values())


@pytest.mark.parametrize("threads", [1, 4])
def test_a_save_into_the_same_folder_is_seen_from_its_begin_to_its_end(tmp_path, threads):
    folder = tmp_path / "step_100"
    with saver(folder, code(before="save()", threads=threads)) as process:
        follower = Follower(tmp_path)
        follower.look()
        tell(process)
        lasted = watch(process, follower, folder)
    assert lasted in (
        [COMPLETE, INCOMPLETE],
        [INCOMPLETE],
        [COMPLETE, INCOMPLETE, COMPLETE],
        [INCOMPLETE, COMPLETE],
    )
    follower.look()
    (copy,) = follower.copies
    assert (copy.status, copy.serial > 1) == (CopyStatus.SOUND, True)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("before", ["", "save()"], ids=["new", "again"])
def test_a_save_that_is_killed_ends_as_broken(tmp_path, before, share):
    folder = tmp_path / "step_100"
    with saver(folder, code(before=before, threads=4)) as process:
        follower = Follower(tmp_path)
        follower.look()
        began_ns = time.time_ns()
        tell(process)
        while _written(folder, began_ns) < share * SAVED_BYTES and process.poll() is None:
            pass
        process.send_signal(signal.SIGKILL)
        finished = b"saved" in process.stdout.read()
    follower.look()
    (copy,) = follower.settle()
    if finished or ((folder / ".metadata").exists() and (folder / ".metadata").stat().st_mtime_ns > began_ns):
        assert (copy.status, loads(folder, values())) == (
            CopyStatus.SOUND,
            True,
        )  # it was faster than the signal
    else:
        assert copy.status is CopyStatus.BROKEN


def _written(folder, since_ns):
    """Bytes of the files that were changed since then."""
    total = 0
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            found = entry.stat()
            total += found.st_size if found.st_mtime_ns >= since_ns else 0
    return total


def test_a_save_again_that_is_killed_before_its_index_is_replaced_is_not_complete(tmp_path):
    folder = save(tmp_path / "step_100", thread_count=2)
    scanner = CopyScanner(str(tmp_path), budget_s=60.0)
    (first,) = scanner.look(time.time(), 0.0).sightings
    shards = {path.name: path.read_bytes() for path in folder.glob("*.distcp")}
    for name, data in shards.items():
        (folder / name).write_bytes(data)
        (again,) = scanner.look(time.time() + 10, 0.0).sightings
        assert (first.structure, again.structure) == (COMPLETE, INCOMPLETE)
        assert "is being written over" in again.why


# Those that are built on it


def write_megatron(folder):
    """As Megatron-core writes it, with files of the real torch."""
    import torch

    folder.mkdir(parents=True)
    torch.save({"iteration": 100, "args": {"a": 1}}, folder / "common.pt")
    save(folder, thread_count=2)
    (folder / "metadata.json").write_text(
        json.dumps({"sharded_backend": "torch_dist", "common_backend": "torch"})
    )
    return folder


def write_megatron_ranks(folder):
    """The layout before."""
    import torch

    for rank in ("mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001"):
        (folder / rank).mkdir(parents=True)
        for name in ("model_optim_rng.pt", "distrib_optim.pt"):
            torch.save({"iteration": 100, "model": state()}, folder / rank / name)
    return folder


def write_deepspeed(folder, *, new=True):
    """As DeepSpeed writes it, with its own keys; ``new``: by torch's newer format, which is its default."""
    import torch

    folder.mkdir(parents=True)
    model = {
        "module": state()["model"],
        "buffer_names": [],
        "optimizer": None,
        "param_shapes": [{"layers.0.weight": torch.Size([64, 32])}],
        "shared_params": {},
        "skipped_steps": 0,
        "global_steps": 100,
        "global_samples": 800,
        "dp_world_size": 3,
        "mp_world_size": 1,
        "ds_config": {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}},
        "ds_version": "0.17.0",
    }
    torch.save(model, folder / "mp_rank_00_model_states.pt", _use_new_zipfile_serialization=new)
    for rank in range(3):
        optimizer = {
            "optimizer_state_dict": {
                "loss_scaler": None,
                "base_optimizer_state": {
                    "state": {0: {"exp_avg": torch.randn(900)}},
                    "param_groups": [{"lr": 0.1}],
                },
                "zero_stage": 2,
                "group_paddings": [0],
                "partition_count": [3],
                "ds_version": "0.17.0",
                "single_partition_of_fp32_groups": [torch.randn(900)],
            },
            "ds_config": model["ds_config"],
            "ds_version": "0.17.0",
        }
        name = f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save(optimizer, folder / name, _use_new_zipfile_serialization=new)
    return folder


def write_deepspeed_legacy(folder):
    """By torch's older format."""
    return write_deepspeed(folder, new=False)


BUILT = [
    (write_megatron, "iter_0000100", "megatron"),
    (write_megatron_ranks, "iter_0000100", "megatron"),
    (write_deepspeed, "global_step100", "deepspeed"),
    (write_deepspeed_legacy, "global_step100", "deepspeed"),
]
every_built = pytest.mark.parametrize(
    ("write", "name", "word"), BUILT, ids=lambda one: getattr(one, "__name__", None)
)


@every_built
def test_a_folder_that_is_built_on_torch_is_complete_and_misses_whatever_is_gone_or_cut(
    tmp_path, write, name, word
):
    whole = write(tmp_path / "whole" / name)
    sighting = look(whole)
    assert (sighting.format, sighting.step, sighting.structure, sighting.why) == (word, 100, COMPLETE, "")
    drawn = random.Random(5)
    for path in sorted(path for path in whole.rglob("*") if path.is_file()):
        size = path.stat().st_size
        for count in (None, 0, size - 1, *(drawn.randrange(size) for _ in range(5))):
            shutil.copytree(whole, folder := tmp_path / "unit" / name)
            part = folder / path.relative_to(whole)
            part.unlink() if count is None else os.truncate(part, count)
            assert look(folder).structure is INCOMPLETE, (part.name, count)
            shutil.rmtree(folder)
