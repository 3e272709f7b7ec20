"""Damaged, huge, nested, binary and strange files: told by name and field, never a crash, never a hang."""

from __future__ import annotations

import os
import signal

import pytest
from process.harness import Governor, wait_until

GOOD = '{"v": 1, "with_us": "2h"}'

# name: (what stands there, words of the complaint besides the file's name)
NUMBERS = {
    "not JSON": ("{", []),
    "empty": ("", []),
    "binary": (b"\x80\x00\xff" * 50, []),
    "no object": ("[1]", []),
    "nested": ("[" * 50_000 + "]" * 50_000, []),
    "huge": ('{"v": 1, "x": "' + "y" * 200_000 + '"}', []),
    "a bare word": ('{"v": 1, "with_us": "soon"}', ["with_us", "soon"]),
    "negative": ('{"v": 1, "no_us": "-5s"}', ["no_us", "-5s"]),
    "zero": ('{"v": 1, "no_us": 0}', ["no_us"]),
    "NaN": ('{"v": 1, "with_us": NaN}', []),
    "infinity": ('{"v": 1, "with_us": 1e999}', []),
    "a truth": ('{"v": 1, "with_us": true}', ["with_us"]),
    "beyond ten years": ('{"v": 1, "with_us": "9999w"}', ["with_us"]),
    "another version": ('{"v": 99, "with_us": "2h"}', ["v"]),
}


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
    (unit.control / "numbers.json").write_bytes(text if isinstance(text, bytes) else text.encode())
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
    assert unit.state()["with_us_s"] == 7200
    for count, kind in enumerate(("a bare word", "nested", "huge", "binary"), 1):
        text = NUMBERS[kind][0]
        numbers.write_bytes(text if isinstance(text, bytes) else text.encode())
        wait_until(
            lambda count=count: len(governor.lines("unknown", "numbers")) >= count, f"{kind} is not told"
        )
    numbers.unlink()
    os.mkfifo(numbers)
    wait_until(lambda: len(governor.lines("unknown", "numbers")) >= 5, "the FIFO is not told")
    assert all("numbers.json" in line for line in governor.lines("unknown"))
    assert "the last good numbers stay" in governor.lines("unknown")[0]
    beat = unit.state()["beat"]
    wait_until(lambda: unit.state()["beat"] > beat, "no beat any more")
    assert unit.state()["with_us_s"] == 7200
    numbers.unlink()
    numbers.write_text('{"v": 1, "with_us": "3h"}')
    wait_until(lambda: unit.state()["with_us_s"] == 10800, "good numbers are not taken again")


# ---- glue --------------------------------------------------------------------------------------------------------

GLUE = {
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
    count = len(job.events("copy"))
    unit.drop("risk.preempt.sane", '{"v": 1}')
    job.wrote(count + 1)
    wait_until(lambda: unit.ack("risk.preempt.sane") == "served", "the notice was never acknowledged")
    assert governor.running()
    assert governor.complaints() == ""


def told_once(unit, governor, words):
    """The one line about a drop-in file."""
    line = wait_until(
        lambda: [line for line in governor.lines("unknown") if words in line], f"{words} is not told"
    )[0]
    unit.looked_at()
    assert [row for row in governor.lines("unknown") if words in row] == [line]
    assert len(line) < 600
    return line


@pytest.mark.parametrize("kind", GLUE)
def test_a_damaged_notice_is_told_once_and_asks_for_nothing(unit, govern, train, kind):
    governor = govern()
    job = train()
    text = GLUE[kind]
    (unit.glue / "risk.memory.odd").write_bytes(text if isinstance(text, bytes) else text.encode())
    line = told_once(unit, governor, "glue/risk.memory.odd")
    assert line.split()[2] == "risk.memory"
    assert unit.state()["conditions"]["risk.memory"] is None
    assert (unit.nothing_is_asked(), job.events("copy")) == (True, [])
    still_serves(unit, governor, job)


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("name", ["risk.memory.odd", "job.json", "ending", "seen"])
def test_a_drop_in_that_is_no_regular_file_is_told_once(unit, govern, train, kind, name):
    governor = govern()
    job = train("plain")
    strange(unit.glue / name, kind)
    told_once(unit, governor, f"glue/{name}: ")
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
    os.close(os.open(os.fsencode(unit.glue) + b"/risk.memory.\xff", os.O_CREAT | os.O_WRONLY))
    (unit.glue / "risk.memory.last").write_text("{")
    told_once(unit, governor, "risk.memory.last")
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
            os.utime(path)
            wait_until(lambda: True, "")
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
    job = train()
    still_serves_after_blindness(unit, governor, job)


def still_serves_after_blindness(unit, governor, job):
    unit.drop("risk.preempt.sane", '{"v": 1}')
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt.sane") == "served", "the notice was never acknowledged")
    assert governor.running()
    governor.send(signal.SIGINT)
    assert governor.ended() == 0
