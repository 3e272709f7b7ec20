"""Writes one small file on the checkpoint volume, reads it back and takes it away; deletes nothing of anybody else."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

PREFIX = ".canary-"
CONTENT = (
    b"checkpoint-governor: is this volume still writable? This file may be deleted at any time.\n" * 64
)[:4096]
"""What every canary holds: only a file of exactly this is ever taken for a left one of ours."""
LEFT_S = 3600.0
"""A canary this much older than the present one was left by a governor that was killed."""
ENTRIES_MAX = 4096
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class WrongBytes(OSError):
    """What was read back is not what was written."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "what is read back is not what was written")


class Canary:
    """One file in one folder, again and again. Several hosts may do so in one folder: each name is its own."""

    def __init__(self, folder: str, clock: Callable[[], float]) -> None:
        """``clock`` gives seconds; only differences count."""
        self._folder, self._clock = folder, clock
        # Process numbers are the same in many containers, so something that is not is added.
        self._name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        self._left: set[str] = set()  # what could not be taken away when the volume failed

    def write(self) -> float:
        """Seconds that create, write, fsync, rename, read and unlink took. Raises OSError.

        The bytes may come back from this host's memory: a volume that loses them later is not found out.
        """
        folder = os.open(self._folder, _FOLDER)
        try:
            return self._write_in(folder)
        finally:
            os.close(folder)

    def device(self) -> int:
        """The number of the file system that the folder lies on. Raises OSError."""
        return os.lstat(self._folder).st_dev

    def _write_in(self, folder: int) -> float:
        renamed = self._name + "-renamed"
        for name in sorted(self._left):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            self._left.discard(name)
        began_s = self._clock()
        handle = os.open(self._name, _CREATE, 0o600, dir_fd=folder)
        standing = self._name
        try:
            try:
                _write_all(handle)
                os.fsync(handle)
                written_s = os.fstat(handle).st_mtime
                os.rename(self._name, renamed, src_dir_fd=folder, dst_dir_fd=folder)
                standing = renamed
            finally:
                os.close(handle)
            if _content(folder, renamed) != CONTENT:
                raise WrongBytes
            os.unlink(renamed, dir_fd=folder)
            standing = ""
            took_s = self._clock() - began_s
        finally:
            if standing:
                self._left.add(standing)
                with suppress(OSError):  # the error that led here is the one to tell
                    os.unlink(standing, dir_fd=folder)
                    self._left.discard(standing)
        _sweep(folder, written_s)
        return max(0.0, took_s)


def _write_all(handle: int) -> None:
    left = CONTENT
    while left:
        left = left[os.write(handle, left) :]


def _content(folder: int, name: str) -> bytes:
    """The file's bytes, and one more than a canary has when there are more. Raises OSError."""
    handle = os.open(name, _READ, dir_fd=folder)
    try:
        found = b""
        while len(found) <= len(CONTENT) and (part := os.read(handle, len(CONTENT) + 1 - len(found))):
            found += part
        return found
    finally:
        os.close(handle)


def _sweep(folder: int, now_s: float) -> None:
    """Takes away what killed governors left. ``now_s`` is the volume's own clock: both times are its."""
    with suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, ENTRIES_MAX) if entry.name.startswith(PREFIX)]
        for name in names:
            with suppress(OSError):
                if _is_left(folder, name, now_s):
                    os.unlink(name, dir_fd=folder)


def _is_left(folder: int, name: str, now_s: float) -> bool:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size == len(CONTENT)
        and found.st_nlink == 1
        and now_s - found.st_mtime > LEFT_S
        and _content(folder, name) == CONTENT
    )
