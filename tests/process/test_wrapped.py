"""``ckpt-governor run -- command``: the command's exit code and the signals; and single looks by ``--once``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from process import jobs
from process.harness import Governor, environment, json_lines, wait_until

from ckpt_governor.cli.governor import main


@pytest.fixture
def wrap(unit, processes):
    """Start a governor around a command."""

    def start(*command, options=(), **more):
        processes.append(Governor(unit, "--poll", "0.1", *options, command=command, **more))
        return processes[-1]

    return start


@pytest.fixture
def wrap_job(unit, wrap):
    """Start a governor around a training job, which tells its events among the lines; wait until it trains."""

    def start(*options, how="helper", governor_options=(), **more):
        command = [sys.executable, jobs.__file__, how, str(unit.path), *options]
        governor = wrap(*command, options=governor_options, **more)
        wait_until(lambda: events(governor, "looked"), "the job never began")
        wait_until(unit.state, "the governor never began")
        return governor

    return start


def events(process, kind=""):
    """What the wrapped job told."""
    text = "".join(line for line in process.printed().splitlines(keepends=True) if line.startswith("{"))
    return [event for event in json_lines(text) if not kind or event["event"] == kind]


@pytest.mark.parametrize("code", [0, 3])
def test_its_exit_code_is_the_command_s(wrap, code):
    assert wrap(sys.executable, "-c", f"raise SystemExit({code})").ended() == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=lambda number: number.name)
def test_a_command_that_a_signal_ended_is_128_and_its_number(wrap, number):
    governor = wrap(sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})")
    assert governor.ended() == 128 + number


def test_a_command_that_cannot_be_started_is_an_error_that_names_it(wrap):
    governor = wrap("no-such-trainer")
    assert governor.ended() not in (0, 1)
    assert "no-such-trainer" in governor.complaints()


def test_the_command_sees_the_checkpoint_directory_and_its_own_arguments(unit, wrap):
    code = "import os, sys; print(os.environ['CKPT_DIR'], sys.argv[1:])"
    governor = wrap(sys.executable, "-c", code, "--dir", "elsewhere", "--", "-x")
    assert governor.ended() == 0
    assert f"{unit.path} ['--dir', 'elsewhere', '--', '-x']" in governor.printed()


@pytest.mark.parametrize("how", ["helper", "plain"])
def test_training_s_end_is_one_write(unit, wrap_job, how):
    governor = wrap_job(how=how)
    unit.end_training()
    assert governor.ended() == 0
    (copy,) = events(governor, "copy")
    assert unit.whole() == [copy["name"]]
    assert [(write["reason"], write["status"]) for write in unit.receipt()["writes"]] == [
        ("train.end", "sound")
    ]


def test_sigterm_is_one_write_and_then_the_command_is_told(unit, wrap_job):
    governor = wrap_job("--term", "7", "--write-s", "1")
    governor.send(signal.SIGTERM)
    assert governor.ended() == 7
    order = [event["event"] for event in events(governor) if event["event"] != "looked"]
    assert order == ["start", "begin", "copy", "term"]
    assert (len(governor.lines("save", "risk.terminate")), len(unit.whole())) == (1, 1)
    assert [(write["reason"], write["status"]) for write in unit.receipt()["writes"]] == [
        ("risk.terminate", "sound")
    ]


def test_a_command_that_sigterm_ends_is_143(unit, wrap_job):
    governor = wrap_job()
    governor.send(signal.SIGTERM)
    assert governor.ended() == 143
    assert len(unit.whole()) == 1


def test_a_command_that_never_saves_is_told_when_the_grace_is_over(unit, wrap_job):
    governor = wrap_job(how="deaf", governor_options=("--grace", "2s"))
    governor.send(signal.SIGTERM)
    assert governor.ended() == 143
    assert [(line["verdict"], line["reason"]) for line in unit.decisions()] == [
        ("save", "risk.terminate"),
        ("skip", "unheard"),
    ]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2], ids=lambda number: number.name)
def test_a_batch_system_s_signal_is_one_write_and_the_command_goes_on(unit, wrap_job, number):
    governor = wrap_job()
    governor.send(number)
    governor.send(number)
    wait_until(lambda: events(governor, "copy"), "no copy came")
    wait_until(unit.nothing_is_asked, "the request stays open")
    unit.looked_at()
    assert governor.running()
    assert (len(events(governor, "copy")), len(governor.lines("save", "risk.request"))) == (1, 1)
    unit.end_training()
    assert governor.ended() == 0
    assert [write["reason"] for write in unit.receipt()["writes"]] == ["risk.request", "train.end"]


def test_a_command_that_dies_in_its_write_is_reported_with_its_code(unit, wrap_job):
    governor = wrap_job("--write-s", "4", governor_options=("--settle", "2s"))
    unit.drop("risk.preempt")
    wait_until(unit.half, "no write began")
    os.kill(events(governor, "start")[0]["pid"], signal.SIGKILL)
    assert governor.ended() == 137
    (half,) = unit.half()
    assert [(write["name"], write["status"]) for write in unit.receipt()["writes"]] == [(half, "broken")]


def test_a_command_that_reads_its_stdin_gets_it(unit, processes):
    program = [sys.executable, "-m", "ckpt_governor", "run", "--dir", str(unit.path), "--"]
    done = subprocess.run(
        [*program, sys.executable, "-c", "print('got', input())"],
        input="this\n",
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "got this" in done.stdout) == (0, True)


# ---- one look ----------------------------------------------------------------------------------------------------


def once(unit, *options):
    return subprocess.run(
        [sys.executable, "-m", "ckpt_governor", "run", "--dir", str(unit.path), "--once", *options],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_looks_by_cron_ask_once_and_see_the_copy_come(unit, train):
    assert once(unit).stdout == "watching 1 unit · 0 blind\n"
    job = train("plain")
    unit.drop("risk.preempt", '{"v": 1}')
    asked = once(unit)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout.count("save  risk.preempt") == 1
    job.wrote(1)
    assert once(unit).stdout == "watching 1 unit · 0 blind\n"
    assert unit.nothing_is_asked()
    assert unit.ack("risk.preempt") == "served"
    assert once(unit).stdout == "watching 1 unit · 0 blind\n"
    assert (len(job.events("copy")), len(unit.decisions("save"))) == (1, 1)


def test_a_touched_notice_is_heard_by_looks_that_are_far_apart(unit, train):
    once(unit)
    job = train("plain")
    unit.drop("risk.preempt")
    for _ in range(3):
        once(unit)
    job.wrote(1)
    for _ in range(3):
        once(unit)
    assert (unit.ack("risk.preempt"), len(job.events("copy")), unit.nothing_is_asked()) == ("served", 1, True)


def test_a_command_without_its_dashes_is_told_where_they_go(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--dir", str(tmp_path), "python", "train.py", "--lr", "0.1"])
    assert ended.value.code == 2
    assert "ckpt-governor run --dir DIR -- python train.py --lr 0.1" in capsys.readouterr().err
    assert not (tmp_path / ".ckpt-governor").exists()


FAILING = """
import sys
from ckpt_governor.cli.governor import main
from ckpt_governor.unit import Unit
real, looks = Unit.tick, []
def tick(self, *given, **more):
    looks.append(1)
    if len(looks) > 2:
        raise RuntimeError("a bug")
    return real(self, *given, **more)
Unit.tick = tick
sys.exit(main(sys.argv[1:]))
"""


def test_a_command_outlives_a_governor_that_fails(tmp_path):
    job = [sys.executable, "-c", "import sys, time; time.sleep(2); print('the job ends'); sys.exit(7)"]
    command = [sys.executable, "-c", FAILING, "run", "--dir", str(tmp_path), "--poll", "0.1", "--", *job]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=environment()
    )
    assert (ended.returncode, "the job ends" in ended.stdout) == (7, True)
    assert "the command runs on alone: RuntimeError: a bug" in ended.stderr
