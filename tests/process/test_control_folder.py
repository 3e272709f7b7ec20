"""The control directory is moved, deleted, linked or filled with foreign files while a governor decides by it."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from process.harness import Governor, wait_until

from ckpt_governor.observe.host import run_token


def test_a_moved_control_directory_leaves_one_decider(unit, govern, processes):
    first = govern()
    unit.control.rename(unit.path / "old")
    second = Governor(unit, "--poll", "0.1")
    processes.append(second)
    wait_until(lambda: "waiting" in first.printed() + second.printed(), "two of them decide")
    unit.drop("risk.preempt")
    wait_until(lambda: first.lines("save") + second.lines("save"), "none of them decides")
    unit.drop("risk.request.later")
    wait_until(lambda: first.lines("skip") + second.lines("skip"), "the other notice is not taken in")
    assert len(first.lines("save") + second.lines("save")) == 1


def test_a_deleted_control_directory_is_made_again(unit, govern, train):
    governor = govern()
    shutil.rmtree(unit.control)
    wait_until(lambda: unit.state() and unit.acks.is_dir(), "nothing is made again")
    train("plain")
    unit.drop("risk.preempt.again")
    governor.said("save", "risk.preempt")
    wait_until(lambda: unit.ack("risk.preempt.again") == "served", "the hook is not answered")
    assert len(governor.lines("save")) == 1


def test_a_link_in_its_place_is_not_followed(unit, govern):
    governor = govern()
    elsewhere = unit.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "state.json").write_text("mine")
    unit.control.rename(unit.path / "old")
    unit.control.symlink_to(elsewhere)
    governor.said("unknown", "blind")
    assert (elsewhere / "state.json").read_text() == "mine"
    assert os.listdir(elsewhere) == ["state.json"]


def test_files_of_others_among_the_answers_are_left_alone(unit, govern, train):
    unit.acks.mkdir(parents=True)
    (unit.acks / "README").write_text("my notes")
    govern()
    train("plain")
    unit.drop("risk.preempt")
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the hook is not answered")
    assert (unit.acks / "README").read_text() == "my notes"


def test_a_name_too_long_to_be_answered_keeps_no_other_answer_back(unit, govern, train):
    govern()
    train("plain")
    unit.drop("risk.preempt." + "a" * 240)
    unit.drop("risk.request.z")
    wait_until(lambda: unit.ack("risk.request.z"), "the hook is not answered")
    assert unit.ack("risk.request.z") == "served"


def test_a_flood_of_answered_notices_hides_no_termination(unit, govern, train):
    governor = govern()
    train("plain")
    for number in range(1100):
        unit.drop(f"risk.memory.{number}")
    governor.said("save", "risk.memory")
    unit.drop("risk.terminate.hook")
    wait_until(lambda: unit.ack("risk.terminate.hook"), "the hook is not answered", 60)
    assert unit.ack("risk.terminate.hook") == "served"


def test_answers_that_a_damaged_ledger_names_are_written_nowhere_else(unit, govern):
    unit.control.mkdir()
    target = unit.folder / "target"
    names = f'"ack_names":["{target}","../../up"]'
    cause = f'{{"key":"end:x","reason":"train.end","seen_s":1.0,"since_s":1.0,"state":"missed",{names}}}'
    (unit.control / "ledger.json").write_text(f'{{"v":1,"causes":[{cause}]}}')
    governor = govern()
    unit.drop("risk.preempt")
    governor.said("save", "risk.preempt")
    assert not target.exists()
    assert not (unit.path / "up").exists()


@pytest.mark.parametrize(
    "ledger",
    [
        pytest.param(
            '"causes":[{"key":"odd","reason":"","seen_s":1.0,"since_s":1.0,"state":"asked"}]', id="cause"
        ),
        pytest.param('"write_samples_s":[1e308]', id="write time"),
        pytest.param('"size_samples_bytes":[1000000000000000000000000000000]', id="size"),
        pytest.param('"last_id":-1', id="id"),
    ],
)
def test_a_ledger_that_no_governor_wrote_is_told_and_begun_anew(unit, govern, ledger):
    unit.control.mkdir()
    (unit.control / "ledger.json").write_text(f'{{"v":1,{ledger}}}')
    governor = govern()
    assert "begun anew" in governor.said("unknown", "ledger")
    unit.drop("risk.preempt")
    governor.said("save", "risk.preempt")


def test_who_may_write_copies_may_take_part(unit, govern):
    unit.path.chmod(0o777)
    former = os.umask(0o022)
    try:
        govern()
    finally:
        os.umask(former)
    assert {folder.stat().st_mode & 0o777 for folder in (unit.control, unit.glue)} == {0o777}


def test_a_command_is_not_started_with_settings_that_are_wrong(unit, processes):
    unit.control.mkdir()
    (unit.control / "numbers.json").write_text('{"with_us": "0"}')
    processes.append(Governor(unit, command=["touch", str(unit.folder / "started")]))
    assert processes[-1].ended() == 2
    assert not (unit.folder / "started").exists()


def test_a_command_over_a_blind_unit_runs_to_its_own_end(unit, processes):
    unit.control.symlink_to(unit.folder)
    processes.append(Governor(unit, command=["sh", "-c", "exit 5"]))
    assert processes[-1].ended() == 5
    assert "nothing is decided" in processes[-1].complaints()


def test_starts_after_a_good_end_are_no_sign_of_dying(unit, processes):
    for _ in range(4):
        processes.append(Governor(unit, "--poll", "0.1", command=["true"]))
        assert processes[-1].ended() == 0
        assert processes[-1].lines() == []


def test_starts_after_a_death_are(unit, processes):
    for _ in range(2):
        processes.append(Governor(unit, "--poll", "0.1", command=["sh", "-c", "kill -9 $$"]))
        assert processes[-1].ended() == 137
    processes.append(Governor(unit, "--poll", "0.1", command=["sleep", "60"]))
    assert "3 starts" in processes[-1].said("save", "risk.flap")


def test_a_run_is_told_from_another_host_s():
    assert run_token().startswith(
        "".join(c if c.isalnum() or c in "-_." else "-" for c in socket.gethostname())[:64]
    )
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() in run_token()
