"""Two governors on one unit: one decides, the other says so, waits, and takes over when the first is gone."""

from __future__ import annotations

import signal

import pytest
from process.harness import Governor, wait_until

OPTIONS = ("--poll", "0.1")


def second_governor(unit, processes):
    """Another one, once it has said that it waits."""
    processes.append(Governor(unit, *OPTIONS))
    governor = processes[-1]
    wait_until(
        lambda: "waiting" in governor.printed() or not governor.running(), "it never said that it waits"
    )
    return governor


def test_one_decides_and_the_other_says_so_and_waits(unit, govern, train, processes):
    first = govern(*OPTIONS)
    job = train()
    owner = unit.state()["governor"]["id"]
    second = second_governor(unit, processes)
    assert (
        second.printed() == f"waiting · {owner} decides for this unit; this one takes over when it is gone\n"
    )
    unit.drop("risk.preempt")
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice was never acknowledged")
    unit.looked_at()
    assert (len(first.lines("save")), second.lines(), len(unit.copies())) == (1, [], 1)
    assert unit.state()["governor"]["id"] == owner
    assert second.running()
    assert second.complaints() == ""


def test_the_other_takes_over_when_the_first_is_killed(unit, govern, train, processes):
    first = govern(*OPTIONS)
    train("deaf")
    owner = unit.state()["governor"]["id"]
    second = second_governor(unit, processes)
    unit.drop("risk.preempt")
    first.said("save", "risk.preempt")
    request = unit.state()["request"]
    first.kill()
    wait_until(lambda: "watching" in second.printed(), "nobody took over within three beats", 3 * 5.0)
    assert f"taking over · {owner} is gone" in second.printed()
    assert unit.state()["governor"]["id"] != owner
    assert unit.state()["request"] == request
    job = train("plain")
    (copy,) = job.wrote(1)
    assert copy["request"] == request["id"]
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice was never acknowledged")
    assert len(unit.decisions("save")) == 1


@pytest.mark.experiment
def test_the_other_takes_over_when_the_first_stops(unit, govern, processes):
    first = govern(*OPTIONS)
    second = second_governor(unit, processes)
    first.send(signal.SIGINT)
    assert first.ended() == 0
    wait_until(lambda: "watching" in second.printed(), "nobody took over within three beats", 3 * 5.0)
    wait_until(lambda: unit.state()["governor"]["alive"], "the state still says that nobody lives")


def test_one_that_waits_ends_when_it_is_told_to(unit, govern, processes):
    first = govern(*OPTIONS)
    second = second_governor(unit, processes)
    second.send(signal.SIGTERM)
    assert second.ended() == 0
    assert first.running()
    assert unit.state()["governor"]["alive"] is True
    assert (unit.nothing_is_asked(), second.lines()) == (True, [])


def test_one_look_by_cron_leaves_a_unit_that_is_watched_alone(unit, govern, processes):
    govern(*OPTIONS)
    processes.append(Governor(unit, "--once"))
    once = processes[-1]
    assert once.ended() == 0
    assert once.printed().startswith("waiting · ")


def test_one_that_waits_is_not_driven_off_by_numbers_that_are_being_edited(unit, govern, processes):
    unit.control.mkdir(exist_ok=True)
    numbers = unit.control / "numbers.json"
    numbers.write_text('{"v": 1, "with_us": "2h"}')
    first = govern(*OPTIONS)
    second = second_governor(unit, processes)
    numbers.write_text('{"with_us": ')
    wait_until(lambda: first.lines("unknown", "numbers"), "the damage was never told")
    first.process.send_signal(signal.SIGKILL)
    wait_until(lambda: "taking over" in second.printed() or not second.running(), "it never took over")
    wait_until(lambda: second.lines("unknown", "numbers"), "the damage was never told by the second one")
    assert second.running()
    assert unit.state()["with_us_s"] == 7200
