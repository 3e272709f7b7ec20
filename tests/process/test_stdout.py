"""A stdout or stderr that is closed, full or left by its reader never stops the governor."""

from __future__ import annotations

import os
import select
import signal
import sys

import pytest
from process.harness import Governor, Process, wait_until

from ckpt_governor.say import Mouth


def broken_pipe():
    """The writing end of a pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def full_pipe(room=0):
    """Both ends of a pipe that nobody reads, in which there is room for so many bytes."""
    reader, writer = os.pipe()
    while select.select([], [writer], [], 0)[1]:
        os.write(writer, b"x" * select.PIPE_BUF)
    if room:
        os.read(reader, room)
    return reader, writer


def check_it_serves_and_ends(unit, job, governor):
    unit.drop("risk.preempt")
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice was never acknowledged")
    governor.send(signal.SIGINT)
    assert governor.ended() == 0
    assert [write["reason"] for write in unit.receipt()["writes"]] == ["risk.preempt"]
    assert governor.complaints() == ""


def test_a_stdout_whose_reader_is_gone_does_not_stop_it(unit, train, processes):
    pipe = broken_pipe()
    processes.append(Governor(unit, "--poll", "0.1", stdout=pipe))
    os.close(pipe)
    wait_until(unit.state, "the governor never began")
    check_it_serves_and_ends(unit, train(), processes[0])


@pytest.mark.parametrize("closing", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_handles_do_not_stop_it_and_no_file_takes_their_place(unit, train, processes, closing):
    program = f"exec {sys.executable} -m ckpt_governor run --poll 0.1 --dir {unit.path} {closing}"
    processes.append(Process(["sh", "-c", program], unit.folder))
    wait_until(unit.state, "the governor never began")
    check_it_serves_and_ends(unit, train(), processes[0])
    assert (unit.control / "lock").read_bytes() == b""
    assert "watching" not in (unit.control / "decisions.jsonl").read_text()


def test_a_stdout_that_is_full_does_not_stop_it(unit, train, processes):
    reader, writer = full_pipe()
    processes.append(Governor(unit, "--poll", "0.1", stdout=writer))
    os.close(writer)
    wait_until(unit.state, "the governor never began")
    check_it_serves_and_ends(unit, train(), processes[0])
    os.close(reader)


@pytest.mark.parametrize("room", [4096, 8192])
def test_a_line_that_is_longer_than_the_room_is_cut_and_the_next_one_begins_anew(room):
    reader, writer = full_pipe(room)
    mouth = Mouth(handle=writer)
    mouth.line("y" * 20_000)
    data = b""
    while select.select([reader], [], [], 0)[0]:
        data += os.read(reader, 65536)
    assert data.endswith(b"xy" + b"y" * (room - 1))
    mouth.line("the next one")
    assert os.read(reader, 100) == b"\nthe next one\n"
    mouth.line("and another")
    assert os.read(reader, 100) == b"and another\n"
    os.close(reader)
    os.close(writer)
