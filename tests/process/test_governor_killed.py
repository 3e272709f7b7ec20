"""The governor dies by SIGKILL: the job falls back to its own period, and what was asked stays asked, once."""

from __future__ import annotations

import itertools
import json
import time
from functools import partial

import pytest
from process.harness import wait_until

BEAT_S = 5.0


def test_a_request_that_is_open_at_the_kill_is_served_after_the_restart_under_its_id(unit, govern, train):
    first = govern()
    train("deaf")
    unit.drop("risk.preempt")
    first.said("save", "risk.preempt")
    request = unit.state()["request"]
    first.kill()
    second = govern()
    assert unit.state()["request"] == request
    job = train("plain")
    (copy,) = job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice was never acknowledged")
    assert copy["request"] == request["id"]
    unit.looked_at()
    assert unit.nothing_is_asked()
    assert second.lines("save") == []
    assert len(job.events("copy")) == len(unit.whole()) == len(unit.decisions("save")) == 1


def test_a_request_that_was_served_before_the_kill_is_not_repeated(unit, govern, train):
    first = govern()
    job = train()
    unit.drop("risk.preempt")
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice was never acknowledged")
    first.kill()
    second = govern()
    unit.looked_at()
    assert unit.nothing_is_asked()
    assert (unit.ack("risk.preempt"), second.lines("save"), len(unit.copies())) == ("served", [], 1)


def test_a_copy_that_came_while_no_governor_lived_serves_what_was_asked_before(unit, govern, train):
    first = govern()
    job = train("plain", "--write-s", "1.5")
    unit.drop("risk.preempt")
    wait_until(lambda: job.events("begin"), "the job never began to write")
    first.kill()
    job.wrote(1)
    second = govern()
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice was never acknowledged")
    unit.looked_at()
    assert unit.nothing_is_asked()
    assert (second.lines("save"), len(job.events("copy"))) == ([], 1)


@pytest.mark.parametrize("spoil", ["removed", "damaged"])
def test_ids_go_on_growing_when_the_ledger_is_lost(unit, govern, train, spoil):
    first = govern()
    train("deaf")
    unit.drop("risk.preempt")
    first.said("save")
    former = unit.state()["request"]["id"]
    first.kill()
    ledger = unit.control / "ledger.json"
    if spoil == "removed":
        ledger.unlink()
    else:
        ledger.write_bytes(ledger.read_bytes()[:-20])
    second = govern()
    second.said("save", "risk.preempt")
    assert unit.state()["request"]["id"] > former
    if spoil == "damaged":
        assert "ledger.json" in second.said("unknown", "ledger")


def served(unit, number):
    return unit.ack(f"risk.preempt.{number}") == "served"


def test_kills_at_any_moment_repeat_nothing_and_lose_nothing(unit, govern, train):
    job = train("plain", "--write-s", "0.1")
    notices = 6
    for number in range(notices):
        governor = govern()
        unit.drop(f"risk.preempt.{number}", json.dumps({"v": 1, "id": f"notice-{number}"}))
        time.sleep(0.12 * number)  # before it is seen, while it is asked, while it is written, after it
        governor.kill()
    govern()
    for number in range(notices):
        wait_until(partial(served, unit, number), f"notice {number} was lost")
    unit.looked_at()
    assert unit.nothing_is_asked()
    answered = [event["request"] for event in job.events("copy")]
    assert len(answered) == len(set(answered))
    assert sorted(answered) == sorted({line["request"] for line in unit.decisions("save")})


@pytest.mark.experiment
@pytest.mark.timeout(300)
def test_without_a_governor_the_job_writes_each_period_until_one_is_back(unit, govern, train):
    first = govern("--no-us", "5s")
    job = train()
    unit.looked_at()
    assert job.events("copy") == []
    first.kill()
    killed = time.time()
    copies = job.wrote(5, 6 * BEAT_S + 5 * 5 + 20)
    assert copies[0]["at"] - killed <= 6 * BEAT_S + 5 + 1
    assert [copy["request"] for copy in copies] == [0] * 5
    spaces_s = [later["state_at"] - sooner["state_at"] for sooner, later in itertools.pairwise(copies)]
    assert all(5.0 <= space_s <= 6.0 for space_s in spaces_s), spaces_s

    govern("--no-us", "5s")
    unit.looked_at()
    count = len(job.events("copy"))
    time.sleep(3 * 5)
    assert len(job.events("copy")) == count
    unit.drop("risk.preempt")
    (*_, last) = job.wrote(count + 1)
    assert last["request"] > 0
    unit.looked_at()
    assert len(job.events("copy")) == count + 1


@pytest.mark.experiment
@pytest.mark.timeout(300)
def test_without_a_governor_and_a_period_the_job_writes_nothing(unit, govern, train):
    governor = govern("--no-us", "none")
    job = train()
    governor.kill()
    time.sleep(6 * BEAT_S + 15)
    assert (job.events("copy"), job.running(), unit.copies()) == ([], True, [])
