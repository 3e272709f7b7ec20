"""A deadline that is shorter than a write: refused with the numbers, and whoever waits is released at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

from process.harness import environment, wait_until


def slow_job(unit, train, write_s=2):
    """A job whose write time is known, by one write that was seen."""
    job = train("helper", "--write-s", str(write_s))
    unit.drop("risk.request.first")
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.request.first") == "served", "the first copy was never judged")
    return job


def test_a_write_that_does_not_fit_is_refused_and_its_hook_released(unit, govern, train):
    governor = govern()
    job = slow_job(unit, train)
    unit.drop("risk.terminate.hook", '{"v": 1, "in": 3}')
    line = governor.said("skip", "no-time")
    assert re.search(r"a write needs \d+s, [0-3]s left$", line)
    wait_until(lambda: unit.ack("risk.terminate.hook"), "the hook waits for ever", patience_s=3)
    assert unit.ack("risk.terminate.hook") == "unfit"
    unit.looked_at()
    assert unit.nothing_is_asked()
    assert len(job.events("begin")) == len(governor.lines("save")) == 1
    assert len(governor.lines("skip")) == 1


def test_a_waiting_hook_is_released_with_its_own_exit_code(unit, govern, train):
    govern()
    slow_job(unit, train)
    command = [sys.executable, "-m", "ckpt_governor.cli.ctl", "notice", "risk.terminate", str(unit.path)]
    hook = subprocess.run(
        [*command, "--in", "3s", "--wait"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "unfit" in hook.stdout + hook.stderr
    assert hook.returncode == 1


def test_a_deadline_in_the_past_is_missed(unit, govern, train):
    governor = govern()
    job = train()
    unit.drop("risk.preempt.late", json.dumps({"v": 1, "deadline": int(time.time()) - 60}))
    wait_until(lambda: unit.ack("risk.preempt.late") == "missed", "no answer")
    assert "no-time" in governor.said("skip")
    unit.looked_at()
    assert (job.events("copy"), governor.lines("save")) == ([], [])


def test_a_deadline_that_moves_so_near_that_the_open_request_no_longer_fits_releases_the_hook(
    unit, govern, train
):
    governor = govern()
    slow_job(unit, train).kill()
    train("deaf")
    unit.drop("risk.terminate.hook", '{"v": 1, "id": "a", "in": 20}')
    governor.said("save", "risk.terminate", patience_s=30)
    unit.drop("risk.terminate.hook", '{"v": 1, "id": "a", "in": 4}')
    wait_until(lambda: unit.ack("risk.terminate.hook") == "unfit", "the hook waits for ever", patience_s=3)
    governor.said("skip", "no-time")
    assert unit.state()["request"] is not None


def test_a_job_that_does_not_answer_before_the_deadline_is_called_unheard(unit, govern, train):
    governor = govern()
    train("deaf")
    unit.drop("risk.preempt.node", '{"v": 1, "in": 2}')
    line = governor.said("skip", "unheard")
    assert "the deadline has passed" in line
    wait_until(lambda: unit.ack("risk.preempt.node") == "missed", "no answer")
    assert unit.nothing_is_asked()
