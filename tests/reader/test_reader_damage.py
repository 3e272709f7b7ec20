"""Whatever is on disk and whatever the job passes: no exception, no wait, and no request."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

import ckpt_reader

REQUEST = {"id": 7, "kind": "save"}
UNREADABLE = {
    "empty": b"",
    "one brace": b"{",
    "half a state": b'{"v":1,"governor":{"id":"a","version":"0.1.0","alive":tr',
    "binary": bytes(range(256)),
    "zeros": b"\0" * 1024,
    "not UTF-8": b'{"v":1,"request":{"id":7},"beat":"\xff"}',
    "lone surrogates": b"\xed\xa0\x80",
    "a list": b"[]",
    "a number": b"7",
    "a string": b'"request"',
    "null": b"null",
    "no keys": b"{}",
    "deep lists": b"[" * 60000,
    "deep objects": b'{"request":' * 5000,
    "a number of 50000 digits": b"9" * 50000,
    "two states": b'{"v":1}{"v":1}',
}
FIELDS = ["v", "governor", "governor.alive", "beat", "request", "request.id"]
# What no field of the contract may hold; a field that accepts one of them is left out below.
VALUES = [
    None,
    True,
    False,
    -1,
    0,
    0.5,
    7.0,
    2**53,
    2**63,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "7",
    "null",
    [],
    [7],
    {},
    {"id": None},
]
ALLOWED = {
    ("v", True),
    ("governor.alive", True),
    ("request", None),
    *(("beat", value) for value in VALUES if type(value) is int),
}


def wrong_fields():
    for field in FIELDS:
        for value in VALUES:
            if not any(field == name and value is good for name, good in ALLOWED):
                yield pytest.param(field, value, id=f"{field}={repr(value)[:20]}")


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_state_is_no_request(asker, unit, data):
    asker.prove()
    unit.put("state.json", data)
    assert [asker.ask() for _ in range(3)] == [False] * 3
    unit.write(7)
    assert asker.ask() is True


@pytest.mark.parametrize(("field", "value"), list(wrong_fields()))
def test_a_field_of_the_wrong_type_is_no_request(asker, unit, field, value):
    asker.prove()
    state = unit.state(dict(REQUEST))
    *outer, name = field.split(".")
    (state[outer[0]] if outer else state)[name] = value
    unit.put("state.json", json.dumps(state))
    assert [asker.ask() for _ in range(3)] == [False] * 3
    unit.write(7)
    assert asker.ask() is True


@pytest.mark.parametrize("field", FIELDS[1:])
def test_a_field_that_is_missing_is_no_request(asker, unit, field):
    asker.prove()
    state = unit.state(dict(REQUEST))
    *outer, name = field.split(".")
    del (state[outer[0]] if outer else state)[name]
    unit.put("state.json", json.dumps(state))
    assert asker.ask() is False


@pytest.mark.parametrize("name", ["id", "version"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_who_the_governor_is_may_be_anything(asker, unit, name, value):
    asker.prove()
    unit.write(7, governor={"id": "a", "version": "0.1.0", "alive": True, name: value})
    assert asker.ask() in (True, False)
    unit.write(8)
    assert asker.ask() is True


@pytest.mark.parametrize("request_id", [1, 2**53 - 1, 1764424863000])
def test_every_id_that_json_keeps_exact_is_served(asker, unit, request_id):
    asker.prove()
    unit.write(request_id)
    assert [asker.ask(), asker.ask()] == [True, False]


def test_a_state_of_more_than_64_kib_is_no_request(asker, unit):
    asker.prove()
    unit.write(7, padding="x" * 66000)
    assert asker.ask() is False
    unit.write(7, padding="x" * 60000)
    assert asker.ask() is True


def test_of_a_huge_file_no_more_than_64_kib_is_read(asker, unit):
    asker.prove()
    with open(unit.state_path, "wb") as file:
        file.truncate(1 << 40)
    assert asker.ask() is False


def fifo(path):
    os.mkfifo(path)


def link(path):
    target = path.with_name("elsewhere.json")
    target.write_text(json.dumps({"governor": {"id": "a", "alive": True}, "beat": 1, "request": REQUEST}))
    path.symlink_to(target)


def bound_socket(path):
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path may be no longer than 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("name", ["state.json", "numbers.json"])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(fifo, id="FIFO"),
        pytest.param(link, id="link"),
        pytest.param(lambda path: path.symlink_to(path.name), id="link to itself"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), id="device"),
        pytest.param(lambda path: path.mkdir(), id="folder"),
        pytest.param(bound_socket, id="socket"),
    ],
)
def test_what_is_no_regular_file_is_no_request_and_holds_nobody(asker, unit, make, name):
    make(unit.control / name)
    assert [asker.ask() for _ in range(3)] == [False] * 3
    assert asker.ask(after_s=3600.0) is False


def test_a_control_folder_that_is_a_file_is_no_governor(asker, unit):
    unit.control.rmdir()
    unit.control.write_text("{}")
    assert asker.ask(after_s=1e6) is False
    assert asker.reader.end() is True
    assert unit.control.read_text() == "{}"


class Unfriendly:
    """A path that fails when it is asked."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __fspath__(self) -> str:
        raise self.error


NO_DIRECTORIES = {
    "nowhere": "/nonexistent/nowhere",
    "a file": __file__,
    "a NUL": "a\0b",
    "a lone surrogate": "\ud800",
    "too long": "x" * 100000,
    "bytes": b"\xff\xfe",
    "an empty string": "",
    "a number": 3,
    "true": True,
    "a list": [],
    "a dict": {},
    "an object": object(),
    "a failing path": Unfriendly(RuntimeError),
    "a path that nests too deep": Unfriendly(RecursionError),
    "a class": Path,
}


@pytest.mark.parametrize("directory", NO_DIRECTORIES.values(), ids=NO_DIRECTORIES.keys())
def test_whatever_is_passed_as_directory_nothing_is_raised(should_save, directory, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert [should_save(directory) for _ in range(3)] == [False] * 3
    assert should_save(directory, final=True) is True
    assert list(tmp_path.iterdir()) == []


def test_a_current_directory_that_is_gone_is_no_governor(should_save, monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert should_save() is False
    assert should_save(final=True) is True


@pytest.mark.parametrize("error", [RuntimeError, OSError, ValueError, MemoryError, RecursionError])
@pytest.mark.parametrize("name", ["_read", "_state_of", "_decide", "_leave"])
def test_nothing_that_goes_wrong_inside_is_raised(should_save, unit, monkeypatch, name, error):
    for _ in range(2):
        unit.write()
        assert should_save(unit.path) is False
    unit.write(7)
    with monkeypatch.context() as patch:
        patch.setattr(ckpt_reader, name, lambda *_, **__: (_ for _ in ()).throw(error))
        assert should_save(unit.path) is False
        assert should_save(unit.path, final=True) is True
    unit.write(8)
    assert [should_save(unit.path), should_save(unit.path)] == [True, False]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", ["_read", "_leave"])
def test_an_interrupt_passes_and_loses_no_request(should_save, unit, monkeypatch, name, interrupt):
    for _ in range(2):
        unit.write()
        assert should_save(unit.path) is False
    unit.write(7)
    with monkeypatch.context() as patch:
        patch.setattr(ckpt_reader, name, lambda *_: (_ for _ in ()).throw(interrupt))
        with pytest.raises(interrupt):
            should_save(unit.path)
    assert [should_save(unit.path), should_save(unit.path)] == [True, False]


def test_an_interrupt_from_the_path_itself_passes(should_save):
    with pytest.raises(KeyboardInterrupt):
        should_save(Unfriendly(KeyboardInterrupt))


def test_a_job_near_its_recursion_limit_gets_a_no(unit, run_python):
    unit.write()
    script = """
import sys, ckpt_reader
def deeper(n):
    try:
        deeper(n + 1)
    except RecursionError:
        pass
    answers.add(ckpt_reader.should_save(sys.argv[1]))
answers = set()
sys.setrecursionlimit(300)
deeper(0)
print(answers)
"""
    run = run_python(script, unit.path)
    assert (run.stdout, run.stderr) == ("{False}\n", "")


def test_no_descriptor_is_left_open(asker, unit):
    unit.write()
    assert asker.ask() is False
    before = len(os.listdir("/proc/self/fd"))
    for make in (bytes, lambda: b"[" * 70000):
        unit.put("state.json", make())
        assert asker.ask() is False
    unit.state_path.unlink()
    fifo(unit.state_path)
    assert asker.ask() is False
    assert len(os.listdir("/proc/self/fd")) == before
