"""Reads the glue folder: announcements with their identity, training's end, job.json; damage is told, never fatal."""

from __future__ import annotations

import os
import stat

from attrs import define, evolve, frozen

from ckpt_governor.conditions import Condition, condition_named
from ckpt_governor.facts import Ending, Moment, Notice, Trouble
from ckpt_governor.files import COARSE_S, NotRegular, TooLarge, kind_of, read_bounded, words_of
from ckpt_governor.observe.clock import DeadlineClock
from ckpt_governor.records import (
    FILE_BYTES_MAX,
    GlueRecord,
    JobRecord,
    RecordError,
    parse_glue,
    parse_job,
    parse_seen,
)

FILES_MAX = 1024
"""More drop-in files than this are not looked at; the surplus is told."""
URGENT_MAX = 64
"""So many more are looked at when they are of a condition for whose write somebody waits."""
HANDLES_MAX = 256
"""Files that are kept open, so that a re-created one has another inode."""
SECOND_LOOK_S = 0.2
"""Damage, and emptiness, are believed only after two equal looks this far apart."""
_URGENT = (Condition.TERMINATE.value, Condition.REQUEST.value, Condition.PREEMPT.value)
_OWN_NAMES = ("ending", "seen", "job.json", "ranks")


@frozen(kw_only=True)
class GlueLook:
    """What the glue folder shows at one look."""

    notices: tuple[Notice, ...] = ()
    ending: Ending | None = None
    job: JobRecord | None = None
    seen_id: int | None = None
    troubles: tuple[Trouble, ...] = ()
    blind: str = ""
    missing: bool = False
    """The folder is not there: nobody can announce anything."""
    unread: tuple[str, ...] = ()
    """Names of drop-in files that are there although nothing can be said of them yet, or any more."""
    look_again_s: float | None = None
    """A second look is due after this many seconds."""


@define
class _File:
    """What is remembered of one drop-in file while it is there."""

    inode: int
    handle: int | None
    first_s: float
    generation: int
    signature: tuple[int, ...] = ()
    signature_s: float = 0.0
    read: bool = False
    record: GlueRecord | None = None
    wrong: str = ""
    mtime_lag_s: float = 0.0
    job: JobRecord | None = None
    seen_id: int | None = None


class GlueReader:
    """Looks at one unit's glue. Keeps a handle on each file, so that a re-created one has another inode."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, _File] = {}
        self._dates = DeadlineClock()
        self._generation = 0

    def close(self) -> None:
        """Lets go of all files."""
        for name in list(self._files):
            self._forget(name)

    def look(self, moment: Moment, volume_offset_s: float) -> GlueLook:
        """The folder now; ``volume_offset_s`` is the volume's clock minus ours."""
        try:
            names, surplus = self._names()
        except FileNotFoundError:
            names, surplus = None, 0
        except OSError as error:
            return GlueLook(blind=f"glue cannot be read: {words_of(error)}")
        missing, names = names is None, names or []
        for name in set(self._files) - set(names):
            self._forget(name)
        troubles: list[Trouble] = []
        if surplus:
            text = f"glue holds more than {FILES_MAX} files; {surplus} of them are not looked at"
            troubles.append(Trouble(key="glue:surplus", reason="glue", text=text))
        again_s = self._look_at_files(names, moment, volume_offset_s, troubles)
        notices = tuple(
            self._notice(name, file, moment)
            for name, file in self._files.items()
            if file.record is not None and not file.record.cancel and name not in _OWN_NAMES
        )
        job, seen = self._files.get("job.json"), self._files.get("seen")
        return GlueLook(
            missing=missing,
            notices=notices,
            ending=self._ending(moment, volume_offset_s),
            job=job.job if job is not None else None,
            seen_id=seen.seen_id if seen is not None else None,
            troubles=tuple(troubles),
            unread=tuple(
                name for name, file in self._files.items() if file.record is None and name not in _OWN_NAMES
            ),
            look_again_s=again_s,
        )

    def _names(self) -> tuple[list[str], int]:
        """The names that count, bounded: what is known already before what is new, so that a flood hides nothing."""
        known: list[str] = []
        fresh: list[str] = []
        urgent: list[str] = []
        surplus = 0
        with os.scandir(self._folder) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(".") or name.endswith(".tmp") or name == "ranks":
                    continue
                if name in self._files or name in _OWN_NAMES:
                    known.append(name)
                elif len(urgent) < URGENT_MAX and name.startswith(_URGENT):
                    urgent.append(name)
                elif len(fresh) < FILES_MAX:
                    fresh.append(name)
                else:
                    surplus += 1
        room = max(0, FILES_MAX - len(known))
        return sorted(known) + sorted(urgent) + sorted(fresh)[:room], surplus + max(0, len(fresh) - room)

    def _look_at_files(
        self, names: list[str], moment: Moment, volume_offset_s: float, troubles: list[Trouble]
    ) -> float | None:
        again_s: float | None = None
        for name in names:
            try:
                wait_s = self._look_at(name, moment, volume_offset_s)
            except FileNotFoundError:
                self._forget(name)
                continue
            except OSError as error:
                troubles.append(
                    _trouble(name, str(error) if isinstance(error, NotRegular) else words_of(error))
                )
                continue
            if wait_s is not None:
                again_s = wait_s if again_s is None else min(again_s, wait_s)
            file = self._files.get(name)
            if file is not None and file.wrong:
                troubles.append(_trouble(name, file.wrong))
        return again_s

    def _look_at(self, name: str, moment: Moment, volume_offset_s: float) -> float | None:
        """Looks at one file; returns the seconds until a second look is due. Raises OSError."""
        if name not in _OWN_NAMES and _condition_of(name) is None:
            self._track(name, os.lstat(os.path.join(self._folder, name)), moment)
            self._files[name].wrong = "the name begins with no condition"
            return None
        path = os.path.join(self._folder, name)
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise NotRegular(f"{kind_of(found.st_mode)}, not a regular file")
        file = self._track(name, found, moment)
        signature = (found.st_ino, found.st_size, found.st_mtime_ns)
        if signature != file.signature:
            file.signature, file.signature_s, file.read = signature, moment.now_s, False
        settled = name not in _OWN_NAMES or moment.now_s - file.signature_s > COARSE_S
        if (file.read and settled) or name == "ending":
            return None
        try:
            content = read_bounded(path, FILE_BYTES_MAX)
            self._parse(name, file, content)
        except TooLarge as error:
            file.wrong = str(error)
        except RecordError as error:
            wait_s = _settles_in_s(file, found, moment, volume_offset_s)
            if wait_s > 0:
                return wait_s
            file.wrong = f"{error.field}: {error.wrong}" if error.field else error.wrong
        else:
            wait_s = _settles_in_s(file, found, moment, volume_offset_s)
            if not content and file.record is None and wait_s > 0 and name not in _OWN_NAMES:
                return wait_s  # a hook may be about to write into it
            self._believe(name, file, content, found, moment, volume_offset_s)
        file.read = True
        return None

    def _track(self, name: str, found: os.stat_result, moment: Moment) -> _File:
        file = self._files.get(name)
        if file is not None and (file.inode != found.st_ino or _deleted(file.handle)):
            self._forget(name)
            file = None
        if file is None:
            self._generation += 1
            file = _File(
                inode=found.st_ino,
                handle=_hold(os.path.join(self._folder, name)) if len(self._files) < HANDLES_MAX else None,
                first_s=moment.now_s,
                generation=self._generation,
            )
            self._files[name] = file
        return file

    def _parse(self, name: str, file: _File, content: bytes) -> None:
        """Checks the content; what it says is believed later. Raises RecordError."""
        if name == "job.json":
            file.job = parse_job(content, "job.json")
        elif name == "seen":
            file.seen_id = parse_seen(content)
        else:
            parse_glue(content, name)

    def _believe(
        self,
        name: str,
        file: _File,
        content: bytes,
        found: os.stat_result,
        moment: Moment,
        volume_offset_s: float,
    ) -> None:
        file.wrong = ""
        if name in _OWN_NAMES:
            return
        file.record = parse_glue(content, name)
        # `in` counts from the file's mtime on the volume's own clock; one ahead of that clock counts from now.
        file.mtime_lag_s = max(0.0, moment.wall_s + volume_offset_s - found.st_mtime)
        if file.record.in_s is not None:
            left_s = file.record.in_s - file.mtime_lag_s
            file.record = _with_deadline(file.record, moment.wall_s + left_s)

    def _notice(self, name: str, file: _File, moment: Moment) -> Notice:
        record, condition = file.record, _condition_of(name)
        assert record is not None
        assert condition is not None
        identity = f"file:{name}:{file.inode}"
        if record.id:
            identity = f"id:{condition.value}:{record.id}"
        deadline_s = None
        if record.deadline_at is not None:
            deadline_s = self._dates.steady_s(identity, record.deadline_at, moment)
        return Notice(
            identity=identity,
            condition=condition,
            seen_s=file.first_s,
            deadline_s=deadline_s,
            text=record.text,
            source=record.source,
            ack_name=name,
        )

    def _ending(self, moment: Moment, volume_offset_s: float) -> Ending | None:
        file = self._files.get("ending")
        if file is None or not file.signature:
            return None
        written_s = file.signature[2] / 1e9 - volume_offset_s - moment.wall_minus_steady_s
        return Ending(identity=f"{file.inode}:{file.signature[2]}", seen_s=file.first_s, written_s=written_s)

    def _forget(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is not None and file.handle is not None:
            os.close(file.handle)


def _settles_in_s(file: _File, found: os.stat_result, moment: Moment, volume_offset_s: float) -> float:
    """Seconds until the file was the same for long enough: by our looks, or by its age on the volume's clock."""
    age_s = moment.wall_s + volume_offset_s - found.st_mtime
    return SECOND_LOOK_S - max(moment.now_s - file.signature_s, age_s)


def _with_deadline(record: GlueRecord, deadline_at: float) -> GlueRecord:
    """The record dated by ``in``; where both are given the earlier counts."""
    both = deadline_at if record.deadline_at is None else min(deadline_at, record.deadline_at)
    return evolve(record, deadline_at=both)


def _condition_of(name: str) -> Condition | None:
    """The condition that a drop-in file's name begins with."""
    return condition_named(".".join(name.split(".")[:2]))


def _trouble(name: str, wrong: str) -> Trouble:
    condition = _condition_of(name)
    return Trouble(
        key=f"glue:{name}:{wrong}",
        reason=condition.value if condition is not None else "glue",
        text=f"glue/{name}: {wrong}",
        condition=condition,
    )


def _hold(path: str) -> int | None:
    """A handle that keeps the inode from being used again; None where that is not possible."""
    try:
        return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None


def _deleted(handle: int | None) -> bool:
    if handle is None:
        return False
    try:
        return os.fstat(handle).st_nlink == 0
    except OSError:
        return True  # ESTALE: the file behind the handle is gone
