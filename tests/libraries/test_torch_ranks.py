"""torch.distributed.checkpoint by real ranks of a sharded model: watched, and killed all together or one alone."""

from __future__ import annotations

import pytest
from libraries.ranks import assert_watched_ranks_are_sound_only_when_all_have_saved, killed, ranks_of

from ckpt_governor.facts import CopyStatus

pytestmark = pytest.mark.library("torch")
COPY = "step_100"

CODE = """
import os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

rank, world, unit, meet, how, before = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
dist.init_process_group("gloo", store=dist.FileStore(meet, world), rank=rank, world_size=world)
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(768, 768) for _ in range(12)))
mesh = init_device_mesh("cpu", (world,))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
group = dist.new_group(backend="gloo")  # so that training goes on while it saves

def train():
    model(torch.randn(4, 768)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

def state():
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "step": 3, "rng": torch.get_rng_state()}

def save():
    if how == "async":
        future = dcp.async_save(state(), checkpoint_id=f"{unit}/step_100", process_group=group)
        for _ in range(20):
            train()
        future.result()
    elif how == "files":
        writer = dcp.FileSystemWriter(f"{unit}/step_100", single_file_per_rank=False)
        dcp.save(state(), storage_writer=writer)
    else:
        dcp.save(state(), checkpoint_id=f"{unit}/step_100")

train()
if before == "again":
    save()
    train()
dist.barrier()
SAVE
save()
dist.barrier()
os._exit(0)
"""
SAVED_BYTES = 3 * 12 * 768 * 768 * 4


@pytest.mark.parametrize("before", ["new", "again"])
@pytest.mark.parametrize(("how", "world"), [("sync", 2), ("sync", 4), ("async", 3), ("files", 2)])
def test_a_save_that_is_watched_is_sound_only_when_every_rank_has_saved(tmp_path, how, world, before):
    with ranks_of(tmp_path / "unit", CODE, world, how, before) as ranks:
        assert_watched_ranks_are_sound_only_when_all_have_saved(ranks, COPY)


def loads(unit):
    """The library reads every tensor."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    told = dcp.FileSystemReader(unit / COPY).read_metadata().state_dict_metadata
    wanted = {
        name: torch.zeros(entry.size, dtype=entry.properties.dtype)
        for name, entry in told.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    dcp.load(wanted, checkpoint_id=unit / COPY, no_dist=True)
    return sum(tensor.nbytes for tensor in wanted.values())


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # of a process without ranks
@pytest.mark.parametrize(
    ("how", "before", "share", "rank"),
    [
        *(("sync", before, share, None) for before in ("new", "again") for share in (0.1, 0.5, 0.9, 0.99)),
        *(
            ("sync", before, share, rank)
            for before in ("new", "again")
            for share, rank in ((0.1, 0), (0.9, 1))
        ),
        *(("async", "again", share, None) for share in (0.1, 0.5, 0.99)),
        ("async", "new", 0.5, 1),
    ],
)
def test_a_save_of_which_ranks_are_killed_ends_as_broken(tmp_path, how, before, share, rank):
    unit = tmp_path / "unit"
    with ranks_of(unit, CODE, 2, how, before) as ranks:
        status = killed(ranks, share, SAVED_BYTES, rank)
        index = unit / COPY / ".metadata"
        if index.exists() and index.stat().st_mtime_ns > ranks.told_ns:  # it was faster than the signal
            assert (status, loads(unit) >= SAVED_BYTES) == (CopyStatus.SOUND, True)
        else:
            assert status is CopyStatus.BROKEN
