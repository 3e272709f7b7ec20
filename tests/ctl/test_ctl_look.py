"""``ckptctl status``, ``conditions`` and ``copies``: what a look shows, and that it leaves no trace."""

from __future__ import annotations

import json
import os
import time

import pytest
from ctl.conftest import put_copy, put_state
from process.harness import wait_until

from ckpt_governor.conditions import Condition

OLD_S = 600.0


def trace(folder) -> dict[str, tuple[int, ...]]:
    """Everything in a folder by what only a change could alter; reading changes access times alone."""
    found: dict[str, tuple[int, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        seen = path.lstat()
        found[str(path)] = (seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    return found


# ---- copies ----------------------------------------------------------------------------------------------------


def test_every_copy_is_shown_as_the_interface_says(ctl, unit):
    put_copy(unit.path, "step-100.safetensors", age_s=700)
    put_copy(unit.path, "step-200.safetensors", age_s=650)
    half = put_copy(unit.path, "step-300.safetensors", keep=2000, age_s=OLD_S)
    (unit.path / "latest").symlink_to("step-999.safetensors")
    put_copy(unit.path, "step-400.safetensors.tmp", keep=300, age_s=OLD_S)
    said = ctl("copies", unit.path, "--json")
    record = said.record
    assert list(record) == ["v", "unit", "copies", "leftovers", "leftover_bytes", "dangling", "newest_sound"]
    assert record["unit"] == str(unit.path)
    assert [list(copy) for copy in record["copies"]] == [
        ["name", "format", "step", "bytes", "status", "why", "seen_at", "captured_at"]
    ] * 3
    assert [(copy["name"], copy["step"], copy["status"]) for copy in record["copies"]] == [
        ("step-100.safetensors", 100, "sound"),
        ("step-200.safetensors", 200, "sound"),
        ("step-300.safetensors", 300, "broken"),
    ]
    broken = record["copies"][-1]
    assert (broken["format"], broken["bytes"], "missing" in broken["why"]) == ("safetensors", 2000, True)
    assert broken["captured_at"] == pytest.approx(half.stat().st_mtime, abs=1.0)
    assert record["copies"][0]["why"] is None
    assert record["leftovers"] == [{"name": "step-400.safetensors.tmp", "bytes": 300}]
    assert record["dangling"] == [{"name": "latest", "to": "step-999.safetensors"}]
    assert record["newest_sound"] == "step-200.safetensors"
    assert said.code == 1


def test_the_text_shows_the_same(ctl, unit):
    put_copy(unit.path, "step-200.safetensors", age_s=7200)
    put_copy(unit.path, "step-300.safetensors", keep=2000, age_s=OLD_S)
    (unit.path / "latest").symlink_to("step-999.safetensors")
    said = ctl("copies", unit.path)
    lines = said.out.splitlines()
    assert lines[0].split() == ["copy", "format", "step", "size", "age", "status", "why"]
    assert lines[1].split() == ["step-200.safetensors", "safetensors", "200", "4.1", "kB", "2h", "sound"]
    assert lines[2].split()[:7] == [
        "step-300.safetensors",
        "safetensors",
        "300",
        "2.0",
        "kB",
        "10m",
        "broken",
    ]
    assert lines[3] == "dangling  latest -> step-999.safetensors"
    assert said.code == 1


@pytest.mark.parametrize(
    ("age_s", "status", "code"),
    [
        pytest.param(0.0, "writing", 0, id="fresh"),
        pytest.param(60.0, "writing", 0, id="quiet for less than a write may be"),
        pytest.param(OLD_S, "broken", 1, id="quiet for long"),
    ],
)
def test_half_a_copy_that_nobody_has_followed_is_judged_by_how_long_it_was_quiet(
    ctl, unit, age_s, status, code
):
    put_copy(unit.path, "step-1.safetensors", keep=2000, age_s=age_s)
    said = ctl("copies", unit.path, "--json")
    assert ([copy["status"] for copy in said.record["copies"]], said.code) == ([status], code)


@pytest.mark.parametrize(
    ("age_s", "status"),
    [pytest.param(0.0, "writing", id="fresh"), pytest.param(OLD_S, "sound", id="quiet for long")],
)
def test_a_copy_that_has_no_end_to_check_is_judged_by_how_long_it_was_quiet(ctl, unit, age_s, status):
    path = unit.path / "model-5.bin"
    path.write_bytes(b"weights" * 500)
    then = time.time() - age_s
    os.utime(path, (then, then))
    assert [copy["status"] for copy in ctl("copies", unit.path, "--json").record["copies"]] == [status]


@pytest.mark.parametrize(
    ("settle", "alive", "status"),
    [
        pytest.param(
            {"broken_s": 5.0, "sound_s": 2.0}, True, "broken", id="a living governor waits for less"
        ),
        pytest.param(
            {"broken_s": 900.0, "sound_s": 2.0}, True, "writing", id="a living governor waits for more"
        ),
        pytest.param({"broken_s": 5.0, "sound_s": 2.0}, False, "writing", id="the governor has stopped"),
        pytest.param({"broken_s": -5.0, "sound_s": "2"}, True, "writing", id="nonsense"),
        pytest.param([5.0], True, "writing", id="no object"),
        pytest.param(None, True, "writing", id="a governor that does not say it"),
    ],
)
def test_a_living_governor_says_how_long_a_copy_must_be_quiet(ctl, unit, settle, alive, status):
    put_copy(unit.path, "step-1.safetensors", keep=2000, age_s=60.0)
    put_state(unit, settle=settle, governor={"id": "host-1-1", "version": "0.1.0", "alive": alive})
    assert [copy["status"] for copy in ctl("copies", unit.path, "--json").record["copies"]] == [status]


def test_the_settle_time_of_a_running_governor_is_in_its_state(ctl, unit, govern):
    govern("--settle", "2s")
    assert unit.state()["settle"] == {"broken_s": 2.0, "sound_s": 2.0}
    put_copy(unit.path, "step-1.safetensors", keep=2000, age_s=60.0)
    assert [copy["status"] for copy in ctl("copies", unit.path, "--json").record["copies"]] == ["broken"]


def test_an_old_time_on_a_copy_that_still_grows_deceives_nobody(ctl, unit, monkeypatch):
    path = put_copy(unit.path, "step-1.safetensors", keep=2000, age_s=OLD_S)

    def grow_and_sleep(seconds: float) -> None:
        with open(path, "ab") as file:
            file.write(bytes(100))
        os.utime(path, (0, 0))

    monkeypatch.setattr("ckpt_governor.cli.look.time.sleep", grow_and_sleep)
    assert [copy["status"] for copy in ctl("copies", unit.path, "--json").record["copies"]] == ["writing"]


def test_a_broken_copy_that_is_not_the_newest_is_no_bad_answer(ctl, unit):
    put_copy(unit.path, "step-1.safetensors", keep=2000, age_s=OLD_S)
    put_copy(unit.path, "step-2.safetensors", age_s=OLD_S / 2)
    assert ctl("copies", unit.path).code == 0


def test_an_empty_directory_has_no_copies(ctl, unit):
    assert ctl("copies", unit.path) == (0, "no copies\n", "")
    assert ctl("copies", unit.path, "--json").record["copies"] == []


def test_when_there_are_very_many_the_newest_are_shown_and_the_others_counted(ctl, unit):
    for step in range(300):
        put_copy(unit.path, f"step-{step}.safetensors", count=8, age_s=OLD_S)
    said = ctl("copies", unit.path, "--json")
    steps = [copy["step"] for copy in said.record["copies"]]
    assert steps == list(range(300 - len(steps), 300))
    assert f"only the newest {len(steps)} are shown; {300 - len(steps)} older ones are there, too" in said.err


def test_a_name_cannot_reach_the_terminal(ctl, unit):
    put_copy(unit.path, "step-1\x1b[31m\u202e\n.safetensors", age_s=OLD_S)
    said = ctl("copies", unit.path)
    assert "step-1\\x1b[31m\\u202e\\x0a.safetensors" in said.out
    assert "\x1b" not in said.out


def test_a_name_that_is_no_text_is_shown_and_given_as_json(ctl, unit):
    put_copy(unit.path, os.fsdecode(b"step-1-\xff.safetensors"), age_s=OLD_S)
    assert "step-1-\\xff.safetensors" in ctl("copies", unit.path).out
    assert ctl("copies", unit.path, "--json").record["newest_sound"] == "step-1-\udcff.safetensors"


def test_what_the_governor_has_followed_is_known(ctl, unit, govern, train):
    govern()
    train()
    assert ctl("save", unit.path, "--wait").code == 0
    (copy,) = ctl("copies", unit.path, "--json").record["copies"]
    assert copy["status"] == "sound"
    asked_at = unit.decisions("save")[0]["at"]
    assert asked_at <= copy["captured_at"] <= copy["seen_at"] + 0.01 <= time.time()


# ---- conditions ------------------------------------------------------------------------------------------------


def values(said) -> dict[str, int | None]:
    return {item["name"]: item["value"] for item in said.record["conditions"]}


def test_all_14_are_shown_as_the_interface_says(ctl, unit):
    said = ctl("conditions", unit.path, "--json")
    assert said.code == 0
    assert list(said.record) == ["v", "conditions"]
    assert [item["name"] for item in said.record["conditions"]] == [
        condition.value for condition in Condition
    ]
    for item in said.record["conditions"]:
        assert list(item) == ["name", "value", "why", "source", "age_s", "deadline"]
        assert item["value"] in (0, 1, None)
        assert item["why"]
        assert item["age_s"] >= 0


def test_what_nothing_tells_is_unknown_and_not_zero(ctl, unit):
    said = values(ctl("conditions", unit.path, "--json"))
    assert (said["risk.thermal"], said["risk.space"], said["risk.request"]) == (None, None, 0)


@pytest.mark.parametrize(
    ("name", "text", "condition"),
    [
        pytest.param("risk.preempt", "", "risk.preempt", id="touched"),
        pytest.param("risk.maintenance.hook.json", '{"in": 3600}', "risk.maintenance", id="dated"),
        pytest.param("risk.thermal.a.b", "{}", "risk.thermal", id="a level"),
    ],
)
def test_a_file_that_was_dropped_just_now_shows(ctl, unit, name, text, condition):
    unit.glue.mkdir(parents=True)
    unit.drop(name, text)
    assert values(ctl("conditions", unit.path, "--json"))[condition] == 1


def test_the_deadline_is_given_as_a_date_and_what_is_left_as_text(ctl, unit):
    unit.glue.mkdir(parents=True)
    unit.drop("risk.preempt.json", json.dumps({"deadline": time.time() + 7200, "text": "the node drains"}))
    item = ctl("conditions", unit.path, "--json").record["conditions"][0]
    assert item["deadline"] == pytest.approx(time.time() + 7200, abs=60)
    assert item["why"] == "the node drains"
    assert "the node drains, 2h left" in ctl("conditions", unit.path).out


@pytest.mark.parametrize(
    "text",
    [pytest.param("{", id="cut"), pytest.param("[" * 9000, id="deep"), pytest.param("\0\xff", id="binary")],
)
def test_a_damaged_file_makes_its_condition_unknown_and_says_why(ctl, unit, text):
    unit.glue.mkdir(parents=True)
    unit.drop("risk.preempt", text)
    item = ctl("conditions", unit.path, "--json").record["conditions"][0]
    assert item["value"] is None
    assert "glue/risk.preempt" in item["why"]


def test_a_fifo_in_the_glue_holds_nothing_up(ctl, unit):
    unit.glue.mkdir(parents=True)
    os.mkfifo(unit.glue / "risk.preempt")
    item = ctl("conditions", unit.path, "--json").record["conditions"][0]
    assert (item["value"], "FIFO" in item["why"]) == (None, True)


def test_what_only_the_governor_can_tell_is_told_in_its_name(ctl, unit, govern):
    govern("--duration", "2s")
    wait_until(lambda: unit.state()["conditions"]["risk.walltime"] == 1, "the end was never near")
    item = ctl("conditions", unit.path, "--json").record["conditions"][2]
    assert (item["name"], item["value"]) == ("risk.walltime", 1)


def test_what_the_governor_alone_reads_comes_from_its_state(ctl, unit):
    put_state(unit, conditions={"risk.thermal": 1, "risk.memory": 0, "risk.evict": "yes"})
    said = values(ctl("conditions", unit.path, "--json"))
    assert (said["risk.thermal"], said["risk.memory"], said["risk.evict"]) == (1, 0, None)


def test_a_dead_governors_word_counts_no_longer(ctl, unit):
    put_state(unit, conditions={"risk.thermal": 1}, written_at=time.time() - 3600)
    os.utime(unit.control / "state.json", (0, 0))
    assert values(ctl("conditions", unit.path, "--json"))["risk.thermal"] is None


# ---- status ----------------------------------------------------------------------------------------------------


def test_a_unit_is_shown_as_the_interface_says(ctl, unit, govern, train):
    govern("--no-us", "30m", "--with-us", "2h")
    train()
    assert ctl("save", unit.path, "--wait").code == 0
    said = ctl("status", unit.path, "--json")
    assert list(said.record) == ["v", "units"]
    (record,) = said.record["units"]
    keys = ["unit", "owner", "blind", "newest_sound", "unsaved_s", "request", "no_us_s", "with_us_s"]
    assert list(record) == [*keys, "leftover_bytes"]
    assert record["unit"] == str(unit.path)
    assert record["owner"] == unit.state()["governor"]["id"]
    assert record["newest_sound"] == unit.copies()[0]
    assert 0 < record["unsaved_s"] < 60
    assert (record["blind"], record["no_us_s"], record["with_us_s"]) == (None, 1800.0, 7200.0)
    assert said.code == 0


def test_an_open_request_is_shown(ctl, unit, govern):
    govern()
    ctl("save", unit.path)
    wait_until(lambda: unit.state()["request"], "nothing was asked for")
    request = ctl("status", unit.path, "--json").record["units"][0]["request"]
    assert list(request) == ["id", "kind", "reason", "at", "deadline"]
    assert (request["kind"], request["reason"], request["deadline"]) == ("save", "risk.request", None)
    text = ctl("status", unit.path).out
    assert "request       save risk.request, asked" in text
    assert "risk.request  somebody asked for one write" in text


def test_a_unit_without_a_governor_exits_3_and_shows_what_is_there(ctl, unit):
    put_copy(unit.path, "step-5.safetensors", age_s=7200)
    said = ctl("status", unit.path)
    assert said.code == 3
    assert "governor      none has been here" in said.out
    assert "newest sound  step-5.safetensors, 2h old" in said.out
    (record,) = ctl("status", unit.path, "--json").record["units"]
    assert (record["owner"], record["unsaved_s"]) == (None, pytest.approx(7200, abs=60))


@pytest.mark.parametrize(
    "request_",
    [7, {}, {"id": "7"}, {"id": 7, "at": [1]}, {"id": 7, "at": 10**400, "deadline": True, "kind": "\x1b[2J"}],
)
def test_no_request_can_stop_the_look_or_reach_the_terminal(ctl, unit, request_):
    put_state(unit, request=request_, no_us_s=10**400, with_us_s="often")
    record = ctl("status", unit.path, "--json").record["units"][0]
    assert (record["no_us_s"], record["with_us_s"]) == (None, None)
    assert "\x1b" not in ctl("status", unit.path).out


def test_a_killed_governor_is_named_as_gone(ctl, unit):
    put_state(unit, written_at=time.time() - 3600, request={"id": 5, "kind": "save", "reason": "window"})
    os.utime(unit.control / "state.json", (time.time() - 3600,) * 2)
    said = ctl("status", unit.path)
    assert (said.code, "none alive; host-1-1 gave its last beat 1h ago" in said.out) == (3, True)
    assert "request       none" in said.out


def test_with_neither_a_copy_nor_a_governor_nothing_is_known_of_unsaved_work(ctl, unit):
    assert ctl("status", unit.path, "--json").record["units"][0]["unsaved_s"] is None
    assert "unsaved       not known" in ctl("status", unit.path).out


def test_after_training_has_ended_nothing_is_unsaved(ctl, unit, govern, train):
    governor = govern()
    train()
    unit.end_training()
    assert governor.ended() == 0
    assert ctl("status", unit.path, "--json").record["units"][0]["unsaved_s"] == 0


def test_several_units_are_shown_each_for_itself(ctl, unit, tmp_path):
    (tmp_path / "two").mkdir()
    put_state(unit)
    said = ctl("status", unit.path, tmp_path / "two", tmp_path / "gone", "--json")
    assert [(item["owner"], item["blind"]) for item in said.record["units"]] == [
        ("host-1-1", None),
        (None, None),
        (None, "no such file or directory"),
    ]
    assert said.code == 3
    assert len(ctl("status", unit.path, tmp_path / "two").out.split("\n\n")) == 2


@pytest.mark.parametrize("name", ["state.json", "ledger.json", "numbers.json"])
@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"v":1}', '{"v":9}', '{"v":1,"beat":1e999}', '{"v":1,"no_us":0}']
)
def test_damage_in_the_governors_own_files_is_told_and_stops_no_look(ctl, unit, name, text):
    put_state(unit)
    (unit.control / name).write_text(text)
    for command in ("status", "conditions", "copies"):
        said = ctl(command, unit.path, "--json")
        assert said.code in (0, 3)
        assert said.record["v"] == 1
        assert "Traceback" not in said.err


def test_the_field_that_is_wrong_is_named(ctl, unit):
    unit.control.mkdir()
    (unit.control / "numbers.json").write_text('{"v":1,"with_us":"often"}')
    assert "numbers.json: with_us: 'often' is not a duration" in ctl("status", unit.path).err


# ---- every look ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "conditions", "copies"])
def test_a_look_leaves_no_trace(ctl, unit, command):
    put_copy(unit.path, "step-1.safetensors", keep=2000, age_s=OLD_S)
    put_state(unit)
    unit.drop("risk.preempt")
    before = trace(unit.path)
    ctl(command, unit.path)
    assert trace(unit.path) == before


@pytest.mark.parametrize("command", ["status", "conditions", "copies"])
def test_a_look_at_a_directory_without_governor_makes_none_of_its_files(ctl, unit, command):
    ctl(command, unit.path)
    assert os.listdir(unit.path) == []


@pytest.mark.parametrize("command", ["status", "conditions", "copies"])
def test_a_blind_unit_exits_3_with_the_reason(ctl, unit, command):
    unit.control.mkdir()
    unit.glue.write_text("a file where a folder belongs")
    said = ctl(command, unit.path)
    assert (said.code, "Not a directory" in said.out + said.err) == (3, True)


def test_a_look_disturbs_no_governor(ctl, unit, govern):
    governor = govern()
    for command in ("status", "conditions", "copies") * 3:
        assert ctl(command, unit.path).code == 0
    assert governor.running()
    assert governor.lines() == []
