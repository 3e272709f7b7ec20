"""Copies of the real DeepSpeed, by two ranks on processors: every stage of ZeRO, damaged, watched and killed."""

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

pytestmark = pytest.mark.library("deepspeed")

CODE = """
import os, sys, warnings
warnings.simplefilter("ignore")
sys.stdout = sys.stderr  # it logs there
rank, world, unit, meet, stage, kind, width, saves = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), DS_ACCELERATOR="cpu")
import torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.FileStore(meet, int(world)), rank=rank, world_size=world)
import deepspeed, deepspeed.comm.torch
deepspeed.comm.torch.build_shm_op = lambda: None  # or it would compile something
deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
torch.manual_seed(0)
torch.set_num_threads(1)
width = int(width)
layers = [torch.nn.Linear(width, width) for _ in range(5)]
layers[1].weight.requires_grad_(False)
model = torch.nn.Sequential(*layers)
settings = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": int(stage)},
    "bf16": {"enabled": kind == "bf16"},
}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)

def step():
    batch = torch.randn(2, width, dtype=next(engine.module.parameters()).dtype)
    engine.backward(engine(batch).float().sum())
    engine.step()

step()
dist.barrier()
SAVE
for _ in range(int(saves)):
    engine.save_checkpoint(unit, client_state={"of the user": 3})
    step()
if int(saves) > 1:
    engine.save_checkpoint(unit, tag="step-77", exclude_frozen_parameters=True)
dist.barrier()
os._exit(0)
"""
STEPS = {"global_step1": 1, "global_step2": 2, "step-77": 77}
WAYS = [("0", "f32"), ("1", "bf16"), ("2", "f32"), ("3", "bf16"), ("3", "f32")]


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def unit(request, tmp_path_factory):
    """What two ranks have saved, of one stage and kind."""
    return unit_of_ranks(tmp_path_factory.mktemp("zero"), CODE, 2, *request.param, "64", "2")


def test_every_copy_is_whole(unit):
    assert (unit / "latest").read_text() == "step-77"
    assert_whole(unit, "deepspeed", STEPS)


@pytest.mark.parametrize("name", ["global_step1", "step-77"])
def test_every_file_is_missed_when_it_is_gone_cut_or_zeroed(unit, name):
    alone = len(list((unit / name).iterdir())) == 1  # then nothing is left of it
    print(assert_caught(unit, name, spared=lambda how, _: alone and how == "removed"))
    assert any(caught for _, _, caught in damaged(unit, name, times=1))


@pytest.mark.parametrize("stage", ["1", "3"])
def test_a_save_that_is_watched_is_sound_only_when_every_rank_has_saved(tmp_path, stage):
    with ranks_of(tmp_path / "unit", CODE, 2, stage, "f32", "900", "1") as ranks:
        assert_watched_ranks_are_sound_only_when_all_have_saved(ranks, "global_step1")


FILES = ["mp_rank_00_model_states.pt", *(f"zero_pp_rank_{n}_mp_rank_00_optim_states.pt" for n in range(2))]


def loads(folder):
    """Whether torch reads every file of the copy."""
    import torch

    try:
        for name in FILES:
            torch.load(folder / name, weights_only=False)
    except Exception:  # whatever it says of one that is cut or not there
        return False
    return True


@pytest.mark.parametrize(("share", "rank"), [(0.1, None), (0.5, 0), (0.9, 1), (0.99, None)])
def test_a_save_of_which_ranks_are_killed_is_sound_only_when_all_of_it_can_be_read(tmp_path, share, rank):
    with ranks_of(tmp_path / "unit", CODE, 2, "2", "f32", "900", "1") as ranks:
        status = killed(ranks, share, 5 * 900 * 900 * 4 * 3, rank)
    assert status is (CopyStatus.SOUND if loads(tmp_path / "unit" / "global_step1") else CopyStatus.BROKEN)
