"""``ckptctl copies --deep`` on a terminal of its own: a bar that moves, and a Ctrl-C that ends it cleanly."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from formats.making import end_of_zip
from process.harness import environment, wait_until

HOLE_BYTES = 1 << 40
TAKE = "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
"""So that Ctrl-C reaches it."""
CALL = "from ckpt_governor.cli.ctl import main; sys.exit(main())"


@pytest.fixture
def unit(tmp_path):
    """A copy whose only long record is a hole that takes minutes to read."""
    with (tmp_path / "step-7.pt").open("wb") as file:
        entries, at = bytearray(), 0
        for name, length in ((b"a/data.pkl", 3), (b"a/data/0", HOLE_BYTES), (b"a/version", 2)):
            short = min(length, 0xFFFFFFFF)
            wide = struct.pack("<2H2Q", 1, 16, length, length) if short < length else b""
            wide_at = struct.pack("<2HQ", 1, 8, at) if at > 0xFFFFFFFF else b""
            file.seek(at)
            file.write(
                struct.pack("<4s5H3L2H", b"PK\3\4", 0, 0, 0, 0, 0, 5, short, short, len(name), 0) + name
            )
            entries += struct.pack(
                "<4s6H3L5H2L",
                b"PK\1\2", 0, 0, 0, 0, 0, 0, 5, short, short, len(name), len(wide + wide_at), 0, 0, 0, 0,
                min(at, 0xFFFFFFFF),
            ) + name + wide + wide_at  # fmt: skip
            at += 30 + len(name) + length
        file.seek(at)
        file.write(end_of_zip(at, len(entries), 3, bytes(entries)))
    os.utime(tmp_path / "step-7.pt", (1000, 1000))
    return tmp_path


class Terminal:
    """A pseudo-terminal, and the tool as the process that it belongs to."""

    def __init__(self, code, *arguments, **options):
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{TAKE}; {code}; {CALL}", *map(str, arguments)],
            **{"stdin": slave, "stdout": slave, "stderr": slave, **options},
            env={**environment(), "TERM": "xterm", "COLUMNS": "100"},
            start_new_session=True,
        )
        os.set_blocking(self.master, False)
        self.text = ""

    def shown(self):
        """All that it has shown."""
        try:
            while data := os.read(self.master, 65536):
                self.text += data.decode(errors="replace")
        except BlockingIOError:
            pass
        return self.text

    def press_control_c(self):
        """As a person does."""
        os.write(self.master, b"\x03")

    def ended(self):
        """Its exit code."""
        wait_until(lambda: self.shown() is not None and self.process.poll() is not None, "it did not end")
        return self.process.returncode

    def close(self):
        """Nothing of it is left."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal():
    """Starts the tool on a terminal."""
    started = []

    def start(code, *arguments, **options):
        started.append(Terminal(code, *arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize("code", ["pass", "sys.modules['rich'] = None"], ids=["rich", "plain"])
def test_a_bar_moves_and_control_c_ends_it_without_a_trace(unit, terminal, code):
    seen = terminal(code, "copies", unit, "--deep")
    wait_until(lambda: re.search(r"step-7\.pt", seen.shown()), "no bar was shown")
    wait_until(lambda: seen.shown().count("step-7.pt") > 3, "the bar did not move")
    seen.press_control_c()
    assert seen.ended() == 130
    assert "Traceback" not in seen.shown()
    hidden, back = (
        seen.shown().rfind(f"\x1b[?25{letter}") for letter in "lh"
    )  # the cursor; plain text hides none
    assert back >= hidden
    assert termios.tcgetattr(seen.slave) == seen.before
    assert seen.shown().endswith(("\x1b[2K", "\x1b[K"))  # the bar is gone


def test_a_pipe_gets_the_answer_alone_and_the_terminal_the_bar(tmp_path, terminal):
    (tmp_path / "step-7.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    os.utime(tmp_path / "step-7.safetensors", (1000, 1000))
    seen = terminal("pass", "copies", tmp_path, "--deep", stdout=subprocess.PIPE)
    printed, _ = seen.process.communicate(timeout=60)
    assert printed.decode().splitlines()[-1] == "nothing had a checksum that could be checked"
    assert b"\x1b" not in printed
    assert "step-7.safetensors" in seen.shown()
