"""The ranks of the job that give signs of life: files in glue/ranks that they touch, one each.

An mtime is a time of the volume's clock. It is compared with that clock once, when a file is first seen; after that
the silence is counted by this process's own steady clock, from the look at which the mtime had last changed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable

from attrs import evolve, frozen

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Moment, Report
from ckpt_governor.files import kind_of, words_of
from ckpt_governor.observe.source import failure, success
from ckpt_governor.signs import Part

RANKS_MAX = 4096
"""More ranks than this are not followed: each costs one look at a file of the volume every few seconds."""
_RANK = re.compile(r"([0-9]{1,7})(?:\.json)?")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen(kw_only=True)
class _Sign:
    """The last sign of life of one file."""

    mtime_ns: int
    inode: int
    changed_s: float


class _TooMany(Exception):
    """More entries than are followed."""


class RanksSource:
    """The folder ``glue/ranks`` with one file for each rank, named by its number."""

    name = "ranks"
    covers: tuple[Condition, ...] = (Condition.PEER,)

    def __init__(self, *, folder: str, volume_offset_s: Callable[[], float]) -> None:
        """``volume_offset_s`` gives the volume's clock minus this host's wall clock."""
        self.every_s = 5.0
        self._folder = folder
        self._volume_offset_s = volume_offset_s
        self._signs: dict[str, _Sign] = {}

    def read(self, moment: Moment) -> Report:
        """How long each rank has been silent; failed when none gives signs of life in this way."""
        ignored: list[str] = []
        try:
            found = self._files(ignored)
        except _TooMany:
            why = f"glue/ranks holds more than {RANKS_MAX} files; let fewer ranks touch one"
            return failure(self, moment, why)
        except FileNotFoundError:
            return failure(self, moment, "no rank gives signs of life (there is no glue/ranks)")
        except OSError as error:
            return failure(self, moment, f"glue/ranks cannot be read: {words_of(error)}")
        self._signs = {name: self._sign(name, file, moment) for name, file in found.items()}
        if not found:
            why = f"no rank gives signs of life (glue/ranks holds only {ignored[0]})" if ignored else ""
            return failure(self, moment, why or "no rank gives signs of life (glue/ranks is empty)")
        return evolve(success(self, moment), parts=self._parts(moment))

    def _files(self, ignored: list[str]) -> dict[str, os.stat_result]:
        """The regular files that are named as ranks are. Raises OSError or _TooMany."""
        found: dict[str, os.stat_result] = {}
        handle = os.open(self._folder, _FOLDER)
        try:
            with os.scandir(handle) as entries:
                for number, entry in enumerate(entries):
                    if number >= RANKS_MAX:
                        raise _TooMany
                    if not _RANK.fullmatch(entry.name):
                        if not ignored:
                            ignored.append(f"{entry.name[:32]!a}, which is no rank's number")
                        continue
                    try:
                        file = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # it was replaced just now
                    if stat.S_ISREG(file.st_mode):
                        found[entry.name] = file
                    elif not ignored:
                        ignored.append(f"{entry.name}, {kind_of(file.st_mode)} and no regular file")
        finally:
            os.close(handle)
        return found

    def _sign(self, name: str, file: os.stat_result, moment: Moment) -> _Sign:
        known = self._signs.get(name)
        if known is not None and (known.mtime_ns, known.inode) == (file.st_mtime_ns, file.st_ino):
            return known
        age_s = 0.0
        if known is None:
            age_s = max(0.0, moment.wall_s + self._volume_offset_s() - file.st_mtime)
        return _Sign(mtime_ns=file.st_mtime_ns, inode=file.st_ino, changed_s=moment.now_s - age_s)

    def _parts(self, moment: Moment) -> tuple[Part, ...]:
        """One part for each number: a rank that has two files is as alive as the livelier."""
        latest: dict[int, float] = {}
        for name, sign in self._signs.items():
            rank = int(name.removesuffix(".json"))
            latest[rank] = max(latest.get(rank, sign.changed_s), sign.changed_s)
        return tuple(
            Part(name=f"rank {rank}", silent_s=max(0.0, moment.now_s - changed_s))
            for rank, changed_s in sorted(latest.items())
        )
