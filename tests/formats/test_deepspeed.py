"""Folders of DeepSpeed: ranks that count from zero, and how many there must be by what one of them tells."""

from __future__ import annotations

import os

import pytest
from formats.making import torch_zip
from formats.making_distributed import (
    called,
    model_states,
    opcodes,
    optimizer_states,
    saved,
    write_deepspeed,
)
from formats.making_folders import only, seen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckpt_governor.facts import Structure

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
MODEL, OPTIMIZER = "mp_rank_00_model_states.pt", "bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt"


@pytest.fixture
def tag(tmp_path):
    """A whole folder of two ranks, and what DeepSpeed puts beside it."""
    (tmp_path / "latest").write_text("global_step100")
    (tmp_path / "zero_to_fp32.py").write_text("pass\n")
    return write_deepspeed(tmp_path / "global_step100")


def verdict(folder):
    """Of the one copy that is this folder: structure and why."""
    sighting = only(folder.parent)
    return sighting.structure, sighting.why


def test_a_whole_folder_is_one_complete_copy_and_nothing_beside_it_is_one(tag):
    sighting = only(tag.parent)
    assert (sighting.name, sighting.format, sighting.step) == ("global_step100", "deepspeed", 100)
    assert (sighting.structure, sighting.why) == (COMPLETE, "")


def test_a_tag_of_any_name_is_recognised_by_its_files(tmp_path):
    write_deepspeed(tmp_path / "best")
    assert only(tmp_path).format == "deepspeed"


@pytest.mark.parametrize("prefix", ["", "bf16_", "fp16_"])
@pytest.mark.parametrize("partitions", [3, [3], [3, 1], (3,)])
def test_every_way_to_tell_the_number_of_ranks_is_read(tmp_path, prefix, partitions):
    tag = write_deepspeed(tmp_path / "global_step100", 3, partitions, prefix)
    assert verdict(tag) == (COMPLETE, "")
    (tag / f"{prefix}zero_pp_rank_2_mp_rank_00_optim_states.pt").unlink()
    assert verdict(tag) == (INCOMPLETE, "the optimizer states of 2 of 3 ranks")


def test_a_missing_rank_is_named(tag):
    (tag / OPTIMIZER.format(0)).unlink()
    assert verdict(tag) == (INCOMPLETE, f"{OPTIMIZER.format(0)} is missing")


@pytest.mark.parametrize("partitions", [None, 0, -3, True, "2", [], [None], 10**9])
def test_a_number_of_ranks_that_is_none_is_not_believed(tmp_path, partitions):
    tag = write_deepspeed(tmp_path / "global_step100", 2, partitions if partitions is not None else [None])
    assert verdict(tag)[0] is COMPLETE


def test_every_cut_of_a_file_is_incomplete(tag):
    whole = (tag / MODEL).read_bytes()
    for count in range(0, len(whole), 7):
        (tag / MODEL).write_bytes(whole[:count])
        assert verdict(tag)[0] is INCOMPLETE


def test_an_empty_file_is_what_a_power_cut_leaves(tag):
    (tag / OPTIMIZER.format(1)).write_bytes(b"")
    assert verdict(tag) == (INCOMPLETE, f"{OPTIMIZER.format(1)}: empty")


def test_a_folder_without_its_model_states_is_incomplete(tag):
    (tag / MODEL).unlink()
    assert verdict(tag) == (INCOMPLETE, "no model states in it")


def test_a_folder_whose_model_says_that_the_optimizer_is_elsewhere_needs_it(tag):
    for rank in range(2):
        (tag / OPTIMIZER.format(rank)).unlink()
    assert verdict(tag) == (INCOMPLETE, "no optimizer states in it")


@pytest.mark.parametrize(
    "states", [model_states(optimizer={"state": {}}), model_states(param_shapes=None), saved([1, 2])]
)
def test_a_model_that_holds_its_optimizer_is_whole_alone(tmp_path, states):
    (tmp_path / "global_step5").mkdir()
    (tmp_path / "global_step5" / MODEL).write_bytes(states)
    assert verdict(tmp_path / "global_step5") == (COMPLETE, "")


def test_zero_three_has_model_states_of_every_rank(tmp_path):
    tag = tmp_path / "global_step100"
    tag.mkdir()
    for rank in range(3):
        (tag / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt").write_bytes(model_states())
        (tag / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").write_bytes(optimizer_states(3))
    assert verdict(tag) == (COMPLETE, "")
    (tag / "zero_pp_rank_2_mp_rank_00_model_states.pt").unlink()
    assert verdict(tag) == (INCOMPLETE, "the model states of 2 of 3 ranks")


def test_ranks_of_tensor_parallelism_are_counted_each(tmp_path):
    tag = tmp_path / "global_step100"
    tag.mkdir()
    for model in range(3):
        (tag / f"mp_rank_{model:02d}_model_states.pt").write_bytes(model_states())
        for rank in range(2):
            name = f"zero_pp_rank_{rank}_mp_rank_{model:02d}_optim_states.pt"
            (tag / name).write_bytes(optimizer_states(2))
    assert verdict(tag) == (COMPLETE, "")
    (tag / "zero_pp_rank_1_mp_rank_02_optim_states.pt").unlink()
    assert verdict(tag)[0] is INCOMPLETE
    (tag / "zero_pp_rank_1_mp_rank_02_optim_states.pt").write_bytes(optimizer_states(2))
    (tag / "mp_rank_01_model_states.pt").unlink()
    assert verdict(tag) == (INCOMPLETE, "mp_rank_01_model_states.pt is missing")


def test_experts_are_counted_in_each_layer_and_layers_of_a_pipeline_may_have_gaps(tmp_path):
    tag = tmp_path / "global_step100"
    tag.mkdir()
    (tag / MODEL).write_bytes(model_states(optimizer={}))
    for name in ("layer_01-model_00-model_states.pt", "layer_07-model_00-model_states.pt"):
        (tag / name).write_bytes(torch_zip())
    for layer, expert in ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2)):
        (tag / f"layer_{layer}_expert_{expert}_mp_rank_00_model_states.pt").write_bytes(torch_zip())
    (tag / "expp_rank_0_mp_rank_00_optim_states.pt").write_bytes(torch_zip())
    assert verdict(tag) == (COMPLETE, "")
    (tag / "layer_1_expert_1_mp_rank_00_model_states.pt").unlink()
    assert verdict(tag) == (INCOMPLETE, "layer_1_expert_1_mp_rank_00_model_states.pt is missing")


def test_a_folder_of_one_node_holds_only_its_own_ranks(tmp_path):
    tag = tmp_path / "global_step100"
    tag.mkdir()
    node = {"ds_config": {"checkpoint": {"use_node_local_storage": True}}}
    (tag / MODEL).write_bytes(model_states(**node))
    for rank in (8, 9):
        (tag / OPTIMIZER.format(rank)).write_bytes(optimizer_states(16))
    structure, why = verdict(tag)
    assert (structure, "of one node" in why) == (SHAPELESS, True)


def test_what_lies_in_offloaded_tensors_is_a_part_of_the_copy(tag):
    (tag / "offloaded_tensors" / "rank0").mkdir(parents=True)
    (tag / "offloaded_tensors" / "rank0" / "0.tensor.swp").write_bytes(bytes(500))
    assert verdict(tag) == (COMPLETE, "")
    assert only(tag.parent).bytes > 500


def test_a_trainer_folder_with_deepspeed_inside_is_one_copy_and_judged_with_it(tmp_path):
    copy = tmp_path / "checkpoint-100"
    tag = write_deepspeed(copy / "global_step100")
    (copy / "latest").write_text("global_step100")
    (copy / "config.json").write_text("{}")
    (copy / "trainer_state.json").write_text("{}")
    (copy / "training_args.bin").write_bytes(torch_zip())
    assert set(seen(tmp_path)) == {"checkpoint-100"}
    (tag / OPTIMIZER.format(1)).unlink()
    assert only(tmp_path).structure is INCOMPLETE
    assert only(tmp_path).why == "global_step100: the optimizer states of 1 of 2 ranks"


def test_states_that_would_run_something_run_nothing(tag, tmp_path):
    trace = tmp_path / "trace"
    evil = called("os", "system", f"touch {trace}")
    for data in (evil, opcodes({"optimizer_state_dict": evil}), opcodes({"optimizer": evil})):
        for name in (MODEL, OPTIMIZER.format(0), OPTIMIZER.format(1)):
            (tag / name).write_bytes(torch_zip({"data.pkl": b"\x80\x02" + data + b"."}))
        (tag / OPTIMIZER.format(1)).unlink()
        assert verdict(tag)[0] is COMPLETE
    assert not trace.exists()


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_no_states_make_the_check_fail_in_another_way(tag, noise):
    (tag / OPTIMIZER.format(0)).write_bytes(torch_zip({"data.pkl": noise}))
    (tag / MODEL).write_bytes(torch_zip({"data.pkl": noise}))
    os.utime(tag / MODEL)
    assert verdict(tag)[0] in (COMPLETE, INCOMPLETE)
