"""Damaged, huge, nested, binary and strange files: told by name and field, never a crash, never a hang."""

from __future__ import annotations

import os
import signal
import time

import pytest
from process.harness import Governor, wait_until

GOOD = '{"v": 1, "with_us": "2h"}'

# what stands there, and words of the complaint besides the file's name
NUMBERS: dict[str, tuple[str | bytes, list[str]]] = {
    "not JSON": ("{", []),
    "binary": (b"\x80\x00\xff" * 50, []),
    "no object": ("[1]", []),
    "nested": ("[" * 50_000 + "]" * 50_000, []),
    "huge": ('{"v": 1, "x": "' + "y" * 200_000 + '"}', []),
    "a bare word": ('{"v": 1, "with_us": "soon"}', ["with_us", "soon"]),
    "NaN": ('{"v": 1, "with_us": NaN}', []),
    "another version": ('{"v": 99, "with_us": "2h"}', ["v"]),
}


def bytes_of(text):
    """Text as it stands in a file."""
    return text if isinstance(text, bytes) else text.encode()


def strange(path, kind):
    """Puts something that is no regular file at this path."""
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    elif kind == "link to a file":
        (path.parent / ".target").write_text(GOOD)
        path.symlink_to(".target")
    else:
        path.symlink_to("nowhere")


STRANGE = ["FIFO", "directory", "link to a device", "link to a file", "dangling link"]


@pytest.fixture
def refused(unit, processes):
    """A governor that ends at its start: exit 2 and one line that names the file."""

    def start(*options):
        processes.append(Governor(unit, *options))
        governor = processes[-1]
        assert governor.ended() == 2
        assert governor.printed() == ""
        (line,) = governor.complaints().splitlines()
        assert "Traceback" not in line
        assert len(line) < 500
        return line

    return start


@pytest.mark.parametrize("kind", NUMBERS)
def test_damaged_numbers_are_refused_at_start(unit, refused, kind):
    text, words = NUMBERS[kind]
    unit.control.mkdir()
    (unit.control / "numbers.json").write_bytes(bytes_of(text))
    line = refused()
    assert [word for word in ["numbers.json", *words] if word not in line] == []
    assert not (unit.control / "state.json").exists()


@pytest.mark.parametrize("kind", STRANGE)
def test_numbers_that_are_no_regular_file_are_refused_at_start(unit, refused, kind):
    unit.control.mkdir()
    strange(unit.control / "numbers.json", kind)
    assert "numbers.json" in refused()


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--with-us", "soon"),
        ("--no-us", "0"),
        ("--duration", "nan"),
        ("--grace", "inf"),
        ("--poll", "0"),
        ("--log", "xml"),
    ],
)
def test_a_flag_that_makes_no_sense_is_refused(unit, processes, flag, value):
    processes.append(Governor(unit, flag, value))
    assert processes[-1].ended() == 2
    complaint = processes[-1].complaints()
    assert flag in complaint
    assert value in complaint
    assert "Traceback" not in complaint


def test_numbers_that_turn_bad_leave_the_last_good_ones(unit, govern):
    unit.control.mkdir()
    numbers = unit.control / "numbers.json"
    numbers.write_text(GOOD)
    governor = govern()
    for count, kind in enumerate(["a bare word", "FIFO"], 1):
        numbers.unlink()
        if kind in STRANGE:
            strange(numbers, kind)
        else:
            numbers.write_bytes(bytes_of(NUMBERS[kind][0]))
        unit.looked_at()
        lines = governor.lines("unknown", "numbers")
        assert len(lines) == count, f"{kind}: {lines}"
        assert "numbers.json" in lines[-1]
        assert "the last good numbers stay" in lines[-1]
        assert unit.state()["with_us_s"] == 7200
        numbers.unlink()
        numbers.write_text(GOOD)
        unit.looked_at()
    numbers.write_text('{"v": 1, "with_us": "3h"}')
    wait_until(lambda: unit.state()["with_us_s"] == 10800, "good numbers are not taken")


# ---- glue --------------------------------------------------------------------------------------------------------

GLUE: dict[str, str | bytes] = {
    "not JSON": "{",
    "binary": b"\x80\x00\xff" * 50,
    "no object": "[1]",
    "nested": '{"v": 1, "text": ' + "[" * 20_000 + "]" * 20_000 + "}",
    "huge": '{"v": 1, "text": "' + "y" * 200_000 + '"}',
    "a date that is none": '{"v": 1, "deadline": "tomorrow"}',
    "NaN": '{"v": 1, "deadline": NaN}',
    "infinity": '{"v": 1, "in": 1e999}',
    "a truth for a number": '{"v": 1, "in": true}',
    "a number for words": '{"v": 1, "id": {}}',
}


def still_serves(unit, governor, job):
    """A notice that is whole is served as if nothing had been."""
    unit.drop("risk.preempt.sane", '{"v": 1}')
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt.sane") == "served", "the notice was never acknowledged")
    assert len(job.events("copy")) == len(governor.lines("save")) == 1
    assert governor.running()
    assert "Traceback" not in governor.complaints()


def told_once(unit, governor, names):
    """The lines about these drop-in files, one for each, after the governor has looked more than once."""
    unit.looked_at()
    rows = governor.lines("unknown")
    told = {name: [row for row in rows if f"glue/{name}: " in row] for name in names}
    assert [name for name in names if len(told[name]) != 1] == [], rows
    assert max(len(row) for row in rows) < 600
    return {name: row for name, (row,) in told.items()}


def test_damaged_notices_are_told_once_each_and_ask_for_nothing(unit, govern, train):
    governor = govern()
    job = train()
    names = {f"risk.memory.{kind.replace(' ', '-')}": text for kind, text in GLUE.items()}
    for name, text in names.items():
        (unit.glue / name).write_bytes(bytes_of(text))
    lines = told_once(unit, governor, names)
    assert {line.split()[2] for line in lines.values()} == {"risk.memory"}
    fields = {"a-date-that-is-none": "deadline", "a-truth-for-a-number": "in", "a-number-for-words": "id"}
    assert [
        kind for kind, field in fields.items() if f": {field}: " not in lines[f"risk.memory.{kind}"]
    ] == []
    assert unit.state()["conditions"]["risk.memory"] is None
    assert (unit.nothing_is_asked(), job.events("copy")) == (True, [])
    still_serves(unit, governor, job)


def test_strange_notices_are_told_once_each_and_ask_for_nothing(unit, govern, train):
    governor = govern()
    job = train()
    names = {f"risk.memory.{kind.replace(' ', '-')}": kind for kind in STRANGE}
    for name, kind in names.items():
        strange(unit.glue / name, kind)
    lines = told_once(unit, governor, names)
    assert [line for line in lines.values() if "not a regular file" not in line] == []
    assert (unit.nothing_is_asked(), job.events("copy")) == (True, [])
    still_serves(unit, governor, job)


@pytest.mark.parametrize("kind", ["FIFO", "directory", "link to a device"])
def test_a_file_of_the_job_that_is_no_regular_file_is_told_once(unit, govern, train, kind):
    governor = govern()
    job = train("plain")
    names = ("job.json", "ending", "seen")
    for name in names:
        strange(unit.glue / name, kind)
    told_once(unit, governor, names)
    assert (unit.nothing_is_asked(), job.events("copy")) == (True, [])
    still_serves(unit, governor, job)


def test_a_flood_of_drop_ins_hides_no_notice_that_was_there(unit, govern, train):
    governor = govern()
    job = train()
    unit.drop("risk.preempt")
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice was never acknowledged")
    for number in range(400):
        (unit.glue / f"junk{number}").touch()
    governor.said("unknown", "glue")
    unit.end_training()
    assert governor.ended() == 0
    assert [write["reason"] for write in unit.receipt()["writes"]] == ["risk.preempt", "train.end"]
    assert job.ended() == 0


def test_names_that_try_to_steer_a_terminal_are_printed_harmlessly(unit, govern):
    governor = govern()
    for name in ("risk.memory.\x1b[2Jx", "risk.memory.\u202eyx", "junk\nsave  risk.preempt"):
        (unit.glue / name).write_text("{")
    with open(os.fsencode(unit.glue) + b"/risk.memory.\xff", "w") as file:
        file.write("{")
    unit.looked_at()
    assert len(governor.lines("unknown", "risk.memory")) == 3
    assert [line for line in governor.lines("unknown", "glue") if "barrier" not in line] == [
        line for line in governor.lines() if "glue/junk\\x0asave  risk.preempt: " in line
    ]
    printed = governor.out.read_bytes()
    assert b"\x1b" not in printed
    assert "\u202e".encode() not in printed
    assert governor.lines("save") == []


def test_a_half_written_notice_is_not_damage(unit, govern, train):
    governor = govern()
    job = train()
    path = unit.glue / "risk.preempt.slow"
    with open(path, "w") as file:
        for piece in ('{"v": 1, ', '"id": "x", ', '"text": "moved', ' to another node"}'):
            file.write(piece)
            file.flush()
            time.sleep(0.15)  # less than the time after which damage is believed
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt.slow") == "served", "the notice was never acknowledged")
    assert governor.lines("unknown") == []
    assert "moved to another node" in governor.lines("save")[0]


# ---- what is not there -------------------------------------------------------------------------------------------


def test_a_directory_that_is_not_there_is_named(unit, processes):
    unit.path.rmdir()
    processes.append(Governor(unit))
    assert processes[-1].ended() == 3
    assert str(unit.path) in processes[-1].complaints()


@pytest.mark.parametrize("kind", ["FIFO", "link to a file", "dangling link"])
def test_a_control_folder_that_is_none_is_named(unit, processes, kind):
    strange(unit.control, kind)
    processes.append(Governor(unit))
    assert processes[-1].ended() == 3
    assert ".ckpt-governor" in processes[-1].complaints()
    assert "Traceback" not in processes[-1].complaints()


def test_a_unit_that_goes_away_and_comes_back_is_served_again(unit, govern, train):
    governor = govern()
    away = unit.folder / "away"
    unit.path.rename(away)
    governor.said("unknown", "blind")
    away.rename(unit.path)
    still_serves(unit, governor, train())
    governor.send(signal.SIGINT)
    assert governor.ended() == 0
