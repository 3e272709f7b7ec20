"""The demo: what it plays is real, it notices what did not happen, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from attrs import evolve

from ckpt_governor import demo_job
from ckpt_governor.cli.ctl_demo import Played, failures

DEMO = [sys.executable, "-m", "ckpt_governor.cli.ctl", "demo"]
MISLEADING = {
    "CKPT_GOVERNOR_LOG": "json",
    "CKPT_GOVERNOR_WITH_US": "1s",
    "WORLD_SIZE": "4",
    "CKPT_DIR": "no/where",
}
PATIENCE_S = 40.0
OWN_TERMINAL = """
import os, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))  # the leader of a session that opens a terminal has it from then on
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The demo as a person runs it into a pipe, in an environment that is set for another job."""
    unit = tmp_path_factory.mktemp("demo") / "kept"
    environment = {**os.environ, **MISLEADING}
    command = [*DEMO, "--dir", str(unit)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    return done, unit


@pytest.fixture
def kept(run, tmp_path):
    """A copy of the unit that the demo left, to be changed."""
    return shutil.copytree(run[1], tmp_path / "unit")


def test_everything_that_it_shows_did_happen(run):
    done, unit = run
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(maxsplit=3)[1:3] for line in done.stdout.splitlines() if re.match(r"\d\d:\d\d", line)]
    assert lines == [
        ["save", "risk.preempt"],
        ["save", "risk.request"],
        ["repair", "risk.request"],
        ["save", "train.end"],
    ]
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"  \d\d:\d\d", line)]
    assert [[row[1], row[3]] for row in rows] == [
        ["risk.preempt", "sound"],
        ["risk.request", "broken"],
        ["risk.request", "sound"],
        ["train.end", "sound"],
    ]
    assert "watching 1 unit · 0 blind" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("demo  all of this happened")
    assert sorted(path.name for path in unit.iterdir()) == sorted(
        [row[4] for row in rows] + [".ckpt-governor"]
    )


def played(unit):
    """What a demo that went well has seen of its processes."""
    writes = json.loads((unit / ".ckpt-governor" / "receipt.json").read_bytes())["writes"]
    half = tuple(write["name"] for write in writes if write["status"] == "broken")
    return Played(half=half, died_by=-9, job_code=0, governor_code=0)


def without_lines(unit, word):
    path = unit / ".ckpt-governor" / "decisions.jsonl"
    kept = [line for line in path.read_text().splitlines(keepends=True) if f'"verdict":"{word}"' not in line]
    path.write_text("".join(kept))


def change_receipt(unit, change):
    path = unit / ".ckpt-governor" / "receipt.json"
    receipt = json.loads(path.read_bytes())
    change(receipt)
    path.write_text(json.dumps(receipt))


def cut(unit, which):
    receipt = json.loads((unit / ".ckpt-governor" / "receipt.json").read_bytes())
    path = unit / receipt["writes"][which]["name"]
    path.write_bytes(path.read_bytes()[:-1])


def name_another(unit):
    path = unit / ".ckpt-governor" / "decisions.jsonl"
    path.write_text(
        re.sub(r"the last sound copy is step-\d+", "the last sound copy is step-0", path.read_text())
    )


def test_a_demo_that_went_well_misses_nothing(kept):
    assert failures(kept, played(kept)) == []


@pytest.mark.parametrize(
    ("spoil", "missed"),
    [
        pytest.param(lambda unit: without_lines(unit, "save"), "save risk.preempt", id="no save line"),
        pytest.param(lambda unit: without_lines(unit, "repair"), "names the broken", id="no repair line"),
        pytest.param(name_another, "names the broken", id="another sound copy named"),
        pytest.param(
            lambda unit: change_receipt(
                unit, lambda receipt: receipt["writes"].insert(0, receipt["writes"][0])
            ),
            "exactly one copy",
            id="two copies for one notice",
        ),
        pytest.param(
            lambda unit: change_receipt(unit, lambda receipt: receipt["writes"].pop()),
            "end",
            id="no copy of the end",
        ),
        pytest.param(lambda unit: cut(unit, 0), "is whole", id="a cut copy that was called sound"),
        pytest.param(lambda unit: cut(unit, -1), "is whole", id="the last copy cut"),
    ],
)
def test_what_did_not_happen_is_named(kept, spoil, missed):
    seen = played(kept)
    spoil(kept)
    assert [what for what in failures(kept, seen) if missed in what]


@pytest.mark.parametrize(
    "change",
    [{"governor_code": 1}, {"job_code": 1}, {"died_by": 0}, {"half": ()}],
    ids=lambda change: next(iter(change)),
)
def test_a_process_that_ended_otherwise_is_named(kept, change):
    assert len(failures(kept, evolve(played(kept), **change))) >= 1


def test_a_directory_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "mine.pt").touch()
    done = subprocess.run(
        [*DEMO, "--dir", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert f"{tmp_path} is not empty" in done.stderr
    assert os.listdir(tmp_path) == ["mine.pt"]


# ---- cut short ---------------------------------------------------------------------------------------------------


def governor_and_job(demo):
    """Its two children, once both run."""
    ends = time.monotonic() + PATIENCE_S
    while len(children := psutil.Process(demo.pid).children()) < 2:
        assert time.monotonic() < ends, "governor and job were never started"
        time.sleep(0.05)
    return children


def ended(demo, children, folder):
    """Its exit code; its children and its files are gone then."""
    code = demo.wait(PATIENCE_S)
    assert [child for child in children if child.is_running()] == []
    assert os.listdir(folder) == []
    return code


@pytest.fixture
def own_temporary(tmp_path):
    """The environment of a demo whose temporary directory lies in a folder of the test's."""
    return {**os.environ, "TMPDIR": str(tmp_path)}


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_ends_it_and_all_that_it_started(tmp_path, own_temporary, number, code):
    demo = subprocess.Popen(DEMO, env=own_temporary, stdout=subprocess.DEVNULL)
    children = governor_and_job(demo)
    demo.send_signal(number)
    assert ended(demo, children, tmp_path) == code


def test_ctrl_c_on_a_terminal_ends_it_and_all_that_it_started(tmp_path, own_temporary):
    ours, theirs = pty.openpty()
    demo = subprocess.Popen(
        [sys.executable, "-c", OWN_TERMINAL, *DEMO],
        env=own_temporary,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    children = governor_and_job(demo)
    os.write(ours, b"\x03")
    assert ended(demo, children, tmp_path) == 130
    os.close(ours)


def test_a_reader_that_has_seen_enough_ends_it(tmp_path, own_temporary):
    demo = subprocess.Popen(DEMO, env=own_temporary, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    children = governor_and_job(demo)
    assert demo.stdout is not None
    assert demo.stderr is not None
    assert demo.stdout.readline()
    demo.stdout.close()
    assert ended(demo, children, tmp_path) == 141
    assert demo.stderr.read() == b""
    demo.stderr.close()


# ---- its job -----------------------------------------------------------------------------------------------------


def test_the_job_learns():
    weights = demo_job.new_weights()
    losses = [demo_job.train_step(weights, step) for step in range(1, 1001)]
    assert sum(losses[-100:]) < 0.8 * sum(losses[:100])


def test_a_resumed_job_is_the_uninterrupted_one():
    straight = demo_job.new_weights()
    for step in range(1, 41):
        demo_job.train_step(straight, step)
    first = demo_job.new_weights()
    for step in range(1, 21):
        demo_job.train_step(first, step)
    resumed, step, loss = demo_job.decode(demo_job.encode(first, 20, 0.25))
    assert (step, loss) == (20, 0.25)
    for step in range(21, 41):
        demo_job.train_step(resumed, step)
    assert resumed == straight


def test_a_cut_copy_is_no_copy_to_resume_from(tmp_path):
    data = demo_job.encode(demo_job.new_weights(), 7, 0.5)
    (tmp_path / "step-7.safetensors").write_bytes(data)
    for length in (0, 4, 40, len(data) // 2, len(data) - 1):
        (tmp_path / "step-9.safetensors").write_bytes(data[:length])
        found = demo_job.newest_whole(tmp_path)
        assert found is not None
        assert found[0] == "step-7.safetensors"


def test_the_job_alone_trains_to_its_last_step_and_resumes(tmp_path):
    command = [sys.executable, "-m", "ckpt_governor.demo_job", str(tmp_path), "--pace", "0"]
    for steps, told in [
        ("30", "begins"),
        ("60", "resumes from step-30.safetensors"),
        ("60", "resumes from step-60"),
    ]:
        done = subprocess.run(
            [*command, "--steps", steps], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert told in done.stdout
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        "step-30.safetensors",
        "step-60.safetensors",
    ]
