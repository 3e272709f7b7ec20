"""``ckptctl log``, ``receipt`` and ``replay``: the past as it was, and damage counted instead of believed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import datetime

import pytest
from ctl.conftest import put_state
from hypothesis import given
from hypothesis import strategies as st
from process.harness import wait_until

from ckpt_governor.cli.ctl_past import parse_receipt
from ckpt_governor.cli.entries import parse_entries
from ckpt_governor.records import RecordError

NOW = time.time()
RECEIPT = {
    "v": 1,
    "run_s": 14280.0,
    "started_at": NOW,
    "writes": [
        {
            "at": NOW,
            "reason": "risk.preempt",
            "write_s": 41.0,
            "name": "step-1200.pt",
            "status": "sound",
            "bytes": 9,
        },
        {"at": NOW, "reason": None, "write_s": None, "name": "step-2400.pt", "status": "broken", "bytes": 9},
    ],
    "refused": {"no-time": 1},
    "unheard": 0,
    "unserved": 0,
    "stalest_s": 1700.0,
    "with_us_s": 1800.0,
    "silent_death_costs_s": 1800.0,
    "end_sound": None,
    "newest_sound": "step-1200.pt",
    "compared_with_no_us": {"writes": 0, "write_s": 0.0, "silent_death_costs_s": None},
}


def entry(text: str = "a write needs 40s, 12s left", **changes) -> str:
    record = {
        "v": 1,
        "at": NOW,
        "unit": "/ckpt",
        "verdict": "skip",
        "reason": "no-time",
        "text": text,
        "request": None,
    }
    return json.dumps({**record, "facts": {"world": {}}, **changes})


def put_log(unit, *lines: str, name: str = "decisions.jsonl") -> None:
    unit.control.mkdir(exist_ok=True)
    (unit.control / name).write_text("".join(f"{line}\n" for line in lines))


def clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")


# ---- log -------------------------------------------------------------------------------------------------------


def test_a_past_decision_is_the_line_that_was_printed(ctl, unit):
    put_log(unit, entry())
    assert ctl("log", unit.path) == (
        0,
        f"{clock(NOW)}  skip  no-time       a write needs 40s, 12s left\n",
        "",
    )


def test_one_of_another_day_says_which(ctl, unit):
    put_log(unit, entry(at=NOW - 5 * 86400))
    day = datetime.fromtimestamp(NOW - 5 * 86400).astimezone().strftime("%Y-%m-%d")
    assert ctl("log", unit.path).out.startswith(f"{day} {clock(NOW - 5 * 86400)}  skip")


def test_what_was_rotated_away_comes_first(ctl, unit):
    put_log(unit, entry("one"), entry("two"), name="decisions.jsonl.1")
    put_log(unit, entry("three"))
    lines = ctl("log", unit.path).out.splitlines()
    assert [line.split()[-1] for line in lines] == ["one", "two", "three"]


@pytest.mark.parametrize(("count", "last"), [(0, []), (1, ["c"]), (2, ["b", "c"]), (9, ["a", "b", "c"])])
def test_only_the_last_are_shown_when_so_many_are_wanted(ctl, unit, count, last):
    put_log(unit, entry("a"), entry("b"), entry("c"))
    assert [line.split()[-1] for line in ctl("log", unit.path, "-n", count).out.splitlines()] == last


def test_json_lines_carry_the_facts_only_when_asked(ctl, unit):
    put_log(unit, entry(request=7))
    keys = ["v", "at", "unit", "verdict", "reason", "text", "request"]
    assert list(ctl("log", unit.path, "--json").record) == keys
    assert list(ctl("log", unit.path, "--json", "--facts").record) == [*keys, "facts"]
    assert ctl("log", unit.path, "--json", "--facts").record == json.loads(entry(request=7))


def test_an_infinity_in_what_somebody_wrote_becomes_no_broken_json(ctl, unit):
    put_log(unit, entry()[:-1] + ', "facts": {"a": [1e999, 1]}}')
    assert ctl("log", unit.path, "--json", "--facts").record["facts"] == {"a": [None, 1]}
    (unit.control / "receipt.json").write_text(json.dumps(RECEIPT)[:-1] + ', "more": 1e999}')
    assert ctl("receipt", unit.path, "--json").record == {**RECEIPT, "more": None}


DAMAGE = [
    pytest.param("{", id="cut"),
    pytest.param("[]", id="a list"),
    pytest.param("[" * 100_000, id="deep"),
    pytest.param(entry(verdict="maybe"), id="no verdict"),
    pytest.param(entry(at="now"), id="no time"),
    pytest.param(entry(at=1e300), id="no year"),
    pytest.param(entry(at=True), id="a flag for a time"),
    pytest.param(entry(reason=None), id="no reason"),
    pytest.param(entry(request="7"), id="no id"),
    pytest.param(entry(v=2), id="another version"),
    pytest.param('{"v":1,"at":NaN}', id="NaN"),
    pytest.param("\0\0\0", id="a hole of a crash"),
]


@pytest.mark.parametrize("line", DAMAGE)
def test_a_damaged_line_is_counted_and_the_others_are_shown(ctl, unit, line):
    put_log(unit, entry("one"), line, entry("two"))
    said = ctl("log", unit.path)
    assert [text.split()[-1] for text in said.out.splitlines()] == ["one", "two"]
    assert "1 damaged line is left out; the first: decisions.jsonl line 2" in said.err
    assert said.code == 0


@given(
    st.binary(max_size=200),
    st.sampled_from(list(json.loads(entry()))),
    st.text() | st.integers() | st.floats(),
)
def test_no_bytes_and_no_field_are_more_than_damage(data, field, value):
    for text in (data, entry(**{field: value}).encode()):
        entries, damaged = parse_entries(text, "file")
        assert [item.line().splitlines() for item in entries] == [[item.line()] for item in entries]
        assert len(entries) + len(damaged) <= text.count(b"\n") + 1


def test_a_sentence_cannot_reach_the_terminal(ctl, unit):
    put_log(unit, entry("\x1b[2J\nforged\u202e", reason="\x07\n"))
    said = ctl("log", unit.path)
    assert "\x1b" not in said.out
    assert "\x07" not in said.out
    assert len(said.out.splitlines()) == 1


def test_where_nothing_was_decided_it_says_so(ctl, unit):
    said = ctl("log", unit.path)
    assert (said.code, said.out, "nothing was decided here yet" in said.err) == (0, "", True)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(os.mkfifo, id="FIFO"),
        pytest.param(os.mkdir, id="folder"),
        pytest.param(lambda path: os.symlink("/dev/zero", path), id="link"),
    ],
)
@pytest.mark.parametrize(("command", "name"), [("log", "decisions.jsonl"), ("receipt", "receipt.json")])
def test_something_else_in_the_place_of_a_file_holds_nothing_up(ctl, unit, make, command, name):
    unit.control.mkdir()
    make(unit.control / name)
    said = ctl(command, unit.path)
    assert (said.code, "not a regular file" in said.err) == (1, True)


def test_following_goes_on_over_a_rotation(unit):
    put_log(unit, entry("one"))
    log = unit.control / "decisions.jsonl"
    out = unit.folder / "followed"
    with open(out, "wb") as file:
        command = [sys.executable, "-m", "ckpt_governor.cli.ctl", "log", str(unit.path), "--follow"]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    def said() -> list[str]:
        return [line.split()[-1] for line in out.read_text().splitlines()]

    try:
        wait_until(lambda: said() == ["one"], "the first was not shown")
        with open(log, "a") as text:
            text.write(entry("two") + "\n" + entry("three")[:20])
        wait_until(lambda: said() == ["one", "two"], "the second was not shown")
        with open(log, "a") as text:
            text.write(entry("three")[20:] + "\n")
        log.rename(unit.control / "decisions.jsonl.1")
        put_log(unit, entry("four"))
        wait_until(
            lambda: said() == ["one", "two", "three", "four"], f"not all were shown: {out.read_text()}"
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()


# ---- receipt ---------------------------------------------------------------------------------------------------


def test_the_receipt_is_the_text_that_was_printed(ctl, unit):
    unit.control.mkdir()
    (unit.control / "receipt.json").write_text(json.dumps(RECEIPT))
    assert ctl("receipt", unit.path) == (
        0,
        "run 3h 58m · 2 writes, 41s\n"
        f"  {clock(NOW)}  risk.preempt  41s  sound   step-1200.pt\n"
        f"  {clock(NOW)}  by itself     -    broken  step-2400.pt\n"
        "  refused   1 no-time\n"
        "  not sound step-2400.pt\n"
        "  a silent death would have cost at most 30m\n",
        "",
    )
    assert ctl("receipt", unit.path, "--json").record == RECEIPT


def test_a_real_run_prints_and_gives_the_same_receipt(ctl, unit, govern, train):
    governor = govern()
    train()
    assert ctl("save", unit.path, "--wait").code == 0
    unit.end_training()
    governor.ended()
    assert ctl("receipt", unit.path).out == governor.receipt()
    keys = {
        "v",
        "run_s",
        "writes",
        "refused",
        "unheard",
        "stalest_s",
        "silent_death_costs_s",
        "compared_with_no_us",
    }
    record = ctl("receipt", unit.path, "--json").record
    assert keys <= set(record)
    assert [write["reason"] for write in record["writes"]] == ["risk.request", "train.end"]


def test_a_receipt_cannot_reach_the_terminal(ctl, unit):
    unit.control.mkdir()
    write = {"at": NOW, "reason": "\x1b[2J", "name": "\n", "status": "sound"}
    (unit.control / "receipt.json").write_text(
        json.dumps({**RECEIPT, "writes": [write], "refused": {"\x07\n": 1}})
    )
    said = ctl("receipt", unit.path)
    assert (said.code, len(said.out.splitlines())) == (0, 4)
    assert said.out.replace("\n", "").isprintable()


def test_before_the_first_end_there_is_no_receipt(ctl, unit):
    said = ctl("receipt", unit.path)
    assert (said.code, "no run of a governor has ended" in said.err) == (1, True)


def test_while_a_run_goes_on_the_receipt_is_that_of_the_one_before(ctl, unit):
    put_state(unit)
    (unit.control / "receipt.json").write_text(json.dumps(RECEIPT))
    said = ctl("receipt", unit.path)
    assert (said.code, "the receipt of the one before" in said.err) == (0, True)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"run_s": "long"}, "run_s", id="a text for a number"),
        pytest.param({"run_s": -1}, "run_s", id="negative"),
        pytest.param({"stalest_s": True}, "stalest_s", id="a flag for a number"),
        pytest.param({"writes": {}}, "writes", id="no list"),
        pytest.param({"writes": [7]}, "writes[0]", id="no object"),
        pytest.param({"writes": [{"status": "fine"}]}, "writes[0].status", id="no status"),
        pytest.param({"refused": []}, "refused", id="no object for the refusals"),
        pytest.param({"refused": {"no-time": "often"}}, "refused.no-time", id="no count"),
        pytest.param({"end_sound": 1}, "end_sound", id="no flag"),
        pytest.param({"compared_with_no_us": {"writes": []}}, "compared_with_no_us.writes", id="within"),
    ],
)
def test_a_damaged_receipt_names_the_field(ctl, unit, changes, field):
    unit.control.mkdir()
    (unit.control / "receipt.json").write_text(json.dumps({**RECEIPT, **changes}))
    said = ctl("receipt", unit.path)
    assert (said.code, f"receipt.json: {field}: " in said.err) == (1, True), said.err


@given(
    st.dictionaries(
        st.sampled_from(list(RECEIPT)),
        st.none()
        | st.text()
        | st.integers()
        | st.floats()
        | st.lists(st.integers())
        | st.dictionaries(st.text(), st.floats()),
    )
)
def test_any_field_may_be_anything(changes):
    wrong = ""
    try:
        parse_receipt({**RECEIPT, **changes})
    except RecordError as error:
        wrong = error.field
    assert wrong == "" or re.split(r"[.\[]", wrong)[0] in changes


# ---- replay ----------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(ctl, unit, govern, train):
    """The decisions of a real run: a bad drop-in file and a request in one tick, a refusal, the end."""
    unit.glue.mkdir(parents=True)
    unit.drop("risk.thermal", "{")
    unit.drop("risk.request", "")
    governor = govern("--with-us", "1h")
    train()
    governor.said("unknown", "risk.thermal")
    wait_until(lambda: unit.ack("risk.request") == "served", "no copy came")
    ctl("notice", "risk.terminate", unit.path, "--in", "1s", "--wait")
    unit.end_training()
    governor.ended()
    return unit.control / "decisions.jsonl"


def test_recorded_inputs_decide_the_same_again(ctl, unit, recorded):
    said = ctl("replay", recorded)
    lines = said.out.splitlines()
    assert said.code == 0, said.out
    assert [line.split("  ", 1)[1].strip() for line in lines[:-1]] == ctl("log", unit.path).out.splitlines()
    assert {line.split()[0] for line in lines[:-1]} == {"same"}
    assert lines[-1] == f"{len(lines) - 1} decisions replayed · 0 differ"
    assert {"unknown", "save", "skip"} <= {line.split()[2] for line in lines[:-1]}


def test_what_is_decided_otherwise_is_marked_and_exits_1(ctl, unit, recorded):
    lines = [json.loads(line) for line in recorded.read_text().splitlines()]
    changed = next(line for line in lines if line["verdict"] == "save")
    changed["text"] = "for no reason at all"
    recorded.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = ctl("replay", recorded)
    assert said.code == 1
    (index,) = [n for n, line in enumerate(said.out.splitlines()) if line.startswith("differs")]
    assert said.out.splitlines()[index].endswith("for no reason at all")
    assert "now: save" in said.out.splitlines()[index + 1] + said.out.splitlines()[index + 2]
    record = ctl("replay", recorded, "--json").record
    assert list(record) == ["v", "decisions", "same", "differ", "damaged"]
    assert (record["same"], record["differ"], record["damaged"]) == (len(lines) - 1, 1, 0)
    (other,) = [item for item in record["decisions"] if not item["same"]]
    assert list(other) == ["at", "same", "recorded", "decided"]
    assert list(other["recorded"]) == ["verdict", "reason", "text", "request"]
    assert other["decided"]


def test_what_the_log_gives_can_be_replayed(ctl, unit, recorded, tmp_path):
    (tmp_path / "given").write_text(ctl("log", unit.path, "--json", "--facts").out)
    assert ctl("replay", tmp_path / "given").code == 0


@pytest.mark.parametrize(
    "text", ["", "{\n", "\0", entry() + "\n", entry(facts=None) + "\n", entry(facts=[1]) + "\n"]
)
def test_a_file_without_inputs_is_said_to_have_none(ctl, tmp_path, text):
    (tmp_path / "file").write_text(text)
    said = ctl("replay", tmp_path / "file")
    assert (said.code, "holds no recorded inputs" in said.err) == (1, True)
    assert said.out == ""


def test_a_damaged_line_among_good_ones_is_counted(ctl, recorded):
    with open(recorded, "a") as file:
        file.write("{\n" + entry() + "\n")
    said = ctl("replay", recorded)
    assert (said.code, "2 of " in said.err) == (0, True)


def test_a_file_that_is_not_there_is_wrong_usage(ctl, tmp_path):
    said = ctl("replay", tmp_path / "gone")
    assert (said.code, "name a decisions.jsonl" in said.err) == (2, True)
