"""``ckptctl notice``, ``save`` and ``end``: what is dropped, what is waited for, and what is taken back."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest
from ctl.conftest import put_state
from process.harness import wait_until

from ckpt_governor.observe.host import host_name
from ckpt_governor.records import parse_glue

NAME = re.compile(r"risk\.[a-z]+\.ctl-.+-\d+-\d+\.json")


def dropped(unit) -> list[str]:
    """What the tool has left in the glue."""
    return sorted(name for name in os.listdir(unit.glue) if NAME.fullmatch(name))


@pytest.fixture
def answered(unit):
    """Somebody answers each drop-in file with a word, as a governor does, and keeps the beat."""
    stop = threading.Event()
    threads = []

    def answer(word: str, *, beat: bool = True) -> None:
        put_state(unit, beat_every_s=0.1)

        def work() -> None:
            number = 8
            while not stop.wait(0.05):
                if beat:
                    put_state(unit, beat=number, beat_every_s=0.1)
                    number += 1
                for name in dropped(unit) if word else ():
                    (unit.acks / name).write_text(word + "\n")

        threads.append(threading.Thread(target=work))
        threads[-1].start()

    yield answer
    stop.set()
    for thread in threads:
        thread.join()


# ---- what is dropped -------------------------------------------------------------------------------------------


def test_a_notice_is_a_file_that_the_governor_can_read(ctl, unit):
    put_state(unit)
    said = ctl(
        "notice",
        "risk.maintenance",
        unit.path,
        "--in",
        "30m",
        "--id",
        "e7",
        "--text",
        "a reboot",
        "--source",
        "me",
    )
    (name,) = dropped(unit)
    assert name.startswith(f"risk.maintenance.ctl-{host_name()}-{os.getpid()}-")
    text = (unit.glue / name).read_text()
    assert json.loads(text) == {"v": 1, "source": "me", "id": "e7", "text": "a reboot", "in": 1800.0}
    assert parse_glue(text, name).in_s == 1800.0
    assert said == (0, f"dropped  risk.maintenance  {unit.glue / name}\n", "")
    assert [name for name in os.listdir(unit.glue) if name.endswith(".tmp")] == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param([], {}, id="bare"),
        pytest.param(["--in", "30"], {"in": 30.0}, id="seconds"),
        pytest.param(["--in", "0.5"], {"in": 0.5}, id="less than a second"),
        pytest.param(["--deadline", "1764424983"], {"deadline": 1764424983.0}, id="unix time"),
        pytest.param(
            ["--deadline", "2026-01-01T00:00:00Z"], {"deadline": "2026-01-01T00:00:00Z"}, id="a date"
        ),
    ],
)
def test_the_deadline_may_be_given_in_each_form(ctl, unit, options, expected):
    put_state(unit)
    assert ctl("notice", "preempt", unit.path, *options).code == 0
    (name,) = dropped(unit)
    assert json.loads((unit.glue / name).read_text()) == {"v": 1, "source": "ckptctl", **expected}


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        pytest.param(["risk.meteor"], "one of risk.preempt, risk.terminate", id="no condition"),
        pytest.param(["preempt", "--in", "soon"], "--in", id="no duration"),
        pytest.param(["preempt", "--in", "-5"], "--in", id="negative"),
        pytest.param(
            ["preempt", "--deadline", "tomorrow"], "--deadline: 'tomorrow' is neither Unix", id="no date"
        ),
        pytest.param(["preempt", "--deadline", "nan"], "--deadline", id="no number"),
        pytest.param(["preempt", "--deadline", "1e300"], "--deadline", id="no year"),
        pytest.param(["preempt", "--in", "5s", "--deadline", "5"], "not allowed with", id="both"),
        pytest.param(["preempt", "--wait", "--cancel"], "not allowed with", id="wait for a withdrawal"),
        pytest.param([], "CONDITION", id="no condition at all"),
    ],
)
def test_what_is_wrong_is_named_and_drops_nothing(ctl, unit, options, wrong):
    put_state(unit)
    said = ctl("notice", *options, "--control-dir", unit.path)
    assert (said.code, wrong in said.err) == (2, True), said.err
    assert os.listdir(unit.glue) == []


def test_the_directory_may_stand_behind_the_options(ctl, unit):
    put_state(unit)
    assert ctl("notice", "risk.preempt", "--in", "30s", unit.path).code == 0
    assert len(dropped(unit)) == 1


def test_a_drop_that_nobody_may_read_soon_says_so(ctl, unit):
    put_state(unit, governor={"id": "a", "alive": False})
    said = ctl("save", unit.path)
    assert (said.code, "no governor seems to be alive" in said.err) == (0, True)
    assert len(dropped(unit)) == 1


def test_the_end_is_marked_by_a_new_file_each_time(ctl, unit):
    put_state(unit)
    marks = []
    for _ in range(2):
        assert ctl("end", unit.path) == (0, "marked  train.end\n", "")
        found = (unit.glue / "ending").stat()
        marks.append((found.st_ino, found.st_mtime_ns))
    assert marks[0][0] != marks[1][0]
    assert marks[0][1] < marks[1][1]
    assert os.listdir(unit.glue) == ["ending"]


# ---- a real governor -------------------------------------------------------------------------------------------


def test_save_waits_for_the_copy_and_takes_its_file_back(ctl, unit, govern, train):
    govern()
    train()
    said = ctl("save", unit.path, "--wait")
    assert said.code == 0
    assert re.fullmatch(r"served  risk\.request  after \d+\.\ds: a sound copy was written\n", said.out)
    assert len(unit.whole()) == 1
    assert dropped(unit) == []


def test_a_hooks_notice_is_served_and_stays(ctl, unit, govern, train):
    governor = govern()
    train()
    said = ctl("notice", "risk.terminate", unit.path, "--in", "20s", "--wait")
    assert (said.code, said.out[:23]) == (0, "served  risk.terminate ")
    assert len(dropped(unit)) == len(unit.whole()) == len(governor.lines("save", "risk.terminate")) == 1
    (name,) = dropped(unit)
    assert unit.ack(name) == "served"


def test_a_hook_is_released_at_once_when_no_write_fits(ctl, unit, govern):
    unit.glue.mkdir(parents=True)
    unit.drop("job.json", '{"v":1,"write_s":40}')
    governor = govern()
    said = ctl("notice", "risk.terminate", unit.path, "--in", "20s", "--wait")
    assert (said.code, said.out[:22]) == (1, "unfit  risk.terminate ")
    governor.said("skip", "no-time")  # an answer is on disk before its line is printed
    assert len(governor.lines("skip", "no-time")) == 1


def test_a_deadline_that_passes_without_a_write_is_missed(ctl, unit, govern):
    govern()
    said = ctl("notice", "risk.terminate", unit.path, "--in", "1s", "--wait")
    assert (said.code, said.out[:23]) == (1, "missed  risk.terminate ")


def test_the_end_is_written_once(ctl, unit, govern, train):
    governor = govern("--stay")
    train()
    ctl("end", unit.path)
    governor.said("save", "train.end")
    wait_until(unit.whole, "no copy came")
    wait_until(lambda: unit.state()["request"] is None, "the request stays")
    assert len(unit.whole()) == 1


def test_a_killed_governor_is_told_from_a_slow_one_by_its_beat(ctl, unit, govern):
    governor = govern()
    governor.send(signal.SIGKILL)
    governor.ended()
    state = unit.state()
    put_state(unit, **{**state, "beat_every_s": 0.1})
    said = ctl("save", unit.path, "--wait")
    assert (said.code, "its beat has not moved" in said.err) == (3, True)


# ---- answers of every sort -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "code"), [pytest.param("served", 0), pytest.param("missed", 1), pytest.param("unfit", 1)]
)
@pytest.mark.parametrize(
    ("condition", "stays"),
    [
        pytest.param("risk.terminate", True),
        pytest.param("risk.preempt", True),
        pytest.param("risk.maintenance", True),
        pytest.param("risk.walltime", True),
        pytest.param("risk.request", False),
        pytest.param("risk.thermal", False),
    ],
)
def test_after_the_answer_only_what_is_still_true_stays(ctl, unit, answered, word, code, condition, stays):
    answered(word)
    said = ctl("notice", condition, unit.path, "--wait")
    assert (said.code, said.out.split()[:2]) == (code, [word, condition])
    assert len(dropped(unit)) == int(stays)


def test_an_interrupted_wait_says_how_to_withdraw(ctl, unit, monkeypatch):
    put_state(unit)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ckpt_governor.cli.waiting.time.sleep", interrupt)
    said = ctl("notice", "risk.thermal", unit.path, "--wait")
    assert (said.code, "ckptctl notice risk.thermal --cancel" in said.err) == (130, True)
    assert len(dropped(unit)) == 1


def test_an_answer_that_no_governor_gives_is_none(ctl, unit, answered, monkeypatch):
    monkeypatch.setattr("ckpt_governor.cli.ctl_tell.LATE_S", 0.3)
    answered("perhaps")
    said = ctl("notice", "risk.request", unit.path, "--in", "0.1", "--wait")
    assert (said.code, "no answer came" in said.out) == (1, True)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"governor": {"id": "a", "alive": False}}, id="stopped"),
        pytest.param({"beat_every_s": 0.1}, id="its beat does not move"),
        pytest.param({"v": 2}, id="a state that cannot be read"),
    ],
)
def test_without_a_living_governor_waiting_ends_with_3_and_what_to_do(ctl, unit, changes):
    put_state(unit, **changes)
    said = ctl("notice", "risk.terminate", unit.path, "--wait")
    assert said.code == 3
    assert "no governor is alive" in said.err
    assert f"ckpt-governor run --dir {unit.path}" in said.err
    assert len(dropped(unit)) == 1


@pytest.mark.parametrize(
    "command", [["save"], ["end"], ["notice", "risk.preempt"], ["notice", "risk.preempt", "--cancel"]]
)
def test_where_no_governor_ever_was_nothing_is_made(ctl, unit, command):
    said = ctl(*command, "--control-dir", unit.path)
    assert (said.code, "no governor is alive" in said.err) == (3, True)
    assert os.listdir(unit.path) == []


@pytest.mark.parametrize("command", [["save"], ["end"], ["notice", "risk.preempt"]])
def test_a_directory_that_is_not_there_is_wrong_usage(ctl, tmp_path, command):
    assert ctl(*command, tmp_path / "gone").code == 2


def test_a_missing_glue_folder_is_made(ctl, unit):
    unit.control.mkdir()
    assert ctl("save", unit.path).code == 0
    assert len(dropped(unit)) == 1


def test_a_link_in_the_place_of_the_glue_is_not_followed(ctl, unit, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    unit.control.mkdir()
    unit.glue.symlink_to(tmp_path / "elsewhere")
    said = ctl("save", unit.path)
    assert (said.code, "symbolic link" in said.err) == (3, True)
    assert os.listdir(tmp_path / "elsewhere") == []


# ---- its own leftovers -----------------------------------------------------------------------------------------

GONE_PID = 2**22 + 1  # above the highest number that a kernel gives


def leave(unit, condition: str, *, host: str = "", pid: int = GONE_PID, ack: bool = True) -> str:
    name = f"{condition}.ctl-{host or host_name()}-{pid}-1764424863000.json"
    unit.drop(name, '{"v":1,"id":"e7"}')
    if ack:
        (unit.acks / name).write_text("served\n")
    return name


@pytest.mark.parametrize(
    ("condition", "more", "tidied"),
    [
        pytest.param("risk.request", {}, True, id="answered"),
        pytest.param("risk.request", {"ack": False}, False, id="not answered yet"),
        pytest.param("risk.request", {"host": "another-host"}, False, id="another host's"),
        pytest.param(
            "risk.request",
            {"host": f"{host_name()}-2"},
            False,
            id="a host's whose name begins like this one's",
        ),
        pytest.param("risk.request", {"pid": os.getpid()}, False, id="its process may still read the answer"),
        pytest.param("risk.preempt", {}, True, id="the same condition"),
        pytest.param("risk.maintenance", {}, False, id="another one that is still true"),
    ],
)
def test_the_next_notice_tidies_what_is_over(ctl, unit, condition, more, tidied):
    put_state(unit)
    left = leave(unit, condition, **more)
    ctl("notice", "risk.preempt", unit.path)
    assert (left not in dropped(unit)) is tidied


def test_a_file_of_somebody_else_is_never_removed(ctl, unit):
    put_state(unit)
    unit.drop("risk.preempt.hook.json", '{"v":1,"id":"e7"}')
    (unit.acks / "risk.preempt.hook.json").write_text("served\n")
    ctl("notice", "risk.preempt", unit.path)
    said = ctl("notice", "risk.preempt", unit.path, "--id", "e7", "--cancel")
    assert (said.code, "withdrawn by removing it" in said.err) == (1, True)
    assert (unit.glue / "risk.preempt.hook.json").exists()


@pytest.mark.parametrize(
    ("options", "count"),
    [
        pytest.param([], 2, id="all of the condition"),
        pytest.param(["--id", "e7"], 1, id="the one with this id"),
    ],
)
def test_a_withdrawal_takes_back_what_the_tool_announced(ctl, unit, options, count):
    put_state(unit)
    leave(unit, "risk.preempt", host="another-host", ack=False)
    kept = leave(unit, "risk.maintenance", ack=False)
    ctl("notice", "risk.preempt", unit.path)
    said = ctl("notice", "risk.preempt", unit.path, *options, "--cancel")
    word = "announcement" if count == 1 else "announcements"
    assert said == (0, f"withdrawn  risk.preempt  {count} {word}\n", "")
    assert len(dropped(unit)) == 3 - count
    assert kept in dropped(unit)


def test_a_withdrawn_notice_closes_its_request(ctl, unit, govern):
    govern()
    ctl("notice", "risk.preempt", unit.path)
    wait_until(lambda: unit.state()["request"], "nothing was asked for")
    ctl("notice", "risk.preempt", unit.path, "--cancel")
    wait_until(lambda: unit.state()["request"] is None, "the request stays")
    assert dropped(unit) == []


# ---- what a hook pays ------------------------------------------------------------------------------------------


def test_a_hook_imports_nothing_that_it_does_not_need(unit):
    put_state(unit)
    code = (
        "import sys; from ckpt_governor.cli.ctl import main;"
        f"main(['notice', 'risk.preempt', {str(unit.path)!r}]);"
        "print([name for name in ('cattrs', 'filelock', 'psutil', 'rich') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
