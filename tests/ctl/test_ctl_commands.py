"""The tool as a whole: its commands, their help, where DIR comes from, closed pipes, terminals."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest
from ctl.conftest import put_copy, put_state

from ckpt_governor import __version__
from ckpt_governor.cli.ctl import COMMANDS
from ckpt_governor.cli.table import print_table

OWN = [word for word, (module, _) in COMMANDS.items() if module != "ctl_demo"]
READING = ["status", "conditions", "copies", "log", "receipt", "replay"]


def test_the_commands_are_those_of_the_documentation():
    words = "init status conditions copies notice save end log receipt replay demo"
    assert list(COMMANDS) == words.split()


def test_help_lists_every_command_and_the_exit_codes(ctl):
    said = ctl("--help")
    assert said.code == 0
    assert [word for word in COMMANDS if f"\n    {word}" not in said.out] == []
    assert "3 no governor is alive" in said.out


@pytest.mark.parametrize("word", OWN)
def test_every_command_explains_itself_with_an_example(ctl, word):
    said = ctl(word, "--help")
    assert said.code == 0
    assert f"example:\n  ckptctl {word}" in said.out
    assert max(len(line) for line in said.out.splitlines()) <= 100


@pytest.mark.parametrize("word", READING)
def test_every_command_that_reads_gives_json(ctl, word):
    assert "--json" in ctl(word, "--help").out


def test_the_version_is_told(ctl):
    assert ctl("--version") == (0, f"ckptctl {__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["timeline"], ["--json"], ["status", "--jsn"], ["status", "--js"]])
def test_wrong_usage_exits_2_and_says_what_there_is(ctl, arguments):
    said = ctl(*arguments)
    assert (said.code, "usage: ckptctl" in said.err, said.out) == (2, True, "")


@pytest.mark.parametrize("place", ["argument", "variable", "current directory"])
def test_the_directory_is_named_or_in_the_environment_or_the_current_one(
    ctl, unit, tmp_path, monkeypatch, place
):
    monkeypatch.setenv("CKPT_DIR", str(unit.path if place == "variable" else tmp_path / "gone"))
    if place == "current directory":
        monkeypatch.delenv("CKPT_DIR")
        monkeypatch.chdir(unit.path)
    given = [unit.path] if place == "argument" else []
    assert ctl("copies", "--json", *given).record["unit"] == str(unit.path)
    assert ctl("status", "--json", *given).record["units"][0]["unit"] == str(unit.path)


@pytest.mark.parametrize("by", ["option", "variable"])
def test_the_control_directory_may_lie_elsewhere(ctl, unit, tmp_path, monkeypatch, by):
    put_state(unit)
    (tmp_path / "bucket").mkdir()
    if by == "variable":
        monkeypatch.setenv("CKPT_GOVERNOR_CONTROL_DIR", str(unit.path))
    options = ["--control-dir", unit.path] if by == "option" else []
    assert ctl("status", tmp_path / "bucket", "--json", *options).record["units"][0]["owner"] == "host-1-1"
    assert ctl("save", tmp_path / "bucket", *options).code == 0
    assert len(os.listdir(unit.glue)) == 1
    assert os.listdir(tmp_path / "bucket") == []


def test_one_control_directory_is_not_that_of_several_units(ctl, unit, tmp_path):
    assert ctl("status", unit.path, tmp_path, "--control-dir", tmp_path).code == 2


def run(*arguments: object, **options) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ckpt_governor.cli.ctl", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **options)


def test_a_reader_that_has_enough_is_no_error(unit):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = run("conditions", unit.path, stdout=write_end)
    os.close(write_end)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


def test_a_terminal_that_has_no_such_character_stops_nothing(unit):
    put_copy(unit.path, "step-1-\u00fc-\u4e2d.safetensors", age_s=600)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    process = run("copies", unit.path, stdout=subprocess.PIPE, env=environment)
    out, _ = process.communicate(timeout=60)
    assert b"step-1-\\xfc-\\u4e2d.safetensors" in out
    assert process.returncode == 0


def on_terminal(*arguments: object, **environment: str) -> str:
    """What the tool shows on a terminal."""
    ours, theirs = pty.openpty()
    process = run(
        *arguments, stdout=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "120", **environment}
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    assert process.wait(timeout=60) == 0, process.communicate()
    process.communicate()
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_and_one_that_wants_none_gets_none(unit):
    pytest.importorskip("rich")
    put_copy(unit.path, "step-1[red].safetensors", age_s=600)
    shown = on_terminal("copies", unit.path)
    assert "\x1b[32msound" in shown
    assert "step-1[red].safetensors" in shown
    assert "\x1b[3" not in on_terminal("copies", unit.path, NO_COLOR="1")


class Terminal(io.StringIO):
    """A stdout that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_without_rich_a_terminal_gets_plain_text(monkeypatch):
    for name in ("rich", "rich.console", "rich.table", "rich.text"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("sys.stdout", shown := Terminal())
    print_table(("copy", "status"), [("a", "sound"), ("longer", "broken")])
    assert shown.getvalue() == "copy    status\na       sound\nlonger  broken\n"


def test_watching_shows_again_until_it_is_interrupted(ctl, unit, monkeypatch):
    naps = iter([None, KeyboardInterrupt])

    def nap(_: float) -> None:
        if (stop := next(naps)) is not None:
            raise stop

    monkeypatch.setattr("ckpt_governor.cli.ctl_status.time.sleep", nap)
    said = ctl("status", unit.path, "--watch", "--json")
    assert (said.code, len(said.out.splitlines())) == (0, 2)
