"""Copies of the real Megatron-core, by two ranks on processors: damaged, watched and killed."""

from __future__ import annotations

import pytest
from libraries.folders import assert_caught, assert_whole, damaged
from libraries.ranks import (
    assert_watched_ranks_are_sound_only_when_all_have_saved,
    killed,
    ranks_of,
    unit_of_ranks,
)

from ckpt_governor.facts import CopyStatus

pytestmark = pytest.mark.library("megatron")

CODE = """
import os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed as dist
torch.cuda.synchronize = lambda *_: None  # there is no such device, and it waits for it all the same
torch.cuda.current_device = lambda: "cpu"

def main():
    rank, world, unit, meet, width, saves = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    width = int(width)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
    dist.init_process_group("gloo", store=dist.FileStore(meet, world), rank=rank, world_size=world)
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.dist_checkpointing import ShardedTensor
    from megatron.core.dist_checkpointing.mapping import ShardedObject
    parallel_state.initialize_model_parallel(world, 1)
    weights = {
        f"layers.{n}": ShardedTensor.from_rank_offsets(f"layers.{n}", torch.randn(width, width), (0, rank, world))
        for n in range(6)
    }
    norm = ShardedTensor.from_rank_offsets("norm", torch.ones(500), replica_id=rank)
    odd = ShardedTensor.from_rank_offsets("half", torch.ones(7, dtype=torch.bfloat16), replica_id=rank)
    state = {
        "model": {**weights, "norm": norm, "half": odd},
        "rng": ShardedObject("rng", {"rank": rank}, (world,), (rank,)),
        "iteration": 100,
        "args": {"lr": 0.1, "名": [1, None]},
    }
    dist.barrier()
    SAVE
    for iteration in range(100, 100 + 100 * int(saves), 100):
        folder = f"{unit}/iter_{iteration:07d}"
        os.makedirs(folder, exist_ok=True)
        dist.barrier()
        dist_checkpointing.save(dict(state), folder)
        dist.barrier()
        if rank == 0:
            with open(f"{unit}/latest_checkpointed_iteration.txt", "w") as file:
                file.write(str(iteration))
    dist.barrier()
    os._exit(0)

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    """What two ranks have saved."""
    return unit_of_ranks(tmp_path_factory.mktemp("megatron"), CODE, 2, "40", "2")


def test_every_copy_is_whole(unit):
    assert_whole(unit, "megatron", {"iter_0000100": 100, "iter_0000200": 200})


def test_every_file_is_missed_when_it_is_gone_or_cut(unit):
    print(assert_caught(unit, "iter_0000100", spared=lambda how, _: how == "zeroed"))
    assert any(caught for _, _, caught in damaged(unit, "iter_0000100", times=1))


def test_a_save_that_is_watched_is_sound_only_when_every_rank_has_saved(tmp_path):
    with ranks_of(tmp_path / "unit", CODE, 2, "1200", "1") as ranks:
        assert_watched_ranks_are_sound_only_when_all_have_saved(ranks, "iter_0000100")


@pytest.mark.parametrize(("share", "rank"), [(0.1, None), (0.5, 0), (0.9, 1), (0.99, None)])
def test_a_save_of_which_ranks_are_killed_is_sound_only_with_its_last_file(tmp_path, share, rank):
    with ranks_of(tmp_path / "unit", CODE, 2, "1200", "1") as ranks:
        status = killed(ranks, share, 2 * 6 * 1200 * 1200 * 4, rank)
    last = tmp_path / "unit" / "iter_0000100" / "metadata.json"
    assert status is (CopyStatus.SOUND if last.exists() and last.stat().st_size else CopyStatus.BROKEN)
