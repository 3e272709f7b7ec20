"""Tells a training job when to write a checkpoint: ``should_save()``, called at the job's save point.

One file, standard library only: it can be copied into any project, under any name. It reads what a
checkpoint governor leaves in ``DIR/.ckpt-governor/`` and shares no code with it. It never raises and
never waits; whatever is damaged on disk reads as "no request".
"""

import json
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

__all__ = ["should_save"]

_REUSE_S = 0.05  # a looked-up answer holds so long: a fast loop must not ask a network volume at every step
_BEATS_TO_GONE = 6
_BEAT_EVERY_S, _BEAT_EVERY_S_MIN, _BEAT_EVERY_S_MAX = 5.0, 0.05, 600.0  # the first, where none is given
_PERIOD_S_MIN, _PERIOD_S_MAX = 1.0, 10 * 365 * 86400.0
_UNITS_S = (604800, 86400, 3600, 60, 1)
_NEVER_S = float("inf")
_FILE_BYTES_MAX = 64 * 1024
_REQUEST_ID_MAX = 2**53 - 1  # the largest whole number that every JSON reader keeps exact
# Not blocking, because a FIFO would hold the job; no links, because they may lead to a device.
_SAFELY = sum(getattr(os, f"O_{name}", 0) for name in ("NONBLOCK", "NOFOLLOW", "NOCTTY"))


_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


write_manifest: Callable[[str | os.PathLike[str]], bool]  # of the module beside this one, where there is one


def should_save(dir: _Path | None = None, *, final: bool = False) -> bool:
    """True when the job should write a checkpoint now: once per request, in each process and directory.

    ``dir`` is the directory that holds ``.ckpt-governor/``, as a rule that of the checkpoints: by default
    ``$CKPT_DIR``, then the current one. While no governor lives it is True once per ``no_us`` period since
    this process last got a True for ``dir``, or else since it imported this module or was forked.
    ``final=True``, at the end of training and before the last checkpoint, marks the end for the governor
    and is always True.
    """
    try:
        quiet_dir, quiet_until = _process.quiet
        same = dir is quiet_dir or (type(dir) is str and dir == quiet_dir)
        if same and not final and _process.clock() < quiet_until:
            return False
        reader = _reader_of(dir)
        if final:
            return reader.end()
        _warn_once_of_ranks()
        answer = reader.ask()
        _process.quiet = dir, reader.look_at
        return answer
    except Exception:  # whatever it is, training matters more; an interrupt is no Exception and passes
        return final is True


def _decide(
    *,
    there: bool,  # is there a state file?
    state: "_State | None",  # what it says; None when it is damaged
    proven: bool,  # was its beat seen to move, ever?
    still_s: float,  # for how long has it not?
    beat_every_s: float,
    served: int,
    unsaved_s: float,
    no_us_s: float,
) -> tuple[int, bool]:
    """From values only: the request to serve, or 0, and whether the job's own period is over."""
    stopped = not there or (state is not None and not state.alive)
    if stopped or still_s >= _BEATS_TO_GONE * beat_every_s:
        return 0, unsaved_s >= no_us_s
    if state is None or not proven:  # maybe a dead governor's last word: too early for a yes of either kind
        return 0, False
    return (state.request_id if state.request_id > served else 0), False


class _State:
    """What a state file says. Making one raises when it cannot tell who speaks, or whether anybody does."""

    def __init__(self, data: bytes) -> None:
        top = json.loads(data)
        governor, beat, request = top["governor"], top["beat"], top.get("request")
        if top.get("v", 1) != 1 or type(governor["alive"]) is not bool or type(beat) is not int:
            raise ValueError("no state of version 1")
        self.alive: bool = governor["alive"]
        self.mark = (str(governor.get("id")), beat)  # both: a restarted governor may count from anywhere
        number = request.get("id") if type(request) is dict else None
        self.request_id = number if type(number) is int and number <= _REQUEST_ID_MAX else 0
        every_s = top.get("beat_every_s")
        sane = type(every_s) in (int, float) and 0 < every_s < _NEVER_S
        self.beat_every_s = min(max(every_s, _BEAT_EVERY_S_MIN), _BEAT_EVERY_S_MAX) if sane else _BEAT_EVERY_S
        self.no_us_s = _period_s(top["no_us_s"]) if "no_us_s" in top else None


class _Reader:
    """One directory as this process sees it. An adapter takes ``look``, agrees, and then calls ``serve``."""

    def __init__(
        self, dir: str, clock: Callable[[], float] = time.monotonic, started: float | None = None
    ) -> None:
        self.control = os.path.join(dir, ".ckpt-governor")
        self.clock = clock
        self.lock = threading.Lock()
        self.served = 0  # the highest request id answered with True
        self.saved_at = clock() if started is None else started
        self.look_at = -_NEVER_S
        self.answer = (0, False)
        self.data: bytes | None = None
        self.state: _State | None = None
        self.looked = self.proven = False
        self.mark: tuple[str, int] | None = None
        self.moved_at = clock()
        self.beat_every_s = _BEAT_EVERY_S
        self.no_us_s: float | None = None  # from a state, once one was read

    def ask(self) -> bool:
        """True at most once per request and per period, whichever thread comes first."""
        # Never wait: a hanging volume would take every thread, and a signal handler would wait for itself.
        # A thread that does not get the lock asks again at its next step.
        if not self.lock.acquire(blocking=False):
            return False
        try:
            request_id, due = self.look()
            if request_id or due:
                self.serve(request_id)
            return bool(request_id or due)
        finally:
            self.lock.release()

    def end(self) -> bool:
        """Marks the end of training and serves what is open: the last checkpoint answers that too."""
        _leave(self.control, "ending", b"")  # empty, so that a full volume takes it
        state = _state_of(_read(os.path.join(self.control, "state.json")))
        self.serve(state.request_id if state is not None else 0)
        return True

    def look(self) -> tuple[int, bool]:
        """What ``_decide`` says of the files as they are now, or as they were less than 50 ms ago."""
        now = self.clock()  # before the read: a slow volume must not make the governor look dead
        if now < self.look_at:
            return self.answer
        data = _read(os.path.join(self.control, "state.json"))
        if data != self.data:  # not mtime or inode: file systems fake the one and reuse the other at once
            self.data, self.state = data, _state_of(data)
        state = self.state
        if state is not None and state.mark != self.mark:
            self.proven = self.looked  # the first look may find an old file; one that was not there is new
            self.mark, self.moved_at, self.beat_every_s = state.mark, now, state.beat_every_s
            self.no_us_s = self.no_us_s if state.no_us_s is None else state.no_us_s
        self.looked = self.looked or state is not None or data is None
        self.answer = _decide(
            there=data is not None,
            state=state,
            proven=self.proven,
            still_s=now - self.moved_at,
            beat_every_s=self.beat_every_s,
            served=self.served,
            unsaved_s=now - self.saved_at,
            no_us_s=_no_us_s_of_numbers(self.control) if self.no_us_s is None else self.no_us_s,
        )
        self.look_at = self.clock() + _REUSE_S
        return self.answer

    def serve(self, request_id: int) -> None:
        """The job saves now: for this request, or for its own reasons when that is 0."""
        if request_id > self.served:  # told before it counts: an interrupt here must not lose the request
            _leave(self.control, "seen", b'{"v": 1, "id": %d}' % request_id)
        self.served = max(self.served, request_id)
        self.saved_at = self.clock()
        self.answer = (0, False)


def _period_s(value: object) -> float | None:
    """Seconds of ``90s``, ``1h30m``, ``2d`` or a number; infinity for none; None for what is no period."""
    seconds = 0.0
    if value is None or value == "none":
        return _NEVER_S
    if isinstance(value, str):
        number, text = "([0-9]+(?:[.][0-9]+)?)", value.strip().lower()
        text = f"{text}s" if re.fullmatch(number, text) else text
        parts = re.fullmatch("".join(f"(?:{number}{unit})?" for unit in "wdhms"), text)
        for count, unit_s in zip(parts.groups("0") if parts else (), _UNITS_S, strict=False):
            seconds += float(count) * unit_s
    elif type(value) is int or type(value) is float:  # a bool is no number of seconds
        seconds = value
    return seconds if _PERIOD_S_MIN <= seconds <= _PERIOD_S_MAX else None


def _no_us_s_of_numbers(control: str) -> float:
    with suppress(Exception):  # damage of any kind, a nest too deep for the parser included
        return _period_s(json.loads(_read(os.path.join(control, "numbers.json")) or b"")["no_us"]) or _NEVER_S
    return _NEVER_S


def _state_of(data: bytes | None) -> _State | None:
    with suppress(Exception):  # as above
        return _State(data or b"")
    return None


def _read(path: str) -> bytes | None:
    """A small regular file's bytes; None when there is no such file, nothing when it cannot be read."""
    try:
        # Opened each time: that makes a network file system fetch the new version, which stat does not.
        with open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | _SAFELY)) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(_FILE_BYTES_MAX + 1) if regular else b""
            return data if len(data) <= _FILE_BYTES_MAX else b""
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError:
        return b""


def _leave(control: str, name: str, data: bytes) -> None:
    """Puts a new file into ``glue/``, whole or not at all; the control folder is the governor's to make."""
    glue = os.path.join(control, "glue")
    beside = os.path.join(glue, f".{name}.{os.getpid()}.{threading.get_ident()}.{time.time_ns()}")
    with suppress(OSError, ValueError):  # the governor knows less then; the job saves all the same
        if not os.path.isdir(glue):
            os.mkdir(glue)
        try:
            with open(beside, "xb", buffering=0) as file:
                whole = file.write(data) == len(data)
            if whole:
                os.replace(beside, os.path.join(glue, name))
        finally:
            with suppress(OSError):  # ordinarily there is nothing left to remove
                os.unlink(beside)


def __getattr__(name: str) -> object:
    """A job that writes no manifests does not wait for what they need."""
    if name == "write_manifest":
        import importlib

        with suppress(ImportError):  # where this file alone was copied
            return importlib.import_module(f"{__name__}.manifest").write_manifest
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Process:
    """What this process knows apart from its files; a forked child goes on with a copy."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.started = clock()
        self.readers: dict[str, _Reader] = {}
        self.quiet: tuple[object, float] = (None, -_NEVER_S)  # for whom the answer is no, and until when
        self.warned = threading.Lock()  # taken once and kept


def _reader_of(dir: _Path | None) -> _Reader:
    path = "\0"  # no file can have this name: nothing is found there, and nothing is left
    with suppress(Exception):
        path = os.path.abspath(os.fsdecode((os.environ.get("CKPT_DIR") or ".") if dir is None else dir))
    known = _process.readers.get(path)
    return known or _process.readers.setdefault(path, _Reader(path, _process.clock, _process.started))


def _warn_once_of_ranks() -> None:
    if not _process.warned.acquire(blocking=False):
        return
    for name in ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"):
        ranks = os.environ.get(name, "")
        if ranks.isdecimal() and ranks not in ("0", "1"):
            sys.stderr.write(
                f"ckpt_reader: {name}={ranks}, and every rank answers alone; a rank that saves alone hangs"
                " the job. The adapters (ckpt_reader.torch, .jax, .agree) make all ranks agree.\n"
            )
            return


def _after_fork() -> None:
    """A child keeps what was served. Its period starts anew, and no thread of its own would free a lock."""
    _process.started = _process.clock()
    for reader in _process.readers.values():
        reader.lock, reader.saved_at = threading.Lock(), _process.started


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
