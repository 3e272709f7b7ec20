"""A notice that is dropped leads to exactly one copy."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from process.harness import environment, wait_until

by_helper_and_plain_read = pytest.mark.parametrize("how", ["helper", "plain"])


def served(unit, governor, job, count):
    """Once that many copies have answered, and nothing is asked any more."""
    job.wrote(count)
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice was never acknowledged")
    unit.looked_at()
    assert unit.nothing_is_asked()
    assert len(job.events("copy")) == len(unit.copies()) == len(unit.whole()) == count
    assert len(governor.lines("save", "risk.preempt")) == count


@by_helper_and_plain_read
def test_a_touched_notice_is_one_copy_and_a_new_file_is_one_more(unit, govern, train, how):
    governor = govern()
    job = train(how)
    notice = unit.drop("risk.preempt")
    served(unit, governor, job, 1)

    notice.touch()
    served(unit, governor, job, 1)

    notice.unlink()
    notice.touch()
    served(unit, governor, job, 2)

    notice.unlink()
    wait_until(lambda: not unit.ack("risk.preempt"), "the answer to a notice that is gone stays")
    notice.touch()
    served(unit, governor, job, 3)

    assert [line["verdict"] for line in unit.decisions() if line["reason"] != "glue"] == ["save"] * 3
    assert [event["request"] for event in job.events("copy")] == [
        line["request"] for line in unit.decisions("save")
    ]


def test_a_notice_delivered_twice_is_one_copy(unit, govern, train):
    governor = govern()
    job = train()
    for name in ("risk.preempt.pod1", "risk.preempt.pod2"):
        unit.drop(name, '{"v": 1, "id": "reclaim-7"}')
    wait_until(lambda: unit.ack("risk.preempt.pod1") and unit.ack("risk.preempt.pod2"), "no answer")
    unit.looked_at()
    assert (unit.ack("risk.preempt.pod1"), unit.ack("risk.preempt.pod2")) == ("served", "served")
    assert len(job.events("copy")) == len(governor.lines("save")) == 1


def test_a_notice_withdrawn_before_it_is_served_asks_for_nothing_any_more(unit, govern, train):
    governor = govern()
    job = train("deaf")
    notice = unit.drop("risk.preempt")
    wait_until(lambda: not unit.nothing_is_asked(), "nothing was asked")
    notice.unlink()
    wait_until(unit.nothing_is_asked, "the request stays open")
    unit.looked_at()
    assert (len(governor.lines("save")), job.events("copy"), unit.ack("risk.preempt")) == (1, [], "")


def test_a_hook_that_waits_is_told_that_its_notice_was_served(unit, govern, train):
    governor = govern()
    job = train()
    command = [sys.executable, "-m", "ckpt_governor.cli.ctl", "notice", "risk.terminate", str(unit.path)]
    hook = subprocess.run(
        [*command, "--in", "20s", "--wait"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    judged = time.time()
    assert "served" in hook.stdout
    assert hook.returncode == 0, hook.stderr
    (copy,) = job.events("copy")
    assert copy["at"] <= judged
    assert len(governor.lines("save", "risk.terminate")) == 1
