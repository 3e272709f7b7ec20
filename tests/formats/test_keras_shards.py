"""Keras' weights in several files: one copy with its index, and never a guess that makes epochs one copy."""

from __future__ import annotations

import json
import os

import pytest
from formats.making_binary import hdf5
from watching import Watched

from ckpt_governor.facts import CopyStatus
from ckpt_governor.formats import group_of

SOUND, WRITING, BROKEN = CopyStatus.SOUND, CopyStatus.WRITING, CopyStatus.BROKEN
INDEX, COPY = "cp-0005.weights.json", "cp-0005_*.weights.h5"
UNSAID = "its index does not tell which of its files is the last"
SHARDS = [f"cp-0005_0000{number}.weights.h5" for number in range(3)]


def index_of(shards):
    """As Keras writes it: a layer lies in one file or several."""
    places = {f"/layers/dense_{number}/vars": [shard] for number, shard in enumerate(shards)}
    return json.dumps(
        {"metadata": {"total_size": 100.0}, "weight_map": {**places, "/optimizer/vars": shards}}
    )


def write(folder, *, shards=SHARDS, index=INDEX):
    """One save, with the times in their order."""
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(shards):
        (folder / name).write_bytes(hdf5(3000 + number))
        os.utime(folder / name, (1000.0 + number,) * 2)
    if index:
        (folder / index).write_text(index_of(shards))
        os.utime(folder / index, (1100.0, 1100.0))


@pytest.fixture
def unit(tmp_path):
    return Watched(tmp_path)


def statuses(unit, seconds):
    """After so many looks."""
    return {name: status for name, (status, _) in unit.pass_s(seconds).items()}


def test_shards_and_their_index_are_one_copy(unit):
    write(unit.path)
    assert unit.pass_s(1) == {COPY: (SOUND, UNSAID)}
    (copy,) = unit.copies
    assert (copy.format, copy.step, copy.bytes) == ("keras-shards", 5, 3 * len(hdf5()) + 3)


@pytest.mark.parametrize("name", [*SHARDS, INDEX])
@pytest.mark.parametrize("spoil", [os.unlink, lambda path: os.truncate(path, path.stat().st_size // 2)])
def test_a_file_that_is_gone_or_cut_is_missed(unit, name, spoil):
    write(unit.path)
    spoil(unit.path / name)
    (verdict,) = unit.pass_s(40).values()
    if (unit.path / INDEX).exists():
        assert (verdict[0], name in verdict[1]) == (BROKEN, True)
    else:
        assert verdict == (SOUND, f"its {INDEX} is not there")


def test_a_save_is_one_copy_from_its_first_byte_and_sound_when_it_was_quiet(unit):
    for name in SHARDS:
        (unit.path / name).write_bytes(hdf5()[:100])
        assert statuses(unit, 5) == {COPY: WRITING}
        (unit.path / name).write_bytes(hdf5())
        (unit.path / INDEX).write_text(index_of(SHARDS[: SHARDS.index(name) + 1]))
        assert statuses(unit, 5) == {COPY: WRITING}
    assert statuses(unit, 10) == {COPY: SOUND}
    assert [copy.serial for copy in unit.copies] == [1]


def test_a_save_that_was_killed_in_a_shard_is_broken(unit):
    write(unit.path, index="")
    (unit.path / SHARDS[2]).write_bytes(hdf5()[:100])
    assert statuses(unit, 40) == {COPY: BROKEN}


def test_a_name_without_a_step_is_one_copy_once_its_index_is_there(unit):
    shards = ["model_00000.weights.h5", "model_00001.weights.h5"]
    write(unit.path, shards=shards, index="")
    assert set(unit.pass_s(1)) == set(shards)
    write(unit.path, shards=shards, index="model.weights.json")
    assert set(unit.pass_s(1)) == {"model_*.weights.h5"}
    (unit.path / "model.weights.json").unlink()
    assert set(unit.pass_s(1)) == set(shards)


@pytest.mark.parametrize(
    "names",
    [
        ["weights_00001.weights.h5", "weights_00002.weights.h5"],
        ["weights_00000.weights.h5", "weights_00001.weights.h5"],
        ["epoch_3_00100.weights.h5", "epoch_3_00200.weights.h5"],
        ["epoch_3_00000.weights.h5", "epoch_3_00100.weights.h5"],
        ["run_1_00000.weights.h5", "run_1_00001.weights.h5"],
    ],
)
def test_epochs_of_five_digits_are_copies_of_their_own(unit, names):
    write(unit.path, shards=names, index="")
    assert unit.pass_s(1) == dict.fromkeys(names, (SOUND, ""))


def test_an_index_of_another_kind_is_no_proof(unit):
    write(unit.path)
    for text in (
        '{"weight_map": {"a": ["../../etc/passwd"]}}',
        '{"weight_map": {"a": 5}}',
        "{}",
        '{"weight_map": []}',
    ):
        (unit.path / INDEX).write_text(text)
        assert unit.pass_s(15) == {COPY: (SOUND, f"{INDEX} is of an unknown kind")}
    (unit.path / INDEX).write_text("[" * 200_000)
    assert unit.pass_s(40)[COPY][0] is BROKEN


def test_shards_in_a_folder_that_is_a_copy_are_missed_by_their_index(unit):
    folder = unit.path / "step_5"
    shards = [name.replace("cp-0005", "model") for name in SHARDS]
    write(folder, shards=shards, index="model.weights.json")
    assert unit.pass_s(1) == {"step_5": (SOUND, "")}
    (folder / shards[1]).unlink()
    assert unit.pass_s(40)["step_5"] == (BROKEN, f"{shards[1]} is missing")


def test_an_index_names_no_file_of_another_format():
    assert group_of("cp-0005_00001.weights.h5") is not None
    for name in ("cp-0005_0001.weights.h5", "cp_00001.h5", "_00001.weights.h5", "cp_00001.weights.h5.tmp"):
        assert group_of(name) is None
