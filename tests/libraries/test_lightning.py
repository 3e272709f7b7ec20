"""Copies of the real Lightning: files, ``last.ckpt`` as a copy and as a link, and sharded folders."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from libraries.folders import seen
from libraries.one_file import Follower

from ckpt_governor.facts import CopyStatus, Structure

pytestmark = pytest.mark.library("lightning")
COMPLETE, INCOMPLETE = Structure.COMPLETE, Structure.INCOMPLETE

FIT = """
import sys
import lightning, torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import ModelParallelStrategy

folder, sharded, last, width = sys.argv[1], sys.argv[2] == "sharded", sys.argv[3], int(sys.argv[4])

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, width)

    def configure_model(self):
        if sharded:
            from torch.distributed.fsdp import fully_shard
            for module in (self.layer, self):
                fully_shard(module, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch, number):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

strategy = "auto"
if sharded:
    strategy = ModelParallelStrategy(
        data_parallel_size=1, tensor_parallel_size=1, save_distributed_checkpoint=True, process_group_backend="gloo"
    )
keep = ModelCheckpoint(
    dirpath=folder,
    every_n_train_steps=4,
    save_top_k=-1,
    save_last={"copy": True, "link": "link", "none": None}[last],
)
trainer = lightning.Trainer(
    accelerator="cpu", devices=1, max_epochs=2, strategy=strategy, callbacks=[keep],
    logger=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(16, 8), batch_size=2))
"""
STEPS = {
    "epoch=0-step=4.ckpt": 4,
    "epoch=0-step=8.ckpt": 8,
    "epoch=1-step=12.ckpt": 12,
    "epoch=1-step=16.ckpt": 16,
}


def begin(folder, kind, last, width=4):
    """A training job that saves every four steps."""
    command = [sys.executable, "-W", "ignore", "-c", FIT, str(folder / "unit"), kind, last, str(width)]
    (folder / "unit").mkdir(exist_ok=True)
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module", params=["copy", "link", "none"])
def files(request, tmp_path_factory):
    """What a job of one file a copy has left, and what ``last.ckpt`` is."""
    folder = tmp_path_factory.mktemp("files")
    assert begin(folder, "whole", request.param).wait(110) == 0
    return folder / "unit", request.param


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """What a job of sharded copies has left."""
    folder = tmp_path_factory.mktemp("shards")
    assert begin(folder, "sharded", "link").wait(110) == 0
    return folder / "unit"


def test_every_file_is_a_complete_copy_and_the_last_one_by_what_it_is(files):
    unit, last = files
    found = seen(unit)
    also = {name: sighting.also for name, sighting in found.items() if sighting.also}
    assert {name: found[name].step for name in STEPS} == STEPS
    assert {(sighting.format, sighting.structure) for sighting in found.values()} == {("torch-zip", COMPLETE)}
    assert ("last.ckpt" in found) == (last == "copy" and also == {})
    if last == "link":
        assert also == {"epoch=1-step=16.ckpt": ("last.ckpt",)}


def test_every_cut_of_a_file_is_incomplete(files, tmp_path):
    unit, _ = files
    path = Path(shutil.copy(unit / "epoch=1-step=16.ckpt", tmp_path))
    for count in range(path.stat().st_size - 1, 5, -97):
        os.truncate(path, count)
        assert seen(tmp_path)[path.name].structure is INCOMPLETE


def test_every_sharded_folder_is_one_complete_copy(shards):
    found = seen(shards)
    assert {name: sighting.step for name, sighting in found.items()} == STEPS
    assert {(sighting.format, sighting.structure, sighting.why) for sighting in found.values()} == {
        ("dcp", COMPLETE, "")
    }
    assert found["epoch=1-step=16.ckpt"].also == ("last.ckpt",)


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp", "meta.pt"])
def test_every_file_of_a_sharded_folder_is_missed_when_it_is_gone_or_cut(shards, tmp_path, name):
    for spoil in (Path.unlink, lambda path: os.truncate(path, path.stat().st_size - 1)):
        folder = tmp_path / "epoch=1-step=16.ckpt"
        shutil.copytree(shards / folder.name, folder)
        spoil(folder / name)
        assert seen(tmp_path)[folder.name].structure is INCOMPLETE
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["whole", "sharded"])
def test_a_job_that_is_watched_shows_only_whole_copies_as_complete_and_none_as_broken(tmp_path, kind):
    job = begin(tmp_path, kind, "none", width=400_000)
    try:
        follower = Follower(tmp_path / "unit")
        while job.poll() is None:
            for sighting in follower.look():
                if sighting.structure is COMPLETE and kind == "sharded":
                    assert (tmp_path / "unit" / sighting.name / "meta.pt").exists()
            assert all(copy.status is not CopyStatus.BROKEN for copy in follower.copies)
        assert job.wait() == 0
    finally:
        job.kill()
        job.wait()
    follower.look()
    assert {copy.name: copy.status for copy in follower.copies} == dict.fromkeys(STEPS, CopyStatus.SOUND)
    assert [copy.serial for copy in follower.copies] == [1, 2, 3, 4]
