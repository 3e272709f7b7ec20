"""Checkpoints of the real transformers: sharded models and the Trainer's, damaged, watched and killed."""

from __future__ import annotations

import json

import pytest
from libraries.folders import (
    COMPLETE,
    SHAPELESS,
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
    pytest.mark.library("transformers"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*lr_scheduler.step.*:UserWarning"),
]

TRAINER = """
import contextlib, sys, torch, transformers
def model(width=32):
    config = transformers.GPT2Config(n_layer=2, n_embd=width, n_head=2, vocab_size=97, n_positions=16)
    return transformers.GPT2LMHeadModel(config)
def train(folder, steps, width=32, resume=None, **options):
    rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(64)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=steps, save_steps=2, per_device_train_batch_size=2, report_to=[],
        use_cpu=True, disable_tqdm=True, logging_steps=1, dataloader_pin_memory=False, **options)
    trainer = transformers.Trainer(model=model(width), args=arguments, train_dataset=rows)
    with contextlib.redirect_stdout(sys.stderr):
        trainer.train(resume_from_checkpoint=resume)
    return trainer
"""


@pytest.fixture
def library():
    """The functions that the jobs have, too."""
    found: dict[str, object] = {}
    exec(TRAINER, found)
    return found


@pytest.mark.parametrize("size", ["20KB", "50KB", "100KB"])
@pytest.mark.parametrize("name", ["final", "step_300"])
def test_a_model_in_shards_is_one_copy(tmp_path, library, size, name):
    library["model"]().save_pretrained(tmp_path / name, max_shard_size=size)
    assert len(list((tmp_path / name).glob("*-of-*"))) > 1
    assert_whole(tmp_path, "hf-model", {name: 300 if name == "step_300" else None})


def test_a_model_that_is_saved_again_in_other_shards_is_one_copy(tmp_path, library):
    model = library["model"]()
    for size in ("20KB", "100KB", "50KB"):
        model.save_pretrained(tmp_path / "final", max_shard_size=size)
        assert_whole(tmp_path, "hf-model", {"final": None})


def test_half_and_tied_weights_are_whole(tmp_path, library):
    import transformers

    library["model"]().half().save_pretrained(tmp_path / "half", max_shard_size="20KB")
    config = transformers.T5Config(d_model=32, d_ff=32, num_layers=1, num_heads=2, vocab_size=97, d_kv=16)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5", max_shard_size="20KB")
    assert_whole(tmp_path, "hf-model", {"half": None, "t5": None})


def test_the_total_size_that_an_index_tells_is_not_needed(tmp_path, library):
    library["model"]().save_pretrained(tmp_path / "final", max_shard_size="50KB")
    index = json.loads((tmp_path / "final" / "model.safetensors.index.json").read_text())
    assert seen(tmp_path)["final"].bytes > index["metadata"]["total_size"]


@pytest.mark.parametrize(
    "options",
    [{}, {"save_only_model": True}, {"save_total_limit": 2}, {"optim": "sgd"}],
    ids=["all", "model only", "with retention", "other optimizer"],
)
def test_the_checkpoints_of_a_trainer_are_copies(tmp_path, library, options):
    library["train"](tmp_path, 6, **options)
    kept = (4, 6) if "save_total_limit" in options else (2, 4, 6)
    assert_whole(tmp_path, "hf-trainer", {f"checkpoint-{step}": step for step in kept})


def test_a_sharded_checkpoint_and_a_model_beside_it_are_copies(tmp_path, library):
    trainer = library["train"](tmp_path / "out", 2)
    trainer.model.save_pretrained(tmp_path / "out" / "checkpoint-2", max_shard_size="20KB")
    (tmp_path / "out" / "checkpoint-2" / "model.safetensors").unlink(missing_ok=True)
    trainer.state.save_to_json(str(tmp_path / "out" / "checkpoint-2" / "trainer_state.json"))
    trainer.save_model(str(tmp_path / "out"))
    trainer.save_state()
    found = seen(tmp_path)
    assert sorted(found) == ["out/checkpoint-2", "out/model.safetensors"]
    assert all(sighting.structure is COMPLETE for sighting in found.values())


def test_a_model_that_was_saved_by_hand_into_such_a_folder_may_be_a_save_that_stopped(tmp_path, library):
    trainer = library["train"](tmp_path / "out", 2, save_strategy="no")
    trainer.save_model(str(tmp_path / "checkpoint-2"))
    trainer.model.save_pretrained(str(tmp_path / "checkpoint-3"))
    assert seen(tmp_path)["checkpoint-2"].structure is Structure.AMBIGUOUS
    assert seen(tmp_path)["checkpoint-3"].structure is SHAPELESS
    watched = Watched(tmp_path)
    early, late = watched.pass_s(3), watched.pass_s(60)
    assert early["checkpoint-2"][0] is CopyStatus.WRITING
    assert late["checkpoint-2"] == (
        CopyStatus.UNKNOWN,
        "a model that was saved by hand, or a save that stopped before its optimizer",
    )
    assert late["checkpoint-3"][0] is CopyStatus.SOUND


def test_what_is_cut_or_missing_in_a_sharded_model_is_seen(tmp_path, library):
    library["model"]().save_pretrained(tmp_path / "final", max_shard_size="50KB")

    def spared(how, file):
        # What a model alone does not need is not missed; a text may lack its last line end; zeros are numbers.
        if file.endswith(".json"):
            return (how == "removed" and "config" in file) or how == "cut"
        return how == "zeroed"

    print(f"\nsharded model: {assert_caught(tmp_path, 'final', spared=spared)}")


def test_what_is_cut_or_missing_in_a_checkpoint_is_seen(tmp_path, library):
    library["train"](tmp_path, 6)

    def spared(how, file):
        return (how == "cut" and file.endswith(".json")) or (
            how == "zeroed" and file.endswith(".safetensors")
        )

    print(f"\nTrainer: {assert_caught(tmp_path, 'checkpoint-6', spared=spared)}")


@pytest.mark.parametrize("name", ["step", "checkpoint"])
@pytest.mark.parametrize("shards", ["1GB", "40KB"])
def test_weights_of_fewer_bits_are_no_smaller_copy(tmp_path, library, shards, name):
    import torch

    model, watched = library["model"](48), Watched(tmp_path)
    watched.pass_s(1)
    for step in (1, 2, 3):
        model = model.to(torch.bfloat16) if step == 3 else model
        model.save_pretrained(tmp_path / f"{name}-{step}", max_shard_size=shards)
        told = watched.pass_s(60)
    assert [status for status, _ in told.values()] == [CopyStatus.SOUND] * 3


FIRST = TRAINER + "\ntrain(path, 2, width=512)\n"
JOB = FIRST + "SAVE\ntrain(path, 4, width=512, resume=True)\n"
WATCHED = FIRST + "SAVE\ntrain(path, 8, width=512, resume=True, save_total_limit=2)\n"


def test_watched_saves_are_whole_only_when_they_are_finished(tmp_path):
    assert_watched_saves_are_whole_only_when_finished(tmp_path, WATCHED, {"checkpoint-6", "checkpoint-8"})


@pytest.mark.parametrize("share", [*SHARES, 0.999])
def test_a_killed_save_is_never_whole(tmp_path, share):
    assert_a_killed_save_is_never_whole(tmp_path, JOB, share, "checkpoint-2")


SHARDED = (
    TRAINER
    + """
model(width=512).save_pretrained(path + "/step_1", max_shard_size="3MB")
after = model(width=512)
SAVE
after.save_pretrained(path + "/step_2", max_shard_size="3MB")
"""
)


def test_a_watched_save_of_shards_is_whole_only_when_it_is_finished(tmp_path):
    assert_watched_saves_are_whole_only_when_finished(tmp_path, SHARDED, {"step_1", "step_2"})


@pytest.mark.parametrize("share", SHARES)
def test_a_killed_save_of_shards_is_never_whole(tmp_path, share):
    assert_a_killed_save_is_never_whole(tmp_path, SHARDED, share, "step_1")


def test_a_checkpoint_that_is_removed_is_no_broken_write(tmp_path, library):
    library["train"](tmp_path, 4)
    assert_a_removal_is_no_broken_write(tmp_path, "checkpoint-2")
