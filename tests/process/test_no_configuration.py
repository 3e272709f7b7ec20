"""With no configuration: one write at training's end, one when the process is told to go, nothing else."""

from __future__ import annotations

import signal
import time

import pytest
from process.harness import wait_until

by_helper_and_plain_read = pytest.mark.parametrize("how", ["helper", "plain"])


@by_helper_and_plain_read
@pytest.mark.parametrize("write_s", ["0", "0.6"], ids=["written at once", "written slowly"])
def test_training_s_end_is_one_write(unit, govern, train, how, write_s):
    governor = govern()
    job = train(how, "--write-s", write_s)
    unit.looked_at()
    assert unit.copies() == []
    unit.end_training()
    assert job.ended() == 0
    assert governor.ended() == 0
    (copy,) = job.events("copy")
    assert unit.copies() == unit.whole() == [copy["name"]]
    receipt = unit.receipt()
    assert [(write["reason"], write["status"], write["name"]) for write in receipt["writes"]] == [
        ("train.end", "sound", copy["name"])
    ]
    assert (receipt["end_sound"], receipt["newest_sound"]) == (True, copy["name"])
    assert "the end has a sound copy" in governor.receipt()
    assert [(line["verdict"], line["reason"]) for line in unit.decisions() if line["reason"] != "glue"] == [
        ("save", "train.end")
    ]
    assert governor.complaints() == ""


@pytest.mark.parametrize(
    ("how", "number"),
    [
        pytest.param("helper", signal.SIGTERM, id="SIGTERM"),
        pytest.param("plain", signal.SIGTERM, id="SIGTERM, plain read"),
        pytest.param("helper", signal.SIGHUP, id="SIGHUP"),
    ],
)
def test_a_governor_that_is_told_to_go_asks_for_one_write_and_ends(unit, govern, train, how, number):
    governor = govern()
    job = train(how)
    governor.send(number)
    governor.send(number)  # together with the first one: the same cause
    assert governor.ended() == 0
    (copy,) = job.events("copy")
    assert unit.whole() == [copy["name"]]
    assert [line["verdict"] for line in unit.decisions()] == ["save"]
    (line,) = governor.lines()
    assert "risk.terminate" in line
    assert "SIGTERM received" in line or "SIGHUP received" in line
    assert [write["reason"] for write in unit.receipt()["writes"]] == ["risk.terminate"]
    state = unit.state()
    assert (state["governor"]["alive"], state["request"]) == (False, None)
    assert job.running()


def test_an_interrupted_governor_ends_without_a_write(unit, govern, train):
    governor = govern()
    job = train()
    governor.send(signal.SIGINT)
    assert governor.ended() == 0
    assert (unit.copies(), governor.lines(), job.events("copy")) == ([], [], [])
    assert "no writes" in governor.receipt()
    assert unit.state()["governor"]["alive"] is False


def test_a_second_sigterm_ends_a_governor_whose_write_does_not_come(unit, govern, train):
    governor = govern()
    train("deaf")
    governor.send(signal.SIGTERM)
    governor.said("save", "risk.terminate")
    time.sleep(1.2)  # within a second it would count as the first one
    assert governor.running()
    governor.send(signal.SIGTERM)
    assert governor.ended() == 0
    assert "no writes" in governor.receipt()


def test_a_governor_that_is_gone_when_the_grace_is_over_says_that_nobody_answered(unit, govern, train):
    governor = govern("--grace", "2s")
    train("deaf")
    governor.send(signal.SIGTERM)
    assert governor.ended() == 0
    assert [(line["verdict"], line["reason"]) for line in unit.decisions()] == [
        ("save", "risk.terminate"),
        ("skip", "unheard"),
    ]
    assert unit.receipt()["unserved"] == 1


@pytest.mark.parametrize("number", [signal.SIGUSR1], ids=lambda number: number.name)
def test_a_batch_system_s_signal_is_one_write(unit, govern, train, number):
    governor = govern()
    job = train()
    governor.send(number)
    job.wrote(1)
    wait_until(unit.nothing_is_asked, "the request stays open")
    unit.looked_at()
    assert (len(unit.whole()), len(governor.lines("save", "risk.request"))) == (1, 1)
    assert governor.running()


def test_a_job_without_any_cause_writes_nothing(unit, govern, train):
    governor = govern()
    job = train()
    unit.looked_at()
    governor.send(signal.SIGINT)
    assert governor.ended() == 0
    assert (unit.copies(), job.events("copy"), governor.lines("save")) == ([], [], [])
    assert governor.receipt().splitlines()[1:] == [
        "  nothing said the work was at risk",
        "  a silent death costs everything: no window was set",
    ]


def test_a_start_on_a_unit_whose_end_was_served_waits_for_a_new_job(unit, govern, train):
    first = govern()
    train()
    unit.end_training()
    assert first.ended() == 0
    second = govern()
    unit.looked_at()
    assert second.running()
    assert unit.nothing_is_asked()
    (unit.folder / "checkpoints.end").unlink()
    job = train()
    unit.end_training()
    assert job.ended() == 0
    assert second.ended() == 0
    assert [write["reason"] for write in unit.receipt()["writes"]] == ["train.end"]


def test_a_governor_that_stays_goes_on_after_training_s_end(unit, govern, train):
    governor = govern("--stay")
    job = train()
    unit.end_training()
    assert job.ended() == 0
    wait_until(lambda: unit.state()["newest"] and unit.state()["newest"]["sound"], "no sound copy")
    unit.looked_at()
    assert governor.running()
    governor.send(signal.SIGINT)
    assert governor.ended() == 0
    assert [write["reason"] for write in unit.receipt()["writes"]] == ["train.end"]
