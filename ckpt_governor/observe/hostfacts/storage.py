"""Whether the checkpoint volume itself fails: mounted read-only, or a small file cannot be written and read back.

A volume that hangs holds up only the thread that reads this source; its report becomes stale, which is told.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable

from attrs import evolve

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Moment, Report
from ckpt_governor.files import words_of
from ckpt_governor.observe.hostfacts.canary import Canary
from ckpt_governor.observe.hostfacts.sysroot import SysRoot
from ckpt_governor.observe.source import failure, success
from ckpt_governor.signs import Storage

MOUNTINFO_BYTES_MAX = 8 * 1024 * 1024
"""A node with thousands of containers has a long table."""
SPACE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
"""No space is another condition: the volume works."""
DENIED_ERRNOS = frozenset({errno.EACCES, errno.EPERM})
STORAGE_ERRNOS = frozenset(
    {
        errno.EROFS,
        errno.ESTALE,
        errno.EIO,
        errno.ETIMEDOUT,
        errno.EREMOTEIO,
        errno.EUCLEAN,
        errno.ENOTCONN,  # the process behind a FUSE mount has ended
        errno.ESHUTDOWN,
        errno.EHOSTDOWN,
        errno.ENODEV,
        errno.ENXIO,
    }
)
"""What a volume says that fails."""
_OCTAL = re.compile(r"\\([0-7]{3})")


class StorageSource:
    """The mount of the checkpoint directory and a canary in the control directory."""

    name = "canary"
    covers: tuple[Condition, ...] = (Condition.STORAGE,)

    def __init__(
        self,
        *,
        folder: str,
        control: str,
        sysroot: str = "/",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``folder`` holds the checkpoints; a control directory on another volume tells nothing of theirs."""
        self.every_s = 30.0
        self._folder = folder
        self._root = SysRoot(sysroot)
        self._canary = Canary(control, clock)

    def read(self, moment: Moment) -> Report:
        """How the volume answers; failed when it may not be asked."""
        try:
            read_only = self._read_only()
            if read_only or not self._is_on_the_volume():
                return evolve(success(self, moment), storage=Storage(read_only=read_only))
        except OSError as error:
            return self._told(moment, error, None, "the checkpoint directory cannot be looked at")
        try:
            canary_s = self._canary.write()
        except OSError as error:
            return self._told(moment, error, read_only, "no canary can be written to the control directory")
        return evolve(success(self, moment), storage=Storage(read_only=read_only, canary_s=canary_s))

    def _told(self, moment: Moment, error: OSError, read_only: bool | None, what: str) -> Report:
        """What an error says of the volume: that it fails, nothing, or that it may not be asked."""
        if error.errno in SPACE_ERRNOS:
            return evolve(success(self, moment), storage=Storage(read_only=read_only))
        if error.errno in STORAGE_ERRNOS:
            read_only = True if error.errno == errno.EROFS else read_only
            storage = Storage(read_only=read_only, error=words_of(error))
            return evolve(success(self, moment), storage=storage)
        right = "; give this user access, or switch this source off" if error.errno in DENIED_ERRNOS else ""
        return failure(self, moment, f"{what}: {words_of(error)}{right}")

    def _is_on_the_volume(self) -> bool:
        """Whether a canary would lie on the checkpoints' volume. Raises OSError of the volume."""
        device = os.stat(self._folder).st_dev
        try:
            return self._canary.device() == device
        except FileNotFoundError:
            return False  # the control directory is made by the governor when it begins to govern

    def _read_only(self) -> bool | None:
        """True when the mount or its file system takes no writes; None when nobody tells. Raises OSError."""
        told: list[bool] = [bool(os.statvfs(self._folder).f_flag & os.ST_RDONLY)]
        try:
            text = self._root.text("/proc/self/mountinfo", MOUNTINFO_BYTES_MAX)
        except OSError:
            return told[0]
        options = mount_options(text, os.path.realpath(self._folder))
        return told[0] or "ro" in options


def mount_options(mountinfo: str, path: str) -> frozenset[str]:
    """The options of the mount that a path lies on, those of its file system included; pure.

    The longest mount point that is the path or above it counts, and of several mounts on one point the last.
    """
    length = -1
    options: frozenset[str] = frozenset()
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) < 6 or "-" not in fields[6:]:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]).rstrip("/")
        if len(point) >= length and (path + "/").startswith(point + "/"):
            length = len(point)
            after = fields[fields.index("-", 6) + 1 :]  # type, source, options of the file system
            options = frozenset([*fields[5].split(","), *(after[2].split(",") if len(after) > 2 else ())])
    return options
