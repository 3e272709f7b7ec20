"""How close the job is to being killed for memory: its control group (v2, v1), or the whole host.

A container's own control group is the container's: where the governor runs beside the job in a pod, its limits are
not the job's, and only what the host shows is told. A limit may be set on any group between the job's own and the
root of the mount (batch systems set it on the job, not on the task), so every level is looked at and the one that is
filled most is told.
"""

from __future__ import annotations

import posixpath
import re

from attrs import evolve, frozen

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Moment, Report
from ckpt_governor.observe.hostfacts.sysroot import Damage, SysRoot, host_memory, whole_number, why_not
from ckpt_governor.observe.source import failure, success
from ckpt_governor.signs import Memory

LEVELS_MAX = 64
"""More levels of groups than this are not looked at."""
_FULL_AVG10 = re.compile(r"full avg10=([0-9]{1,3}(?:\.[0-9]{1,4})?)(?: .*)?")


@frozen(kw_only=True)
class _Files:
    """What the files of one version of control groups are called."""

    mount: str
    used: str
    limit: str
    inactive: str
    """The word in memory.stat of what can be dropped at once; in v1 the one that counts the groups below, too."""


_V2 = _Files(mount="/sys/fs/cgroup", used="memory.current", limit="memory.max", inactive="inactive_file")
_V1 = _Files(
    mount="/sys/fs/cgroup/memory",
    used="memory.usage_in_bytes",
    limit="memory.limit_in_bytes",
    inactive="total_inactive_file",
)


class MemorySource:
    """The memory of the job's control group; of the whole host where that has no limit or is not known."""

    name = "cgroup"
    covers: tuple[Condition, ...] = (Condition.MEMORY,)

    def __init__(self, *, own_cgroup_is_the_jobs: bool, sysroot: str = "/") -> None:
        self.every_s = 2.0
        self._own = own_cgroup_is_the_jobs
        self._root = SysRoot(sysroot)

    def read(self, moment: Moment) -> Report:
        """The working set and its limit; failed when neither a group nor the host can be read."""
        name = "/proc/meminfo"
        try:
            available, total = host_memory(self._root)
            name = "the control group"
            memory = self._tightest(total) if self._own else None
        except (OSError, Damage) as error:
            return failure(self, moment, why_not(error, name))
        if memory is None:
            memory = Memory(
                used_bytes=total - available,
                limit_bytes=total,
                full_avg10=self._full_avg10("/proc/pressure/memory"),
                source="meminfo",
            )
        return evolve(success(self, moment), memory=memory)

    def _tightest(self, host_bytes: int) -> Memory | None:
        """The fullest level that has a limit; None when none has one, or no group can be found."""
        found = [
            level
            for files, folder in self._levels()
            if (level := self._level(files, folder, host_bytes)) is not None
        ]
        return max(found, key=lambda level: level.used_bytes / level.limit_bytes, default=None)

    def _levels(self) -> list[tuple[_Files, str]]:
        """The folders of the own group and of those above it, as far as they are mounted here."""
        try:
            text = self._root.text("/proc/self/cgroup")
        except OSError:
            return []
        files, path = _V2, ""
        for line in text.splitlines():
            _, _, rest = line.partition(":")
            controllers, _, group = rest.partition(":")
            if "memory" in controllers.split(","):
                files, path = _V1, group
                break
            if not controllers:
                path = group
        if ".." in path.split("/"):
            return []  # the group lies outside of what is mounted here: the root that is seen is another's
        own = posixpath.join(files.mount, path.lstrip("/")).rstrip("/")
        if not self._has(files, own):
            own = (
                files.mount
            )  # in a container the mount may begin at the own group, whatever its path is called
        folders = [own]
        while folders[-1] != files.mount and len(folders) < LEVELS_MAX:
            folders.append(posixpath.dirname(folders[-1]))
        return [(files, folder) for folder in folders if self._has(files, folder)]

    def _has(self, files: _Files, folder: str) -> bool:
        try:
            self._root.text(f"{folder}/{files.limit}")
        except OSError:
            return False
        return True

    def _level(self, files: _Files, folder: str, host_bytes: int) -> Memory | None:
        """One level; None without a limit. Raises OSError or Damage: a limit of which no more is known is unknown."""
        limit = self._limit(f"{folder}/{files.limit}", host_bytes)
        if limit is None:
            return None
        stat = self._root.table(f"{folder}/memory.stat")
        if files.inactive not in stat:
            raise Damage(f"{folder}/memory.stat has no {files.inactive}")
        used = self._root.number(f"{folder}/{files.used}")
        pressure = f"{folder}/memory.pressure" if files is _V2 else "/proc/pressure/memory"
        return Memory(
            used_bytes=max(0, used - stat[files.inactive]),
            limit_bytes=limit,
            limit_hits=self._hits(files, folder),
            full_avg10=self._full_avg10(pressure),
        )

    def _limit(self, name: str, host_bytes: int) -> int | None:
        """The limit; None where it is none: ``max``, v1's largest number, and what the host does not have anyway."""
        text = self._root.text(name).strip()
        if text == "max":
            return None
        limit = whole_number(text, name)
        if limit == 0:
            raise Damage(f"{name}: a limit of 0 bytes cannot be a running job's")
        return None if limit >= host_bytes else limit

    def _hits(self, files: _Files, folder: str) -> int | None:
        try:
            if files is _V1:
                return self._root.number(f"{folder}/memory.failcnt")
            return self._root.table(f"{folder}/memory.events").get("max")
        except (OSError, Damage):
            return None

    def _full_avg10(self, name: str) -> float | None:
        """Per cent; None where pressure is not counted (psi=0, an old kernel)."""
        try:
            text = self._root.text(name)
        except OSError:
            return None
        found = next((match for line in text.splitlines() if (match := _FULL_AVG10.fullmatch(line))), None)
        return float(found[1]) if found else None
