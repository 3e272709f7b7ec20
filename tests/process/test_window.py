"""A window: the newest sound copy is never older, by the moments that the copies themselves hold, at few writes."""

from __future__ import annotations

import math
import time

import pytest
from process.harness import wait_until


def ages_s(job, begun, now):
    """How old the newest whole copy was each time just before it was renewed, and at the end."""
    held, oldest = begun, []
    for copy in job.events("copy"):
        oldest.append(copy["at"] - held)  # the moment when the next copy was whole
        held = copy["state_at"]
    return [*oldest, now - held]


@pytest.mark.parametrize(
    ("window_s", "time_s", "poll"),
    [
        pytest.param(4, 14, "0.2", id="4s for 14s"),
        pytest.param(20, 300, "1", id="20s for 5m", marks=[pytest.mark.experiment, pytest.mark.timeout(400)]),
    ],
)
def test_the_newest_copy_is_never_older_than_the_window_at_few_writes(
    unit, govern, train, window_s, time_s, poll
):
    governor = govern("--with-us", f"{window_s}s", "--poll", poll)
    job = train("helper", "--write-s", "0.4")
    begun = job.events("start")[0]["at"]
    wait_until(lambda: time.time() - begun >= time_s, "time stands still", time_s + 60)
    now = time.time()
    ages = ages_s(job, begun, now)
    # On a machine that is stuck nobody writes in time: how long the job's own sleeps were late is not the policy's.
    stall_s = max(event["stall_s"] for event in job.events("copy"))
    print(f"oldest {max(ages):.2f} s of {window_s} s, {len(ages) - 1} writes, stall {stall_s:.3f} s")
    assert max(ages) <= window_s + stall_s
    assert len(ages) - 1 <= 1.1 * math.ceil(time_s / window_s) + 2
    assert 0 <= len(governor.lines("save", "window")) - len(job.events("copy")) <= 1  # one may be on its way
    assert governor.lines("skip") == governor.lines("infeasible") == []


def test_a_window_that_is_shorter_than_a_write_is_called_infeasible(unit, govern, train):
    governor = govern("--with-us", "1s")
    job = train("helper", "--write-s", "0.8")
    line = governor.said("infeasible", "window")
    assert "the window of 1s is shorter than" in line
    job.wrote(2)
    unit.looked_at()
    assert len(governor.lines("infeasible")) == 1
