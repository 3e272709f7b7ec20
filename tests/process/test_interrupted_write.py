"""The job is killed inside its write: the half copy is reported, one repair is written, and all is well again."""

from __future__ import annotations

import signal

import pytest
from formats.making_folders import orbax_step
from process import jobs
from process.harness import wait_until


def cut_a_write(unit, job):
    """Kills the job when a part of a copy is there; returns that copy's name."""

    def half():
        return [
            name
            for name in unit.half()
            if (unit.path / name).stat().st_size > 20_000 and not jobs.state_of(unit.path / name)
        ]

    (name,) = wait_until(half, "no write was caught in its middle")
    job.kill()
    assert name in unit.half()
    return name


def check_repair(unit, govern, train, *options, patience_s=40.0):
    governor = govern(*options)
    job = train("helper", "--write-s", "0.5")
    unit.drop("risk.preempt")
    (sound,) = [copy["name"] for copy in job.wrote(1)]
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the first copy was never judged")
    job.kill()
    job = train("helper", "--write-s", "4")
    unit.drop("risk.request")
    broken = cut_a_write(unit, job)

    line = governor.said("repair", patience_s=patience_s)
    assert f"{broken} is broken" in line
    assert f"the last sound copy is {sound}" in line
    assert unit.state()["request"]["kind"] == "repair"
    job = train("helper", "--write-s", "0.5")
    (copy,) = job.wrote(1)
    wait_until(unit.nothing_is_asked, "the request stays open")
    wait_until(lambda: unit.ack("risk.request") == "served", "the notice is not served by the repair")
    unit.looked_at()
    assert unit.state()["newest"]["name"] == copy["name"]
    assert unit.state()["newest"]["sound"] is True
    assert (len(unit.decisions("repair")), len(job.events("copy"))) == (1, 1)
    assert unit.half() == [broken]


def test_a_write_that_is_cut_is_repaired_once(unit, govern, train):
    check_repair(unit, govern, train, "--settle", "5s")


@pytest.mark.experiment
@pytest.mark.timeout(300)
def test_a_write_that_is_cut_is_repaired_once_with_the_learned_settle_time(unit, govern, train):
    check_repair(unit, govern, train, patience_s=120.0)


def test_the_first_write_of_all_that_is_cut_is_repaired_too(unit, govern, train):
    governor = govern("--settle", "2s")
    job = train("helper", "--write-s", "4")
    unit.drop("risk.preempt")
    broken = cut_a_write(unit, job)
    line = governor.said("repair")
    assert f"{broken} is broken" in line
    assert "there is no sound copy" in line
    job = train("plain")
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice is not served by the repair")
    assert (len(unit.decisions("repair")), len(job.events("copy"))) == (1, 1)


def test_a_write_that_is_slow_is_not_called_broken(unit, govern, train):
    governor = govern("--settle", "1s")
    job = train("helper", "--write-s", "3")
    unit.drop("risk.preempt")
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the copy was never judged")
    assert [line["verdict"] for line in unit.decisions()] == ["save"]
    assert governor.running()


def test_a_job_that_dies_in_its_last_write_leaves_an_end_without_a_copy(unit, govern, train):
    governor = govern("--settle", "2s", "--stay")
    job = train("helper", "--write-s", "4")
    unit.end_training()
    broken = cut_a_write(unit, job)
    governor.said("repair", patience_s=60)
    assert f"{broken} is broken" in unit.decisions("repair")[0]["text"]


def test_what_a_dead_write_has_left_is_named_once_and_in_the_receipt(unit, govern):
    governor = govern("--settle", "1s")
    (unit.path / ".tmpAbC123").write_bytes(bytes(5000))
    (unit.path / "tmp-checkpoint-9").mkdir()
    (unit.path / "tmp-checkpoint-9" / "config.json").write_text("{}")
    line = governor.said("unknown", "leftover")
    assert ".tmpAbC123 (5.0 kB)" in line
    unit.looked_at()
    unit.looked_at()
    assert "tmp-checkpoint-9 (2 B)" in "".join(governor.lines("unknown", "leftover"))
    assert 1 <= len(governor.lines("unknown", "leftover")) <= 2
    governor.send(signal.SIGINT)
    assert governor.ended() == 0
    assert {left["name"]: left["bytes"] for left in unit.receipt()["leftovers"]} == {
        ".tmpAbC123": 5000,
        "tmp-checkpoint-9": 2,
    }
    assert "5.0 kB in all" in governor.receipt()


def test_the_newest_copy_that_loses_a_file_later_is_reported_and_repaired_also_after_a_restart(unit, govern):
    governor = govern("--settle", "2s", "--stay")
    for step in (100, 200):
        orbax_step(unit.path / str(step))
        wait_until(
            lambda step=step: unit.state()["newest"] and unit.state()["newest"]["name"] == str(step),
            "the copy was never seen",
        )
    unit.looked_at()
    governor.send(signal.SIGINT)
    assert governor.ended() == 0
    (unit.path / "200" / "default" / "ocdbt.process_0" / "d" / "1946ed4af3029822be096ca00b2d3bff").unlink()
    line = govern("--settle", "2s", "--stay").said("repair")
    assert (
        "200 is broken: default/ocdbt.process_0/d/1946ed4af3029822be096ca00b2d3bff is missing since it was"
        in line
    )
    assert "the last sound copy is 100" in line
