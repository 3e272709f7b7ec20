"""Opens the files of a copy: never through a link, never a device or pipe, and never waiting for anybody."""

from __future__ import annotations

import errno
import os
import stat

_FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_BYTES_MAX = 64 << 20


def words(error: OSError) -> str:
    """An error in the system's own words, without a path: names are untrusted and printed elsewhere."""
    return os.strerror(error.errno).lower() if error.errno else "an unknown error"


def open_folder(root: int, path: str) -> int:
    """A folder below an open one; each part is opened without following a link. Raises OSError."""
    folder = os.dup(root)
    for part in path.split("/") if path else ():
        try:
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


class RegularFile:
    """One regular file below an open folder. Raises OSError when it is gone, is not readable or is something else."""

    def __init__(self, root: int, path: str) -> None:
        folder_path, _, name = path.rpartition("/")
        folder = open_folder(root, folder_path) if folder_path else root
        try:
            self._descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
        finally:
            if folder_path:
                os.close(folder)
        try:
            seen = os.fstat(self._descriptor)
            if not stat.S_ISREG(seen.st_mode):
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        except OSError:
            os.close(self._descriptor)
            raise
        self.size = seen.st_size
        self.mtime_ns = seen.st_mtime_ns

    def read_at(self, offset: int, count: int) -> bytes:
        """Up to ``count`` bytes; fewer at the end of the file."""
        if offset < 0 or count <= 0:
            return b""
        count = min(count, _READ_BYTES_MAX)
        data = os.pread(self._descriptor, count, offset)
        while len(data) < count:  # a network file system may give less than it has
            more = os.pread(self._descriptor, count - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def tail_hole(self) -> int | None:
        """Where the hole begins that reaches the end of the file; None when there is none or none can be seen."""
        if self.size == 0:
            return None
        position = 0
        try:
            for _ in range(4096):  # holes between data are legal, and their number is not ours to choose
                hole = os.lseek(self._descriptor, position, os.SEEK_HOLE)
                if hole >= self.size:
                    return None
                try:
                    position = os.lseek(self._descriptor, hole, os.SEEK_DATA)
                except OSError as error:
                    return hole if error.errno == errno.ENXIO else None
        except OSError:
            return None
        return None

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)

    def __enter__(self) -> RegularFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
