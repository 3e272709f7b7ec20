"""``ckptctl demo``: a real small training job and a real governor, and proof from their files that it all happened."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from attrs import frozen

from ckpt_governor.cli.view import EXIT_BAD, EXIT_DONE, EXIT_USAGE, Commands, Failure, add_command, complain
from ckpt_governor.demo_job import decode
from ckpt_governor.files import CONTROL_NAME

FOREIGN_PREFIX = "CKPT_GOVERNOR_"
PATIENCE_S = 40.0
"""How long anything that is waited for may take; ordinarily it is there within seconds."""
SETTLE = "3s"
TRAINS_S = 1.0
STEPS_MAX = 60_000
"""The job ends by itself after some minutes, should nobody be left to end it."""
FOREIGN_VARIABLES = ("CKPT_DIR", "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
"""What the caller's environment may say about other jobs."""

Facts = dict[str, Any]


def add_demo(commands: Commands) -> None:
    """``ckptctl demo``."""
    parser = add_command(
        commands,
        "demo",
        "Shows all of it in a quarter of a minute: a real small training job with a real governor beside it, a"
        " preemption, a write that is cut off and its repair, the end of training, the receipt. It checks what it"
        " shows by the files that are left, and exits with 1 when something did not happen.",
        "ckptctl demo",
        "ckptctl demo --dir /tmp/demo && ckptctl copies /tmp/demo",
    )
    parser.add_argument("--dir", metavar="DIR", help="a new or empty directory for it, which is kept")
    parser.add_argument(
        "--keep", action="store_true", help="keep the temporary directory and say where it is"
    )


def demo(given: argparse.Namespace) -> int:
    """Plays it and checks it; 0 when everything that it shows did happen, 1 otherwise."""
    folder = Path(tempfile.mkdtemp(prefix="ckpt-demo-"))
    try:
        unit = _unit(given.dir, folder)
        with _stage(unit, folder) as stage:
            played = _play(stage)
        missing = failures(unit, played)
        for what in missing:
            complain(f"demo: this did not happen: {what}")
        if not missing:
            narrate(
                "all of this happened: decisions.jsonl, receipt.json and the copies themselves were checked"
            )
        return EXIT_BAD if missing else EXIT_DONE
    finally:
        if given.keep and not given.dir:
            narrate(f"everything is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _unit(named: str | None, folder: Path) -> Path:
    """The checkpoint directory, made and empty. Raises Failure."""
    unit = Path(os.path.abspath(named)) if named else folder / "checkpoints"
    unit.mkdir(parents=True, exist_ok=True)
    if any(unit.iterdir()):
        raise Failure(f"{unit} is not empty; name a new directory for the demo", EXIT_USAGE)
    return unit


def narrate(text: str) -> None:
    """A line that is neither the governor's nor the job's."""
    print(f"demo  {text}", flush=True)


# ---- what is played ---------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Played:
    """What was seen of the processes, which the files do not tell."""

    half: tuple[str, ...]
    """The copies that were not whole when the job was dead."""
    died_by: int
    job_code: int
    governor_code: int


def _play(stage: Stage) -> Played:
    """The scenes, each told before it is played; each ends when the files show that it is over."""
    narrate(f"a governor watches an empty checkpoint directory: ckpt-governor run --settle {SETTLE}")
    governor = stage.start("governor", "ckpt_governor", "run", *("--dir", str(stage.unit)), *_OPTIONS)
    stage.wait("the governor's first line", lambda: stage.printed("governor"))
    stage.show("governor")

    narrate("a job trains a small network and asks should_save() at every step")
    job = stage.start("job", "ckpt_governor.demo_job", str(stage.unit), *_STEPS, "--die-in-write", "2")
    time.sleep(TRAINS_S)
    stage.show("job")

    narrate("its node will be taken: touch .ckpt-governor/glue/risk.preempt")
    stage.drop("risk.preempt")
    stage.wait("a sound copy for the preemption", lambda: stage.answered("save", "risk.preempt"))
    time.sleep(TRAINS_S)  # were there a second copy for it, it would come now
    stage.show("governor", "job")

    narrate("somebody asks for one more copy, and the job dies in the middle of writing it")
    stage.drop("risk.request")
    died_by = stage.ended(job, "the death of the job")
    half = tuple(sorted(path.name for path in stage.unit.glob("*.safetensors") if not _whole(path)))
    stage.show("governor", "job")
    stage.wait("a repair", lambda: " repair " in stage.printed("governor"))
    stage.show("governor")

    narrate("the job is started again and resumes; it answers once it has seen the governor's beat move")
    job = stage.start("job again", "ckpt_governor.demo_job", str(stage.unit), *_STEPS)
    stage.wait("a sound copy for the repair", lambda: stage.answered("repair"))
    time.sleep(TRAINS_S)
    stage.show("governor", "job again")

    narrate("it has trained enough; what the end is worth is judged, and the receipt printed")
    job.send_signal(signal.SIGINT)
    job_code = stage.ended(job, "the end of the job")
    governor_code = stage.ended(governor, "the end of the governor")
    stage.show("job again", "governor")
    return Played(half=half, died_by=died_by, job_code=job_code, governor_code=governor_code)


_OPTIONS = ("--settle", SETTLE, "--poll", "0.2")
_STEPS = ("--steps", str(STEPS_MAX))


class Stage:
    """The processes, and the files through which they talk. What they print is shown scene by scene."""

    def __init__(self, unit: Path, folder: Path) -> None:
        self.unit, self.control, self._folder = unit, unit / CONTROL_NAME, folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._shown: dict[str, int] = {}
        self._told = 0
        self._hold = False

    def hear(self, number: int, _: FrameType | None) -> None:
        """A signal ends the demo, but never between the start of a process and its entry here."""
        self._told = number
        if not self._hold:
            self._go()

    def _go(self) -> None:
        if self._told == signal.SIGINT:
            raise KeyboardInterrupt
        if self._told:
            sys.exit(128 + self._told)

    def start(self, name: str, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a module of this package; out of reach of the terminal's Ctrl-C, which is for the demo alone."""
        command = [sys.executable, "-m", module, *arguments]
        self._hold = True
        with open(self._folder / f"{name}.out", "wb") as out:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, env=_environment(), start_new_session=True
            )
        self._hold = False
        self._go()
        return self._processes[name]

    def show(self, *names: str) -> None:
        """Prints what these processes have printed since the last time, as it is."""
        for name in names:
            text = self.printed(name)
            print(text, end="", flush=True)
            self._shown[name] = self._shown.get(name, 0) + len(text)

    def printed(self, name: str) -> str:
        """What this process has printed and was not shown yet."""
        text = (self._folder / f"{name}.out").read_text(encoding="utf-8", errors="replace")
        return text[self._shown.get(name, 0) :]

    def wait(self, what: str, holds: Callable[[], Any]) -> None:
        """Returns once it holds. Raises Failure after the patience, or when nobody is left who could bring it."""
        ends = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > ends or self._processes["governor"].poll():
                self.show(*self._processes)
                raise Failure(f"demo: this did not happen: {what}", EXIT_BAD)
            time.sleep(0.05)

    def ended(self, process: subprocess.Popen[bytes], what: str) -> int:
        """The exit code of a process that ends by itself."""
        self.wait(what, lambda: process.poll() is not None)
        return process.wait()

    def drop(self, name: str) -> None:
        """Touches a drop-in file."""
        (self.control / "glue" / name).touch()

    def state(self) -> Facts:
        """state.json; empty before there is one."""
        with suppress(FileNotFoundError):
            return dict(json.loads((self.control / "state.json").read_bytes()))
        return {}

    def decisions(self, verdict: str, reason: str = "") -> list[Facts]:
        """The decisions of that verdict, and of that reason where one is given."""
        return [
            line
            for line in read_decisions(self.unit)
            if line["verdict"] == verdict and reason in ("", line["reason"])
        ]

    def answered(self, verdict: str, reason: str = "") -> bool:
        """Whether such a request was made and withdrawn because a sound copy is there."""
        state = self.state()
        sound = (state.get("newest") or {}).get("sound")
        return bool(self.decisions(verdict, reason) and state.get("request") is None and sound)

    def clear(self) -> None:
        """Ends what still runs; nothing keeps it from that."""
        self._hold = True
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


@contextmanager
def _stage(unit: Path, folder: Path) -> Iterator[Stage]:
    """A stage that is cleared whatever happens, also when the demo is told to go."""
    stage = Stage(unit, folder)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    former = {number: signal.signal(number, stage.hear) for number in numbers}
    try:
        yield stage
    finally:
        stage.clear()
        for number, handler in former.items():
            signal.signal(number, handler)


def _environment() -> dict[str, str]:
    """The caller's environment without what would steer another job or governor."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in FOREIGN_VARIABLES and not name.startswith(FOREIGN_PREFIX)
    }


# ---- what is checked --------------------------------------------------------------------------------------------


def read_decisions(unit: Path) -> list[Facts]:
    """The whole lines of decisions.jsonl."""
    try:
        text = (unit / CONTROL_NAME / "decisions.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def failures(unit: Path, played: Played) -> list[str]:
    """What did not happen, by decisions.jsonl, receipt.json, the copies as the job reads them, and the exit codes."""
    decisions = read_decisions(unit)
    receipt = json.loads((unit / CONTROL_NAME / "receipt.json").read_bytes())
    writes: list[Facts] = receipt["writes"]
    asked = [line["reason"] for line in decisions if line["verdict"] == "save"]
    repairs = [line["text"] for line in decisions if line["verdict"] == "repair"]
    preempted = [write for write in writes if write["reason"] == "risk.preempt"]
    broken = [write["name"] for write in writes if write["status"] == "broken"]
    sound = [write["name"] for write in writes if write["status"] == "sound"]
    whole = {path.name: loss for path in unit.glob("*.safetensors") if (loss := _whole(path))}
    ends = writes[-1:]
    checks = {
        "one line 'save risk.preempt'": asked.count("risk.preempt") == 1,
        "exactly one copy for the preemption": [write["status"] for write in preempted] == ["sound"],
        "the job was killed in its write": played.died_by == -signal.SIGKILL and len(played.half) == 1,
        "the cut copy was found broken": broken == list(played.half),
        "one line 'repair' that names the broken and the last sound copy": len(repairs) == 1
        and all(write["name"] in repairs[0] for write in [*preempted, *writes[1:2]]),
        "one sound copy for the repair": [write["status"] for write in writes[1:3]] == ["broken", "sound"],
        "one sound copy for training's end": [(end["reason"], end["status"]) for end in ends]
        == [("train.end", "sound")]
        and receipt["end_sound"] is True,
        "no other copy": len(writes) == 4 and sorted(sound) == sorted(set(whole) - set(broken)),
        "every copy that was found sound is whole": set(sound) <= set(whole),
        "the job learned something": len(sound) == 3 and whole.get(sound[-1], 9.9) < whole.get(sound[0], 0.0),
        "the job ended well": played.job_code == 0,
        "the governor ended well": played.governor_code == 0,
    }
    return [what for what, holds in checks.items() if not holds]


def _whole(path: Path) -> float:
    """The loss in a copy, as the job reads it; 0 when the copy is not whole."""
    try:
        return decode(path.read_bytes())[2]
    except (OSError, ValueError):
        return 0.0
