"""``ckptctl init``: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckpt_governor.cli.ctl import main
from ckpt_governor.ledger import Ledger
from ckpt_governor.memory import encode_ledger
from ckpt_governor.records import parse_numbers

TABLE = """\
  none      nothing            0 writes              a silent death costs everything
  middle    one at the middle  1 write, about 1.1s   a silent death costs at most 2h
  periodic  every 30m          8 writes, about 8.8s  a silent death costs at most 30m
"""
TABLE_WITH_DEATHS = """\
  none      nothing            0 writes            a silent death costs everything      expected loss 24m
  middle    one at the middle  1 write, about 1m   a silent death costs at most 2h      expected loss 13m
  periodic  every 30m          8 writes, about 8m  a silent death costs at most 30m     expected loss 10m
  auto      every 48m 59s      4 writes, about 4m  a silent death costs at most 48m59s  expected loss 8m 48s  cheapest
"""


@pytest.fixture
def numbers_path(unit):
    """Where the numbers of the unit lie."""
    return unit.control / "numbers.json"


def test_the_table_is_that_of_the_documentation(ctl, unit):
    said = ctl("init", unit.path, "--duration", "4h", "--write-time", "1.1s", "--window", "none")
    assert said == (0, TABLE + "none: no file was written\n", "")


def test_none_writes_nothing_at_all(ctl, unit):
    ctl("init", unit.path, "--duration", "4h", "--window", "none")
    assert os.listdir(unit.path) == []


def test_with_deaths_the_cheapest_is_marked_and_auto_stands_beside(ctl, unit):
    said = ctl(
        "init", unit.path, "--duration", "4h", "--write-time", "60s", "--mtbf", "20h", "--window", "none"
    )
    assert said.out.startswith(TABLE_WITH_DEATHS)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(["--window", "middle"], {"with_us": "2h", "chosen": "middle"}, id="middle"),
        pytest.param(["--window", "periodic"], {"with_us": "30m", "chosen": "periodic"}, id="periodic"),
        pytest.param(
            ["--window", "periodic", "--every", "90s"], {"with_us": "1m30s", "chosen": "periodic"}, id="every"
        ),
        pytest.param(["--window", "auto"], {"with_us": "auto", "chosen": "auto"}, id="auto"),
        pytest.param(["--window", "45m"], {"with_us": "45m", "chosen": "45m"}, id="a duration"),
        pytest.param(["--window", "middle", "--no-us", "30m"], {"no_us": "30m"}, id="no_us"),
        pytest.param(
            ["--window", "none", "--no-us", "30m"], {"no_us": "30m", "with_us": "none"}, id="only no_us"
        ),
        pytest.param(
            ["--window", "auto", "--write-time", "40s", "--bytes", "14GB", "--mtbf", "8h"],
            {"write_time": "40s", "bytes": 14_000_000_000, "mtbf": "8h"},
            id="what is known of writes and deaths",
        ),
        pytest.param(["--window", "auto", "--write-time", "0.2"], {"write_time": 0.2}, id="a write of 0.2"),
        pytest.param(["--window", "auto", "--write-time", "0.2s"], {"write_time": 0.2}, id="a write of 0.2s"),
        pytest.param(
            ["--window", "auto", "--write-time", "1.1s"], {"write_time": "1.1s"}, id="a write of 1.1s"
        ),
    ],
)
def test_the_choice_is_written_in_the_shape_of_the_contract(ctl, unit, numbers_path, options, expected):
    assert ctl("init", unit.path, "--duration", "4h", *options).code == 0
    record = json.loads(numbers_path.read_text())
    assert list(record)[:5] == ["v", "no_us", "with_us", "duration", "chosen"]
    assert {"v": 1, "duration": "4h", **expected}.items() <= record.items()
    assert parse_numbers(numbers_path.read_bytes()).duration_s == 14400.0


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    duration=st.one_of(st.integers(2, 315_360_000), st.floats(2.0, 1e8).map(lambda value: round(value, 3))),
    window=st.sampled_from(["middle", "periodic", "auto"]),
)
def test_whatever_is_written_is_read_back_as_what_was_meant(tmp_path, duration, window):
    assert main(["init", str(tmp_path), "--duration", f"{duration}", "--window", window]) == 0
    numbers = parse_numbers((tmp_path / ".ckpt-governor" / "numbers.json").read_bytes())
    assert numbers.duration_s == pytest.approx(duration, abs=1e-5)
    meant = {"middle": duration / 2, "periodic": 1800.0, "auto": None}[window]
    assert numbers.with_us_s == (meant if meant is None else pytest.approx(meant, abs=1e-5))
    assert numbers.auto == (window == "auto")


def test_a_governor_takes_the_numbers_that_were_written(ctl, unit, govern):
    ctl("init", unit.path, "--duration", "4h", "--window", "middle", "--no-us", "30m")
    govern()
    assert (unit.state()["no_us_s"], unit.state()["with_us_s"]) == (1800.0, 7200.0)


def test_none_is_refused_while_a_file_says_otherwise(ctl, unit, numbers_path):
    ctl("init", unit.path, "--duration", "4h", "--window", "middle")
    before = numbers_path.read_bytes()
    said = ctl("init", unit.path, "--duration", "4h", "--window", "none")
    assert said.code == 2
    assert f"remove it with  rm {numbers_path}" in said.err
    assert numbers_path.read_bytes() == before


def test_what_is_replaced_is_named(ctl, unit):
    ctl("init", unit.path, "--duration", "4h", "--window", "middle", "--no-us", "30m")
    said = ctl("init", unit.path, "--duration", "4h", "--window", "1h")
    assert "no_us none, with_us 1h\n  before: no_us 30m, with_us 2h\n" in said.out


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(ctl, unit, numbers_path, tmp_path):
    numbers_path.parent.mkdir()
    (tmp_path / "other").write_text("precious")
    numbers_path.symlink_to(tmp_path / "other")
    assert ctl("init", unit.path, "--duration", "4h", "--window", "1h").code == 0
    assert (tmp_path / "other").read_text() == "precious"
    assert not numbers_path.is_symlink()


def test_an_unknown_cost_is_said_to_be_unknown_and_how_to_give_it(ctl, unit):
    said = ctl("init", unit.path, "--duration", "4h")
    assert "8 writes, cost not known" in said.out
    assert "--write-time" in said.out


def test_the_cost_is_the_one_that_was_learned(ctl, unit):
    unit.control.mkdir()
    ledger = evolve(Ledger(), write_samples_s=(2.0, 4.0, 3.0))
    (unit.control / "ledger.json").write_text(encode_ledger(ledger))
    said = ctl("init", unit.path, "--duration", "4h")
    assert "1 write, about 3.0s" in said.out
    assert "the median of 3 writes seen" in said.out


def test_a_damaged_ledger_costs_only_what_was_learned(ctl, unit):
    unit.control.mkdir()
    (unit.control / "ledger.json").write_text('{"v":1,"copies":7}')
    said = ctl("init", unit.path, "--duration", "4h", "--window", "1h")
    assert (said.code, "ledger.json" in said.err) == (0, True)


def test_a_probe_measures_the_volume_and_leaves_nothing_behind(ctl, unit):
    said = ctl("init", unit.path, "--duration", "4h", "--bytes", "200GB", "--probe", "--window", "none")
    assert "as the volume was measured" in said.out
    assert "cost not known" not in said.out
    assert os.listdir(unit.path) == []


def test_without_an_answer_and_a_terminal_it_says_which_flag_to_give(ctl, unit):
    said = ctl("init", unit.path, "--duration", "4h")
    assert said.code == 0
    assert "nothing was written; choose with --window" in said.out
    assert os.listdir(unit.path) == []


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        pytest.param("middle\n", "middle", id="a word"),
        pytest.param("sometimes\n45m\n", "45m", id="a wrong word first"),
        pytest.param("\n", None, id="nothing"),
        pytest.param("\x04", None, id="the end of the input"),
    ],
)
def test_on_a_terminal_it_asks(unit, numbers_path, typed, chosen):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ckpt_governor.cli.ctl", "init", str(unit.path), "--duration", "4h"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    os.write(ours, typed.encode())
    assert process.wait(timeout=60) == 0
    os.close(ours)
    assert (json.loads(numbers_path.read_text())["chosen"] if numbers_path.exists() else None) == chosen


@pytest.mark.parametrize(
    ("options", "field"),
    [
        pytest.param(["--duration", "0"], "--duration", id="no duration"),
        pytest.param(["--duration", "nan"], "--duration", id="no number"),
        pytest.param(["--duration", "1"], "--duration", id="no middle"),
        pytest.param(["--duration", "4h", "--window", "sometimes"], "--window", id="window"),
        pytest.param(["--duration", "4h", "--every", "-1s"], "--every", id="every"),
        pytest.param(["--duration", "4h", "--no-us", "auto"], "--no-us", id="no_us auto"),
        pytest.param(["--duration", "4h", "--write-time", "0"], "--write-time", id="a write of no time"),
        pytest.param(["--duration", "4h", "--bytes", "much"], "--bytes", id="bytes"),
        pytest.param(["--duration", "4h", "--probe"], "--bytes", id="a probe without a size"),
        pytest.param([], "--duration", id="no duration at all"),
    ],
)
def test_what_is_wrong_is_named_and_writes_nothing(ctl, unit, options, field):
    said = ctl("init", unit.path, *options)
    assert (said.code, field in said.err) == (2, True)
    assert os.listdir(unit.path) == []


def test_a_window_shorter_than_a_write_is_said_to_be_so(ctl, unit):
    said = ctl("init", unit.path, "--duration", "4h", "--write-time", "5m", "--window", "2m")
    assert "a window of 2m is shorter than a write of 5m" in said.err


def test_a_directory_that_is_not_there_is_not_made(ctl, tmp_path):
    said = ctl("init", tmp_path / "no", "--duration", "4h", "--window", "1h")
    assert (said.code, "is not a directory" in said.err) == (2, True)
    assert not (tmp_path / "no").exists()
