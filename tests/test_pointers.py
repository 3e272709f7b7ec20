"""Text files that name the newest copy: one that names nothing, or an older copy for long, is told; nothing breaks."""

from __future__ import annotations

import os

import pytest
from attrs import evolve
from formats.making import torch_zip

from ckpt_governor.facts import Copy, CopyStatus
from ckpt_governor.observe.copies import DANGLING_S, CopyScanner
from ckpt_governor.pointers import LAG_S, Pointer, lagging, untracked

NOW_S = 2_000_000_000.0


class Unit:
    """A folder that is looked at."""

    def __init__(self, path):
        self.path, self.scanner, self.now_s = path, CopyScanner(str(path)), NOW_S

    def folder(self, name):
        (self.path / name).mkdir(parents=True)
        (self.path / name / "mp_rank_00_model_states.pt").write_bytes(torch_zip())

    def points(self, name, text):
        (self.path / name).write_text(text)

    def look(self, after_s=1.0):
        self.now_s += after_s
        return self.scanner.look(self.now_s, 0.0)

    def dangling(self):
        """What is told after long enough."""
        self.look()
        return self.look(DANGLING_S).dangling


@pytest.fixture
def unit(tmp_path):
    return Unit(tmp_path)


@pytest.mark.parametrize(
    ("copy", "pointer", "text"),
    [
        ("global_step100", "latest", "global_step100"),
        ("run/global_step100", "run/latest", "global_step100\n"),
        ("iter_0000100", "latest_checkpointed_iteration.txt", "100"),
        ("iter_0000100", "latest_checkpointed_iteration.txt", " 100\n"),
        ("release", "latest_checkpointed_iteration.txt", "release"),
        ("global_step_20", "latest_checkpointed_iteration.txt", "20"),
    ],
)
def test_a_pointer_names_a_copy_of_its_folder(unit, copy, pointer, text):
    unit.folder(copy)
    unit.points(pointer, text)
    assert unit.look().pointers == (Pointer(name=pointer, to=copy),)
    assert unit.dangling() == ()


def test_a_tensorflow_pointer_names_files_by_their_beginning(unit):
    unit.points("ckpt-200.index", "")
    unit.points("checkpoint", 'model_checkpoint_path: "ckpt-200"\nall_model_checkpoint_paths: "ckpt-200"\n')
    assert unit.look().pointers == (Pointer(name="checkpoint", to="ckpt-200"),)


@pytest.mark.parametrize(
    ("pointer", "text", "to"),
    [
        ("latest", "global_step200", "global_step200"),
        ("latest_checkpointed_iteration.txt", "200", "iter_0000200"),
        ("checkpoint", 'model_checkpoint_path: "ckpt-200"\n', "ckpt-200"),
    ],
)
def test_a_pointer_to_nothing_is_told_once_it_has_lasted(unit, pointer, text, to):
    unit.folder(to.replace("200", "100"))
    unit.points(pointer, text)
    assert unit.look().dangling == ()
    assert unit.look(DANGLING_S).dangling == ((pointer, to),)
    unit.folder(to)
    assert unit.look().dangling == ()


@pytest.mark.parametrize(
    ("pointer", "text"),
    [
        ("latest", ""),
        ("latest", "two\nlines"),
        ("latest", "some words of a person"),
        ("latest", "../../etc"),
        ("latest", ".."),
        ("latest", "x" * 5000),
        ("latest", "\0\x7f"),
        ("latest_checkpointed_iteration.txt", "soon"),
        ("latest_checkpointed_iteration.txt", "9" * 400),
        ("checkpoint", "a file of somebody else"),
        ("checkpoint", 'model_checkpoint_path: "/elsewhere/ckpt-200"'),
    ],
)
def test_what_is_no_pointer_is_left_alone(unit, pointer, text):
    unit.folder("global_step100")
    unit.points(pointer, text)
    assert unit.look().pointers == ()
    assert unit.dangling() == ()


def test_a_pointer_that_is_a_link_a_pipe_or_a_folder_is_left_alone(unit, tmp_path):
    unit.folder("global_step100")
    (unit.path / "latest").symlink_to("/etc/hostname")
    os.mkfifo(unit.path / "latest_checkpointed_iteration.txt")
    (unit.path / "checkpoint").mkdir()
    assert unit.look().pointers == ()
    assert unit.dangling() == ()


def test_an_unchanged_pointer_is_not_opened_again(unit, monkeypatch):
    unit.folder("global_step100")
    unit.points("latest", "global_step100")
    unit.look()
    unit.look(10.0)
    opened = []
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *more, **how: opened.append(path) or real(path, *more, **how)
    )
    unit.look(1.0)
    assert "latest" not in opened
    unit.points("latest", "global_step101")
    unit.look(1.0)
    assert "latest" in opened


def copy(serial, name, *, sound_s=None, format="deepspeed", status=CopyStatus.SOUND):
    return Copy(
        serial=serial,
        name=name,
        format=format,
        step=serial,
        bytes=1,
        status=status,
        why="",
        first_seen_s=0.0,
        began_s=0.0,
        changed_s=0.0,
        sound_s=sound_s,
        fingerprint="",
        inode="",
        written_s=0.0,
    )


OLDER, NEWER = copy(1, "global_step100", sound_s=0.0), copy(2, "global_step200", sound_s=100.0)
LATEST = Pointer(name="latest", to="global_step100")


def test_a_pointer_that_lags_is_told_after_a_while():
    assert lagging((OLDER, NEWER), (LATEST,), 100.0 + LAG_S - 1) == ()
    (trouble,) = lagging((OLDER, NEWER), (LATEST,), 100.0 + LAG_S)
    assert trouble.text == "latest still names global_step100, though global_step200 is newer and sound"


@pytest.mark.parametrize(
    "newer",
    [
        evolve(NEWER, status=CopyStatus.BROKEN),
        evolve(NEWER, status=CopyStatus.WRITING, sound_s=None),
        evolve(NEWER, name="other/global_step200"),
        evolve(NEWER, format="torch-zip"),
    ],
)
def test_a_pointer_to_the_newest_sound_copy_of_its_folder_does_not_lag(newer):
    assert lagging((OLDER, newer), (LATEST,), 1000.0) == ()


def test_a_pointer_that_has_caught_up_does_not_lag():
    assert lagging((OLDER, NEWER), (evolve(LATEST, to="global_step200"),), 1000.0) == ()


MINE, OTHER = copy(2, "mine/global_step_100", sound_s=100.0), copy(1, "other/global_step_90", sound_s=0.0)
NAME = "latest_checkpointed_iteration.txt"
TRACKER = Pointer(name=f"other/{NAME}", to="other/global_step_90")


def test_a_tracker_that_every_other_run_has_is_missed_after_a_while():
    given = ((OTHER, MINE), (TRACKER,), (TRACKER.name,))
    assert untracked(*given, 100.0 + LAG_S - 1) == ()
    (trouble,) = untracked(*given, 100.0 + LAG_S)
    assert trouble.text == (
        f"mine has no {NAME}, as other has: a job may not find mine/global_step_100, which is sound"
    )


THIRD = copy(0, "third/global_step_80", sound_s=0.0)


@pytest.mark.parametrize(
    ("copies", "pointers", "files"),
    [
        ((OTHER, MINE), (TRACKER,), (TRACKER.name, f"mine/{NAME}")),
        ((OTHER, MINE), (TRACKER,), (TRACKER.name, "mine/latest")),
        ((OTHER, MINE), (), (TRACKER.name,)),
        ((THIRD, OTHER, MINE), (TRACKER,), (TRACKER.name,)),
        ((MINE,), (), ()),
        ((evolve(OTHER, format="folder"), MINE), (TRACKER,), (TRACKER.name,)),
        ((evolve(OTHER, name="other/step_90"), MINE), (TRACKER,), (TRACKER.name,)),
        ((evolve(OTHER, name="runs/other/global_step_90"), MINE), (TRACKER,), (TRACKER.name,)),
        ((OTHER, evolve(MINE, name="global_step_100")), (TRACKER,), (TRACKER.name,)),
        ((OTHER, evolve(MINE, status=CopyStatus.BROKEN)), (TRACKER,), (TRACKER.name,)),
        ((evolve(OTHER, serial=3), MINE), (TRACKER,), (TRACKER.name,)),
        ((OTHER, MINE), (evolve(TRACKER, name="other/checkpoint"),), ("other/checkpoint",)),
    ],
    ids=[
        "it is there", "another one is there", "the other's names nothing", "a third run has none",
        "no other run", "another format", "another name", "not beside", "no folder of its own",
        "not sound", "the other run is the newest", "of TensorFlow",
    ],
)  # fmt: skip
def test_without_the_example_of_all_other_runs_no_tracker_is_missed(copies, pointers, files):
    assert untracked(copies, pointers, files, 1000.0) == ()


def test_every_pointer_there_is_counts_whatever_it_says(unit):
    for run in ("a", "b", "c"):
        unit.folder(f"{run}/global_step_100")
    unit.points(f"a/{NAME}", "soon")
    unit.points("b/latest", "")
    (unit.path / "c" / "latest").symlink_to("nowhere")
    assert unit.look().pointer_files == (f"a/{NAME}", "b/latest", "c/latest")
