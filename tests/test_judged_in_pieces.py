"""A copy that takes long to be judged holds up no look: the check goes on from look to look, to the same end."""

from __future__ import annotations

import os

import pytest
from formats.making import torch_zip
from formats.making_dcp import make_dcp_folder
from formats.making_folders import LONG_AFTER_S, hf_model, orbax_step

from ckpt_governor.facts import Structure
from ckpt_governor.observe.copies import CopyScanner

TAKES_LONG = (Structure.UNREADABLE, "its check takes long and goes on")


def whole_folder(unit):
    """A plain folder of some files."""
    (unit / "step_1").mkdir()
    for number in range(9):
        (unit / "step_1" / f"{number}.pt").write_bytes(torch_zip())


def sharded_model(unit):
    """A model of Hugging Face in three shards with their index."""
    hf_model(unit / "checkpoint-1", 3)


def distributed(unit):
    """A copy of four ranks whose index has more opcodes than one piece."""
    make_dcp_folder(unit / "step_1", shards=4, tensors=600, rows=1)


def orbax(unit):
    """A copy with manifests and texts."""
    orbax_step(unit / "1")


MAKERS = [whole_folder, sharded_model, distributed, orbax]


def look_until_judged(unit, judge_s):
    """The last word, and how many looks came before it."""
    scanner, found = CopyScanner(str(unit), budget_s=60.0, judge_s=judge_s), []
    while len(found) < 500:
        look = scanner.look(LONG_AFTER_S + len(found), 0.0)
        (sighting,) = look.sightings
        assert look.unfinished is ((sighting.structure, sighting.why) == TAKES_LONG)
        if not look.unfinished:
            return (sighting.structure, sighting.why), len(found)
        found.append(sighting)
    pytest.fail("it came to no end")


@pytest.mark.parametrize("make", MAKERS)
def test_a_check_without_time_comes_to_the_same_end_as_one_with(tmp_path, make):
    for name in ("a", "b"):  # two, as an index that was read is known from then on
        (tmp_path / name).mkdir()
        make(tmp_path / name)
    at_once, none = look_until_judged(tmp_path / "a", 1000.0)
    in_pieces, looks = look_until_judged(tmp_path / "b", -1.0)
    assert in_pieces == at_once
    assert none == 0
    assert looks >= 3


@pytest.mark.parametrize("make", MAKERS)
def test_damage_is_found_in_pieces_as_well(tmp_path, make):
    make(tmp_path)
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file() and path.stat().st_size > 40]
    last = max(files, key=lambda path: (path.suffix in (".distcp", ".pt", ".safetensors", ".ocdbt"), path))
    os.truncate(last, last.stat().st_size - 20)
    assert look_until_judged(tmp_path, -1.0)[0] == look_until_judged(tmp_path, 1000.0)[0]
    assert look_until_judged(tmp_path, -1.0)[0][0] is Structure.INCOMPLETE


def test_a_member_with_very_many_names_is_judged_once(tmp_path, monkeypatch):
    from ckpt_governor.formats import torch_zip as module

    (tmp_path / "step_1").mkdir()
    (tmp_path / "step_1" / "0.pt").write_bytes(torch_zip())
    for number in range(1, 50):
        os.link(tmp_path / "step_1" / "0.pt", tmp_path / "step_1" / f"{number}.pt")
    judged, real = [], module.TorchZip.judge
    monkeypatch.setattr(module.TorchZip, "judge", lambda self, files: judged.append(1) or real(self, files))
    look_until_judged(tmp_path, 1000.0)
    assert len(judged) == 1


def test_names_beyond_the_bound_of_a_unit_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr("ckpt_governor.observe.places.NAMES_MAX", 20)
    for run in range(5):
        (tmp_path / f"run{run}").mkdir()
        for step in range(9):
            (tmp_path / f"run{run}" / f"step_{step}.pt").write_bytes(torch_zip())
    look = CopyScanner(str(tmp_path), budget_s=60.0).look(LONG_AFTER_S, 0.0)
    assert look.truncated
    assert 9 <= len(look.sightings) < 45
