"""The end of training: one mark for the governor, always a yes, and no second write for what was open."""

from __future__ import annotations

import itertools
import json
import os

import pytest

import ckpt_reader


def test_the_end_is_marked_and_is_a_yes(should_save, unit):
    assert should_save(unit.path, final=True) is True
    assert unit.left() == ["ending"]


def test_the_mark_is_a_glue_file_that_the_contract_knows(should_save, unit):
    should_save(unit.path, final=True)
    mark = (unit.glue / "ending").read_bytes()
    assert mark == b"" or json.loads(mark)["v"] == 1


def test_the_glue_folder_may_be_there(should_save, unit):
    unit.glue.mkdir()
    (unit.glue / "risk.preempt").touch()
    assert should_save(unit.path, final=True) is True
    assert unit.left() == ["ending", "risk.preempt"]


def test_without_a_governor_s_folder_nothing_is_made(should_save, tmp_path):
    assert should_save(tmp_path, final=True) is True
    assert list(tmp_path.iterdir()) == []


def test_every_end_leaves_a_new_mark(should_save, unit):
    marks = []
    for _ in range(3):
        assert should_save(unit.path, final=True) is True
        marks.append((unit.glue / "ending").stat())
    assert all(a.st_ino != b.st_ino for a, b in itertools.pairwise(marks))
    assert all(a.st_mtime_ns <= b.st_mtime_ns for a, b in itertools.pairwise(marks))
    assert unit.left() == ["ending"]


def test_the_last_write_answers_what_is_open(should_save, unit):
    for _ in range(2):
        unit.write()
        assert should_save(unit.path) is False
    unit.write(7)
    assert should_save(unit.path, final=True) is True
    assert should_save(unit.path) is False
    assert json.loads((unit.glue / "seen").read_text()) == {"v": 1, "id": 7}


def test_what_was_heard_before_the_end_keeps_its_time(should_save, unit):
    for request in (None, None, 7):
        unit.write(request)
        should_save(unit.path)
    heard = (unit.glue / "seen").stat()
    assert should_save(unit.path, final=True) is True
    assert (unit.glue / "seen").stat().st_ino == heard.st_ino


def test_the_last_write_answers_also_what_no_beat_had_proven(should_save, unit):
    unit.write(7)
    assert should_save(unit.path, final=True) is True
    unit.write(7)
    assert should_save(unit.path) is False


def test_a_new_request_after_the_end_is_answered(should_save, unit):
    for _ in range(2):
        unit.write()
        assert should_save(unit.path) is False
    assert should_save(unit.path, final=True) is True
    unit.write(8)
    assert should_save(unit.path) is True


def test_the_end_begins_a_new_period(should_save, unit):
    unit.numbers(10)
    assert should_save(unit.path, final=True, after_s=10.0) is True
    assert should_save(unit.path, after_s=9.0) is False
    assert should_save(unit.path, after_s=1.0) is True


def test_the_end_is_not_put_off_by_an_answer_that_still_holds(should_save, unit):
    directory = str(unit.path)
    assert should_save(directory) is False
    assert should_save(directory, final=True, after_s=0.0) is True
    assert unit.left() == ["ending"]


@pytest.mark.parametrize("name", ["mkdir", "replace"])
def test_a_mark_that_cannot_be_left_is_a_yes_all_the_same(should_save, unit, monkeypatch, name):
    monkeypatch.setattr(ckpt_reader.os, name, lambda *_: (_ for _ in ()).throw(PermissionError()))
    assert should_save(unit.path, final=True) is True
    assert unit.left() == []


@pytest.mark.parametrize("state", [b"", b"{", b'{"request": {"id": "x"}}'])
def test_a_damaged_state_is_no_hindrance(should_save, unit, state):
    unit.put("state.json", state)
    assert should_save(unit.path, final=True) is True
    assert unit.left() == ["ending"]


def test_a_real_process_ends_so(unit, run_python):
    script = "import ckpt_reader; print(ckpt_reader.should_save(final=True))"
    run = run_python(script, env={"CKPT_DIR": os.fspath(unit.path)})
    assert (run.stdout, run.stderr) == ("True\n", "")
    assert unit.left() == ["ending"]
