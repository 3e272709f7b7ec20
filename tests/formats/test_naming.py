"""What names tell: steps, temporaries, and what could be a copy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.formats.naming import (
    final_of,
    is_ignored,
    is_other,
    is_temporary,
    names_a_copy,
    numbered_word,
    shard_group,
    step_of,
)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("epoch=0-step=4.ckpt", 4),
        ("ep0-ba10-rank0.pt", 10),
        ("iter_0000100", 100),
        ("checkpoint-500", 500),
        ("global_step100", 100),
        ("step_000100", 100),
        ("Step-12.PT", 12),
        ("00100", 100),
        ("prefix_100", 100),
        ("ckpt-0000012.tar.gz", 12),
        ("rl_model_1000_steps.zip", 1000),
        ("epoch=3-step=100-v1.ckpt", 100),
        ("nemo--val_loss=0.25-step=300-consumed_samples=1200.0-last", 300),
        ("llama-3-8b-step-100", 100),
        ("2024-01-31_step_7.pt", 7),
        ("step_20240131.pt", 20240131),
        ("runs/3/step_5.pt", 5),
        ("foo-12.pt", 12),
        ("epoch_3.pt", 3),
        ("ckpt-300_temp", 300),
        ("cp-0005.ckpt", 5),
        ("w.01.keras", 1),
        ("weights.10-0.53.hdf5", 10),
        ("model.03-0.55.h5", 3),
        ("model.03-1.55e-05.h5", 3),
        ("weights.04-12.55.weights.h5", 4),
        ("cp-0005_*.weights.h5", 5),
    ],
)
def test_the_step_is_found(name, step):
    assert step_of(name) == step


@pytest.mark.parametrize(
    "name",
    [
        "model-00001-of-00003.safetensors",
        "mp_rank_00_model_states.pt",
        "zero_pp_rank_3_mp_rank_00_optim_states.pt",
        "model-loss-0.12.pt",
        "ckpt_20240131_120000.pt",
        "checkpoint-2024-01-31.pt",
        "checkpoint_1700000000.pt",
        "last.ckpt",
        "model-7b",
        "a1b2c3.pt",
        "step_99999999999999999999.pt",
        "step\u0663.pt",
        "",
    ],
)
def test_a_number_that_is_no_step_is_none(name):
    assert step_of(name) is None


@pytest.mark.parametrize(
    ("name", "final"),
    [
        ("x.pt.tmp", "x.pt"),
        ("x.tmp1a2b", "x"),
        ("x.pt.tmp.55", "x.pt"),
        ("x.pt.tmp_rank0", "x.pt"),
        ("tmp-checkpoint-49", "checkpoint-49"),
        ("ckpt-300_temp", "ckpt-300"),
        ("100.orbax-checkpoint-tmp-123", "100"),
        (".step.pt.Ab12Cd", "step.pt"),
        ("model.pt.part", "model.pt"),
        (".metadata.tmp", ".metadata"),
        (".tmpAbCdEf", ""),
        ("tmpab12cd34", ""),
    ],
)
def test_a_temporary_name_promises_a_final_one(name, final):
    assert is_temporary(name)
    assert final_of(name) == final


@pytest.mark.parametrize("name", ["template.pt", "temp.pt", "tmp.pt", "step_1.pt", "tempfile", ".metadata"])
def test_names_that_only_look_alike_are_not_temporary(name):
    assert not is_temporary(name)


@pytest.mark.parametrize("name", [".nfs000123", ".fuse_hidden01", ".~lock.a#", "run-unfinished"])
def test_what_file_systems_leave_behind_is_ignored(name):
    assert is_ignored(name)


@pytest.mark.parametrize(
    "name",
    ["a.pt", "a.safetensors", "a.npz", "a.pkl.gz", "ckpt-12", "step_000100", "state", "step_12.foo", "model"],
)
def test_a_file_can_be_a_copy_by_its_name(name):
    assert names_a_copy(name)


@pytest.mark.parametrize(
    "name",
    [
        "train.log",
        "events.out.tfevents.123.host",
        "step_1.json",
        "model_1.png",
        "trainer_state.json",
        "ckpt-12.done",
        "latest",
        "tokenizer.model",
        "slurm-12.out",
        "output_1.txt",
        "step_5.jsonl",
        "rng_state_0.pth",
        "scheduler.pt",
        "training_args.bin",
        "core.1234",
    ],
)
def test_logs_and_companions_are_never_copies(name):
    assert is_other(name)
    assert not names_a_copy(name)


@pytest.mark.parametrize(
    "name", ["x.foo", "sources.zip", "state_dict", "statement.doc", "README", "notes.dat"]
)
def test_other_names_alone_are_no_copies(name):
    assert not names_a_copy(name)


@pytest.mark.parametrize("name", ["42", "epoch_3", "checkpoint-100", "iter_1", "ep0-ba10", "exp-step-100"])
def test_a_folder_s_name_can_make_it_a_copy(name):
    assert numbered_word(name)


@pytest.mark.parametrize(
    "name", ["20240131", "2024-01-31", "12-00-00", "run_1", "version_0", "checkpoints", "model-7b", "fold_1"]
)
def test_folders_of_runs_and_dates_are_no_copies(name):
    assert not numbered_word(name)


def test_shards_have_a_group():
    assert shard_group("model-00002-of-00003.safetensors") == ("model-*-of-00003.safetensors", 3)
    assert shard_group("model.safetensors") is None
    assert shard_group("a-1-of-0.bin") is None


names = st.text(st.characters(exclude_categories=()), max_size=60) | st.from_regex(
    r"[a-z_]{0,6}(?:step|ckpt|tmp|of|rank)[-_=.]?[0-9]{0,30}[.a-z\n\x1b]{0,6}", fullmatch=True
)


@given(names)
def test_no_name_makes_anything_fail(name):
    step = step_of(name)
    assert step is None or 0 <= step < 10**15
    told = (is_temporary(name), is_ignored(name), is_other(name), names_a_copy(name), numbered_word(name))
    assert all(isinstance(word, bool) for word in told)
    assert isinstance(final_of(name), str)
