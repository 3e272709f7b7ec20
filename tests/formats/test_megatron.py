"""Folders of Megatron and of NeMo 2, which has Megatron's inside, and the ranks of Composer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from formats.making import torch_zip
from formats.making_distributed import TWO_RANKS, write_dcp
from formats.making_folders import only, seen

from ckpt_governor.facts import Structure
from ckpt_governor.observe.copies import CopyScanner

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
TORCH = {"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch"}


def write_megatron(folder, config=TORCH):
    """As Megatron-core saves it."""
    write_dcp(folder, TWO_RANKS)
    (folder / "common.pt").write_bytes(torch_zip())
    (folder / "metadata.json").write_text(json.dumps(config))
    return folder


def write_ranks(folder, *names, files=("model_optim_rng.pt",)):
    """As Megatron saved it before."""
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file in files:
            (folder / name / file).write_bytes(torch_zip())
    return folder


@pytest.fixture
def copy(tmp_path):
    """A whole copy, with the tracker beside it."""
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("100")
    return write_megatron(tmp_path / "iter_0000100")


def verdict(folder):
    """Of the one copy that is this folder: structure and why."""
    sighting = only(folder.parent)
    return sighting.structure, sighting.why


def test_a_whole_folder_is_one_complete_copy(copy):
    sighting = only(copy.parent)
    assert (sighting.name, sighting.format, sighting.step) == ("iter_0000100", "megatron", 100)
    assert (sighting.structure, sighting.why) == (COMPLETE, "")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("metadata.json", "its metadata.json is not there yet"),
        ("common.pt", "common.pt is missing"),
        (".metadata", "its .metadata is not there yet"),
        ("__1_0.distcp", "__1_0.distcp is missing"),
    ],
)
def test_a_file_that_is_missing_is_named(copy, name, why):
    (copy / name).unlink()
    assert verdict(copy) == (INCOMPLETE, why)


@pytest.mark.parametrize("name", ["metadata.json", "common.pt", ".metadata", "__1_0.distcp"])
def test_every_cut_of_a_file_is_incomplete(copy, name):
    whole = (copy / name).read_bytes()
    for count in range(0, len(whole), 1 if name == "metadata.json" else 11):
        (copy / name).write_bytes(whole[:count])
        assert verdict(copy)[0] is INCOMPLETE


def test_a_folder_that_torch_itself_has_saved_needs_no_mark(tmp_path):
    copy = write_dcp(tmp_path / "iter_0000100", TWO_RANKS)
    assert (only(tmp_path).format, *verdict(copy)) == ("megatron", COMPLETE, "")


def test_another_way_to_save_cannot_be_checked(tmp_path):
    copy = write_megatron(tmp_path / "iter_0000100", {**TORCH, "sharded_backend": "zarr"})
    assert verdict(copy) == (SHAPELESS, "it is saved in a way that cannot be checked")


def test_what_is_common_may_lie_elsewhere(tmp_path):
    copy = write_megatron(tmp_path / "iter_0000100", {"sharded_backend": "torch_dist"})
    (copy / "common.pt").unlink()
    assert verdict(copy) == (COMPLETE, "")


@pytest.mark.parametrize(
    "names",
    [
        ["mp_rank_00"],
        ["mp_rank_00", "mp_rank_01"],
        ["mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001"],
        ["mp_rank_00_000_000", "mp_rank_00_000_001", "mp_rank_01_000_000"],
    ],
)
@pytest.mark.parametrize("name", ["iter_0000100", "release"])
def test_a_folder_of_ranks_is_one_complete_copy(tmp_path, names, name):
    copy = write_ranks(tmp_path / name, *names, files=("model_optim_rng.pt", "distrib_optim.pt"))
    assert (only(tmp_path).format, *verdict(copy)) == ("megatron", COMPLETE, "")


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["mp_rank_01", "mp_rank_02"], "the files of rank 0 of 3 are missing"),
        (["mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000"], "3 of 4 ranks"),
        (["mp_rank_00_000", "mp_rank_00_002"], "the files of rank 1 of 3 are missing"),
    ],
)
def test_a_rank_that_is_missing_is_told(tmp_path, names, why):
    assert verdict(write_ranks(tmp_path / "iter_0000100", *names)) == (INCOMPLETE, why)


def test_every_rank_has_the_same_files(tmp_path):
    copy = write_ranks(tmp_path / "iter_0000100", "mp_rank_00", "mp_rank_01")
    (copy / "mp_rank_00" / "distrib_optim.pt").write_bytes(torch_zip())
    assert verdict(copy) == (INCOMPLETE, "distrib_optim.pt of rank 1 is missing")


def test_a_rank_whose_folder_holds_nothing_is_missed(tmp_path):
    copy = write_ranks(tmp_path / "iter_0000100", "mp_rank_00", "mp_rank_01")
    (copy / "mp_rank_01" / "model_optim_rng.pt").unlink()
    assert verdict(copy) == (INCOMPLETE, "model_optim_rng.pt of rank 1 is missing")
    assert only(tmp_path).why == "model_optim_rng.pt of rank 1 is missing"


def test_a_cut_file_of_a_rank_is_named(tmp_path):
    copy = write_ranks(tmp_path / "iter_0000100", "mp_rank_00", "mp_rank_01")
    (copy / "mp_rank_01" / "model_optim_rng.pt").write_bytes(torch_zip()[:700])
    assert verdict(copy) == (INCOMPLETE, "mp_rank_01/model_optim_rng.pt: no end record")


# NeMo 2


@pytest.fixture
def nemo(tmp_path):
    """A whole copy."""
    copy = tmp_path / "checkpoints" / "run--step=100-last"
    write_megatron(copy / "weights")
    (copy / "context").mkdir()
    (copy / "context" / "model.yaml").write_text("a: 1\n")
    return copy


def test_a_nemo_folder_is_one_complete_copy(nemo, tmp_path):
    sighting = only(tmp_path)
    assert (sighting.format, sighting.step) == ("nemo", 100)
    assert (sighting.structure, sighting.why) == (COMPLETE, "")


def test_a_nemo_folder_needs_no_context(nemo):
    (nemo / "context" / "model.yaml").unlink()
    (nemo / "context").rmdir()
    assert (only(nemo.parent).format, *verdict(nemo)) == ("nemo", COMPLETE, "")


@pytest.mark.parametrize("name", ["run--step=100-last", "run--step=100-last-EMA", "run--step=100-last.ckpt"])
def test_the_mark_beside_it_says_that_it_is_unfinished(nemo, name):
    copy = nemo.rename(nemo.parent / name)
    scanner = CopyScanner(str(nemo.parent), budget_s=60.0)
    structures = []
    for make in (Path.exists, Path.touch, Path.unlink):
        make(nemo.parent / "run--step=100-last-unfinished")
        (sighting,) = scanner.look(2e9 + 10 * len(structures), 0.0).sightings
        structures.append(sighting.structure)
    assert structures == [COMPLETE, INCOMPLETE, COMPLETE]
    assert copy.exists()


def test_what_is_wrong_with_the_weights_is_told(nemo):
    (nemo / "weights" / "metadata.json").unlink()
    assert verdict(nemo) == (INCOMPLETE, "weights: its metadata.json is not there yet")


def test_a_nemo_folder_without_weights_is_incomplete(nemo):
    for path in (nemo / "weights").iterdir():
        path.unlink()
    assert verdict(nemo) == (INCOMPLETE, "its weights are not there yet")


def test_weights_of_another_kind_are_judged_file_by_file(tmp_path):
    copy = tmp_path / "run--step=3"
    (copy / "weights").mkdir(parents=True)
    (copy / "weights" / "model.pt").write_bytes(torch_zip())
    assert verdict(copy) == (SHAPELESS, "")
    (copy / "weights" / "model.pt").write_bytes(torch_zip()[:-1])
    assert verdict(copy)[0] is INCOMPLETE


# Composer


def test_the_ranks_of_a_batch_are_one_copy_and_a_link_is_a_further_name(tmp_path):
    for rank in range(3):
        (tmp_path / f"ep0-ba10-rank{rank}.pt").write_bytes(torch_zip())
    (tmp_path / "ep0-ba20-rank0.pt").write_bytes(torch_zip())
    (tmp_path / "latest-rank0.pt").symlink_to("ep0-ba20-rank0.pt")
    found = seen(tmp_path)
    assert set(found) == {"ep0-ba10-rank*.pt", "ep0-ba20-rank*.pt"}
    several, alone = found["ep0-ba10-rank*.pt"], found["ep0-ba20-rank*.pt"]
    assert (several.step, several.structure, several.bytes) == (10, SHAPELESS, 3 * len(torch_zip()))
    assert (alone.step, alone.structure, alone.also) == (20, COMPLETE, ("latest-rank0.pt",))


def test_a_missing_or_cut_rank_is_told(tmp_path):
    (tmp_path / "ep0-ba10-rank1.pt").write_bytes(torch_zip())
    assert (only(tmp_path).structure, only(tmp_path).why) == (INCOMPLETE, "rank 0 is missing")
    (tmp_path / "ep0-ba10-rank0.pt").write_bytes(torch_zip()[:-9])
    assert only(tmp_path).why == "ep0-ba10-rank0.pt: no end record"
