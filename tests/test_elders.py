"""A file that all former copies of a kind had is missed in a new one, until two in a row are without it."""

from __future__ import annotations

import shutil

import pytest
from formats.making import safetensors, torch_zip
from watching import Watched

from ckpt_governor.facts import CopyStatus
from ckpt_governor.observe.copies import CopyScanner

WEIGHTS = safetensors((1 << 20,))  # most of the bytes, so that no copy is odd for its size alone
FULL = ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth")
SOUND, WRITING, BROKEN = CopyStatus.SOUND, CopyStatus.WRITING, CopyStatus.BROKEN


class Saving(Watched):
    """Copies of several files, as a trainer leaves them."""

    def save(self, step, names=FULL):
        """One of them; what is there already stays."""
        folder = self.path / f"checkpoint-{step}"
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).write_bytes(WEIGHTS if name.endswith(".safetensors") else torch_zip())
        self.pass_s(1)


@pytest.fixture
def unit(tmp_path):
    return Saving(tmp_path)


def without(*names):
    return tuple(name for name in FULL if name not in names)


@pytest.mark.parametrize("lost", ["optimizer.pt", "scheduler.pt", "model.safetensors"])
def test_a_file_that_the_former_copies_had_is_missed(unit, lost):
    unit.save(100)
    unit.save(200)
    unit.save(300, without(lost))
    assert unit.pass_s(1)["checkpoint-300"] == (WRITING, f"{lost} is missing, which checkpoint-200 has")
    assert unit.pass_s(31)["checkpoint-300"] == (BROKEN, f"{lost} is missing, which checkpoint-200 has")


def test_it_is_missed_at_the_first_look_as_well(unit):
    unit.save(100)
    unit.save(200, without("optimizer.pt"))
    unit.begin()
    assert unit.pass_s(32)["checkpoint-200"] == (BROKEN, "optimizer.pt is missing, which checkpoint-100 has")


def test_a_copy_that_gets_it_late_is_sound(unit):
    unit.save(100)
    unit.save(200, without("optimizer.pt"))
    assert unit.pass_s(31)["checkpoint-200"][0] is BROKEN
    unit.save(200, ("optimizer.pt",))
    assert unit.pass_s(11)["checkpoint-200"] == (SOUND, "")


def test_twice_in_a_row_without_it_is_the_new_normal(unit):
    unit.save(100)
    unit.save(200, without("optimizer.pt"))
    unit.save(300, without("optimizer.pt"))
    unit.save(400, without("optimizer.pt"))
    states = unit.pass_s(31)
    assert [states[f"checkpoint-{step}"][0] for step in (200, 300, 400)] == [BROKEN, SOUND, SOUND]


def test_fewer_ranks_are_no_loss(unit):
    unit.save(100)
    unit.save(200, without("rng_state_1.pth"))
    assert unit.pass_s(31)["checkpoint-200"] == (SOUND, "")


def test_what_only_some_elders_had_is_not_missed(unit):
    unit.save(100)
    unit.save(200, (*FULL, "extra.bin"))
    unit.save(300)
    assert unit.pass_s(31)["checkpoint-300"] == (SOUND, "")


def test_another_kind_of_copy_is_not_compared(unit):
    unit.save(100)
    (unit.path / "best-checkpoint-100").mkdir()
    (unit.path / "best-checkpoint-100" / "model.safetensors").write_bytes(safetensors())
    assert unit.pass_s(31)["best-checkpoint-100"] == (SOUND, "")


def test_the_first_copy_is_compared_with_nothing(unit):
    unit.save(100, without("optimizer.pt"))
    assert unit.pass_s(31)["checkpoint-100"] == (SOUND, "")


def test_a_sound_copy_stays_so_when_the_one_between_is_removed(unit):
    unit.save(100)
    unit.save(200, without("optimizer.pt"))
    unit.save(300, without("optimizer.pt"))
    assert unit.pass_s(31)["checkpoint-300"][0] is SOUND
    shutil.rmtree(unit.path / "checkpoint-200")
    unit.scanner = CopyScanner(str(unit.path))  # a new process that goes on from the ledger
    assert unit.pass_s(61)["checkpoint-300"] == (SOUND, "")


def test_an_elder_that_is_being_deleted_makes_no_younger_one_broken(unit):
    unit.save(100)
    unit.save(200)
    for name in FULL:
        (unit.path / "checkpoint-100" / name).unlink()
        unit.pass_s(1)
    unit.save(300)
    states = unit.pass_s(31)
    assert [states[f"checkpoint-{step}"][0] for step in (200, 300)] == [SOUND, SOUND]


def switched(unit, before, after, more=("optimizer.pt",)):
    """What is said of the first copy that is saved in another way."""
    unit.save(100, (*before, *more))
    unit.save(200, (*before, *more))
    unit.save(300, (*after, *more))
    return unit.pass_s(31)["checkpoint-300"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("pytorch_model.bin",), ("model.safetensors",)),
        (("pytorch_model.bin", "pytorch_model_1.bin"), ("model.safetensors", "model_1.safetensors")),
        (("model.pt",), ("model.safetensors",)),
        (("ema/pytorch_model.bin",), ("ema/model.safetensors",)),
        (("adapter_model.bin",), ("adapter_model.safetensors",)),
        (("model-00001-of-00001.safetensors",), ("model.safetensors",)),
    ],
)
def test_weights_that_are_saved_in_another_format_are_not_missed(unit, before, after):
    for number in (100, 200, 300):
        (unit.path / f"checkpoint-{number}" / "ema").mkdir(parents=True)
    assert switched(unit, before, after) == (SOUND, "")


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (("pytorch_model.bin", "optimizer.bin"), ("model.safetensors",), "optimizer.bin"),
        (("model.bin", "critic.bin"), ("model.safetensors",), "critic.bin"),
        (("model.bin", "model.safetensors"), ("model.safetensors",), "model.bin"),
        (("model.bin", "critic.bin"), ("model.bin", "readme.md"), "critic.bin"),
    ],
)
def test_other_weights_are_missed_all_the_same(unit, before, after, lost):
    for number in (100, 200, 300):
        (unit.path / f"checkpoint-{number}" / "ema").mkdir(parents=True)
    assert switched(unit, before, after) == (BROKEN, f"{lost} is missing, which checkpoint-200 has")


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (("ema/model.bin",), ("model.safetensors",), "ema/model.bin"),
        (("model.safetensors",), ("pytorch_model.bin",), "model.safetensors"),
        (("__0_0.bin", "meta.bin"), ("whole.bin",), "__0_0.bin"),
    ],
)
def test_a_copy_with_new_kinds_of_files_may_be_what_is_saved_from_now_on(unit, before, after, lost):
    for number in (100, 200, 300, 400):
        (unit.path / f"checkpoint-{number}" / "ema").mkdir(parents=True)
    assert switched(unit, before, after) == (
        CopyStatus.UNKNOWN,
        f"{lost} is missing, which checkpoint-200 has",
    )
    unit.save(400, (*after, "optimizer.pt"))
    assert unit.pass_s(31)["checkpoint-400"] == (SOUND, "")
    assert unit.pass_s(60)["checkpoint-300"][0] is CopyStatus.UNKNOWN
