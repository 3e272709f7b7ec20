"""A request is answered once in every process, and nothing else is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import ckpt_reader


def test_a_request_is_answered_once(asker, unit):
    asker.prove()
    unit.write(7)
    assert [asker.ask() for _ in range(5)] == [True, False, False, False, False]


def test_a_request_that_stays_in_the_file_over_many_beats_is_answered_once(asker, unit):
    asker.prove()
    answers = []
    for _ in range(10):
        unit.write(7)
        answers.append(asker.ask(after_s=5.0))
    assert answers.count(True) == 1


def test_every_process_answers_a_request_once(new_job, unit):
    jobs = [new_job(unit), new_job(unit)]
    for request, expected in [(None, False), (None, False), (7, True), (7, False), (8, True), (None, False)]:
        unit.write(request)
        assert [[job.ask(), job.ask()] for job in jobs] == [[expected, False]] * 2


def test_a_new_id_is_a_new_request(asker, unit):
    asker.prove()
    answers = []
    for request in (7, 8, 1764424863000, 1764424863001):
        unit.write(request)
        answers.append(asker.ask())
    assert answers == [True] * 4


def test_an_id_that_is_lower_than_a_served_one_is_an_old_view_of_the_file(asker, unit):
    asker.prove()
    unit.write(8)
    assert asker.ask() is True
    unit.write(7)
    assert asker.ask() is False


@pytest.mark.parametrize("kind", ["save", "repair"])
def test_both_kinds_are_answered(asker, unit, kind):
    asker.prove()
    unit.write({"id": 7, "kind": kind})
    assert asker.ask() is True


def test_nothing_is_answered_while_nothing_is_wanted(asker, unit):
    for _ in range(20):
        unit.write()
        assert asker.ask(after_s=5.0) is False


def test_a_request_that_was_withdrawn_before_the_next_look_is_not_answered(asker, unit):
    asker.prove()
    unit.write(7)
    unit.write()
    assert asker.ask() is False


def test_unknown_keys_are_ignored(asker, unit):
    asker.prove(weather="fine")
    unit.write({"id": 7, "kind": "save", "mood": [1, 2]}, weather={"deep": [{}]})
    assert asker.ask() is True


def test_a_state_of_a_version_that_this_reader_does_not_know_is_no_request(asker, unit):
    asker.prove()
    unit.write(7, v=2)
    assert asker.ask() is False


def test_two_directories_are_served_apart(should_save, new_unit):
    units = [new_unit("one"), new_unit("two")]
    for request in (None, None):
        for unit in units:
            unit.write(request)
            assert should_save(unit.path) is False
    for unit in units:
        unit.write(7)
    answers = [should_save(unit.path) for _ in range(2) for unit in units]
    assert answers == [True, True, False, False]


def test_one_directory_is_served_once_however_it_is_spelled(should_save, unit, monkeypatch):
    monkeypatch.chdir(unit.path.parent)
    monkeypatch.setenv("CKPT_DIR", "checkpoints")
    for _ in range(2):
        unit.write()
        assert should_save() is False
    unit.write(7)
    spellings = [
        Path("checkpoints"),
        "checkpoints",
        "./checkpoints/",
        b"checkpoints",
        str(unit.path),
        unit.path,
        None,
    ]
    assert [should_save(spelling) for spelling in spellings] == [True, *[False] * 6]


def test_a_second_spelling_gets_no_second_yes_from_the_answer_that_still_holds(should_save, unit):
    for request in (None, None):
        unit.write(request)
        assert should_save(unit.path) is False
    unit.write(7)
    answers = [should_save(spelling, after_s=0.03) for spelling in (unit.path, str(unit.path), unit.path) * 3]
    assert answers.count(True) == 1


def test_the_directory_is_ckpt_dir_and_then_the_current_one(should_save, new_unit, monkeypatch):
    named, current = new_unit("named"), new_unit("current")
    monkeypatch.chdir(current.path)
    for _ in range(2):
        current.write()
        named.write()
        assert should_save() is False
        assert should_save(named.path) is False
    current.write(7)
    assert should_save() is True
    named.write(9)
    monkeypatch.setenv("CKPT_DIR", str(named.path))
    assert should_save() is True
    monkeypatch.setenv("CKPT_DIR", "")
    assert should_save() is False


def test_the_answer_leaves_word_that_it_was_heard(asker, unit):
    asker.prove()
    assert unit.left() == []
    unit.write(7)
    assert asker.ask() is True
    assert unit.left() == ["seen"]
    assert json.loads((unit.glue / "seen").read_text()) == {"v": 1, "id": 7}


@pytest.mark.parametrize(
    "obstacle",
    [
        pytest.param(lambda unit: unit.glue.write_text(""), id="glue is a file"),
        pytest.param(lambda unit: (unit.glue / "seen" / "full").mkdir(parents=True), id="seen is a folder"),
        pytest.param(lambda unit: unit.glue.symlink_to("nowhere"), id="glue leads nowhere"),
    ],
)
def test_the_answer_does_not_depend_on_the_word(asker, unit, obstacle):
    obstacle(unit)
    asker.prove()
    unit.write(7)
    assert [asker.ask(), asker.ask()] == [True, False]
    assert not unit.glue.is_dir() or unit.left() == ["seen"]


def test_a_full_volume_gets_no_half_word(asker, unit, monkeypatch):
    asker.prove()
    unit.write(7)
    monkeypatch.setattr(ckpt_reader.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    assert asker.ask() is True
    assert unit.left() == []


def test_a_no_writes_nothing(asker, unit):
    asker.prove()
    before = [(entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(unit.control)]
    for _ in range(100):
        assert asker.ask() is False
    assert [(entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(unit.control)] == before


def test_within_50_ms_the_disk_is_not_asked_again(should_save, unit, monkeypatch):
    looks = []
    read = ckpt_reader._read
    monkeypatch.setattr(ckpt_reader, "_read", lambda path: looks.append(path) or read(path))
    unit.write()
    directory = str(unit.path)
    assert should_save(directory) is False
    first = len(looks)
    for same in (directory, directory[:3] + directory[3:], unit.path, os.fsencode(directory)):
        assert should_save(same, after_s=0.01) is False
    assert len(looks) == first
    assert should_save(directory, after_s=0.011) is False
    assert len(looks) > first


def test_a_request_is_seen_at_the_first_look_after_50_ms(should_save, unit):
    for _ in range(2):
        unit.write()
        assert should_save(unit.path) is False
    unit.write(7)
    assert should_save(unit.path, after_s=0.049) is False
    assert should_save(unit.path, after_s=0.002) is True


def test_a_change_is_seen_though_size_time_and_inode_of_the_file_stay(asker, unit):
    asker.prove()
    unit.write(7)
    os.utime(unit.state_path, ns=(0, 0))
    assert asker.ask() is True
    old = unit.state_path.stat()
    unit.state_path.write_text(json.dumps(unit.state(8), separators=(",", ":")))  # in place
    os.utime(unit.state_path, ns=(0, 0))
    new = unit.state_path.stat()
    assert (old.st_ino, old.st_size, old.st_mtime_ns) == (new.st_ino, new.st_size, new.st_mtime_ns)
    assert asker.ask() is True
