"""Files and folders without a format of their own: when they are copies, and what marks and manifests say of them."""

from __future__ import annotations

import json
import os

import pytest
from formats.making import judged, torch_zip
from formats.making_folders import only

from ckpt_governor.facts import SmallSize, Structure
from ckpt_governor.formats import format_of_file, format_of_folder, group_of, stages_beside
from ckpt_governor.formats.registry import FORMATS

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS


@pytest.fixture
def folder(tmp_path):
    """A copy's folder with one whole member."""
    path = tmp_path / "step_100"
    path.mkdir()
    (path / "model.pt").write_bytes(torch_zip())
    return path


def write_manifest(folder, **files):
    """A manifest of ours with these sizes."""
    text = json.dumps({"v": 1, "files": {name: {"size": size} for name, size in files.items()}})
    (folder / "manifest.json").write_text(text)


def set_time(path, seconds):
    """Its modification time."""
    os.utime(path, (seconds, seconds))


def test_every_format_has_a_word_of_its_own():
    words = [format.word for format in FORMATS]
    assert len(words) == len(set(words))
    assert not any(stages_beside(word) for word in (*words, "unheard of"))


def test_a_plain_file_has_no_shape(tmp_path):
    (tmp_path / "a.state").write_bytes(b"x")
    assert judged("file", tmp_path / "a.state").structure is SHAPELESS


def test_an_empty_file_is_incomplete(tmp_path):
    (tmp_path / "a.state").touch()
    assert judged("file", tmp_path / "a.state")[:2] == (INCOMPLETE, "empty")


def test_a_mark_beside_makes_a_file_complete(tmp_path):
    (tmp_path / "a.state").write_bytes(b"x")
    (tmp_path / "a.state.done").touch()
    assert judged("file", tmp_path / "a.state").structure is COMPLETE


def test_a_mark_of_the_former_write_says_nothing(tmp_path):
    (tmp_path / "a.state").write_bytes(b"x")
    (tmp_path / "a.state.done").touch()
    set_time(tmp_path / "a.state.done", 100)
    assert judged("file", tmp_path / "a.state").structure is SHAPELESS


def test_a_folder_of_whole_members_may_still_grow(folder):
    assert judged("folder", folder) == (SHAPELESS, "", None, False, SmallSize.NOTHING)


def test_the_size_of_a_folder_is_a_sign_where_a_member_has_no_end(folder):
    (folder / "config.json").write_text("{}")
    assert judged("folder", folder).small is SmallSize.NOTHING
    (folder / "extra.state").write_bytes(b"no end")
    assert judged("folder", folder).small is SmallSize.PROOF


@pytest.mark.parametrize(
    "name", ["random_states_0.pkl", "rng_state.pth", "scheduler.bin", "training_args.bin"]
)
def test_a_small_companion_is_a_part_of_its_folder(folder, name):
    (folder / name).write_bytes(torch_zip()[:-9])
    found = only(folder.parent)
    assert (found.structure, found.why) == (INCOMPLETE, f"{name}: no end record")


def test_a_cut_member_makes_its_folder_incomplete(folder):
    (folder / "optim.pt").write_bytes(torch_zip()[:500])
    assert judged("folder", folder)[:2] == (INCOMPLETE, "optim.pt: no end record")


@pytest.mark.parametrize("mark", ["DONE", ".done"])
def test_a_mark_inside_makes_a_folder_complete(folder, mark):
    (folder / mark).touch()
    assert judged("folder", folder).structure is COMPLETE
    set_time(folder / mark, 100)
    assert judged("folder", folder).structure is SHAPELESS


def test_a_mark_does_not_outweigh_a_cut_member(folder):
    (folder / "model.pt").write_bytes(torch_zip()[:500])
    (folder / "DONE").touch()
    assert judged("folder", folder).structure is INCOMPLETE


def test_a_manifest_makes_a_folder_complete_when_every_size_is_exact(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "x.bin").write_bytes(b"12345")
    size = (folder / "model.pt").stat().st_size
    write_manifest(folder, **{"model.pt": size, "sub/x.bin": 5})
    assert judged("folder", folder).structure is COMPLETE
    write_manifest(folder, **{"model.pt": size, "sub/x.bin": 6})
    assert judged("folder", folder)[:2] == (INCOMPLETE, "sub/x.bin has 5 of 6 bytes")
    write_manifest(folder, **{"model.pt": size, "gone.bin": 6})
    assert judged("folder", folder)[:2] == (INCOMPLETE, "gone.bin is missing")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 5000,
        "[]",
        '{"v": 2, "files": {"a": {"size": 1}}}',
        '{"v": 1, "files": []}',
        '{"name": "web app"}',
    ],
    ids=["empty", "cut", "deep", "list", "newer", "no files", "another sort"],
)
def test_a_manifest_that_is_none_of_ours_says_nothing(folder, text):
    (folder / "manifest.json").write_text(text)
    assert judged("folder", folder).structure is SHAPELESS


def test_a_manifest_cannot_name_files_outside(folder):
    (folder.parent / "outside").write_bytes(b"12345")
    write_manifest(folder, **{"../outside": 5})
    assert judged("folder", folder)[:2] == (INCOMPLETE, "../outside is missing")


def test_a_folder_whose_newest_file_is_a_temporary_is_incomplete(folder):
    set_time(folder / "model.pt", 100)
    (folder / ".tmpAbCdEf").write_bytes(bytes(5000))
    assert judged("folder", folder).why == "a temporary file is its newest: .tmpAbCdEf"


def test_a_temporary_that_an_earlier_write_left_does_no_harm(folder):
    (folder / ".tmpAbCdEf").write_bytes(bytes(5000))
    set_time(folder / ".tmpAbCdEf", 100)
    assert judged("folder", folder).structure is SHAPELESS


def claimed(name, *inside):
    """Whether a folder with these names in it is one copy; a trailing slash says folder."""
    folders = [one.rstrip("/") for one in inside if one.endswith("/")]
    return format_of_folder(name, [one for one in inside if not one.endswith("/")], folders) is not None


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("step_100", ["model.pt"]),
        ("100", ["_CHECKPOINT_METADATA", "default/"]),
        ("checkpoint-500", ["model.safetensors", "global_step500/", "rng_state_0.pth"]),
        ("global_step100", ["mp_rank_00_model_states.pt", "layer_01-model_00-model_states.pt"]),
        ("ep0-ba10", ["__0_0.distcp", ".metadata"]),
        ("epoch=0-step=4.ckpt", ["epoch_0.pt"]),
        ("anything", ["manifest.json"]),
        ("dcp_export", ["__0_0.distcp"]),
        ("last.ckpt", ["meta.pt"]),
        ("iter_0000100", ["mp_rank_00/"]),
        ("step_7", ["step_7.pt", "optimizer.pt"]),
    ],
)
def test_a_folder_is_one_copy(name, inside):
    assert claimed(name, *inside)


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("checkpoints", ["step_1.pt"]),
        ("run_1", ["model.pt"]),
        ("version_0", ["checkpoints/"]),
        ("epoch_1", ["step_100.pt", "step_200.pt"]),
        ("3", [".hydra/", "last.ckpt"]),
        ("model_1", ["checkpoints/", "train.log"]),
        ("0", ["epoch=3.ckpt"]),
        ("20240131", ["last.ckpt"]),
        ("best", ["model.safetensors"]),
    ],
)
def test_a_folder_is_a_place_for_copies(name, inside):
    assert not claimed(name, *inside)


def test_shards_are_one_copy_that_wants_all_its_parts(tmp_path):
    for part in (1, 2):
        (tmp_path / f"model-0000{part}-of-00002.pt").write_bytes(torch_zip())
    group = group_of("model-00001-of-00002.pt")
    assert group is not None
    assert (group[0].word, group[1]) == ("shards", "model-*-of-00002.pt")
    assert judged("shards", tmp_path).structure is COMPLETE
    (tmp_path / "model-00002-of-00002.pt").unlink()
    assert judged("shards", tmp_path)[:2] == (INCOMPLETE, "1 of 2 parts")


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("checkpoint", b""),
        ("checkpoint", b'model_checkpoint_path: "ckpt-3"'),
        ("train.log", b"x"),
        ("notes.dat", b"x"),
    ],
    ids=["pointer to come", "pointer", "log", "data"],
)
def test_a_file_is_no_copy(name, head):
    assert format_of_file(name, head) is None
