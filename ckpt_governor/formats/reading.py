"""Opens the files of a copy: never through a link, never a device or pipe, and never waiting for anybody."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from ckpt_governor.formats.interface import OpenFile
from ckpt_governor.formats.volumes import keeps_written_zeros

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
        self._device = seen.st_dev

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

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fills the buffer; how many bytes it got, which is fewer only at the end of the file."""
        filled = 0
        while filled < len(buffer):
            count = os.preadv(self._descriptor, [buffer[filled:]], offset + filled)
            if count == 0:
                break
            filled += count
        return filled

    def read_once(self) -> None:
        """Tells the system that long runs of it will be read in order, and once: what others have in memory stays."""
        with contextlib.suppress(OSError):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_NOREUSE)

    def keeps_written_zeros(self) -> bool:
        """Whether a hole in it is a place where nobody has written; False when zeros may have become one."""
        return keeps_written_zeros(self._device)

    def tail_hole(self, spared_bytes: int = 0) -> int | None:
        """Where the hole begins that reaches the end of the file, or all but so many bytes of it; None when there is
        none or none can be seen."""
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
                if self.size - position <= spared_bytes:
                    return hole
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


class Window:
    """A part of an open file as a file of its own: an archive inside a shard. Closing it closes nothing."""

    def __init__(self, file: OpenFile, at: int, length: int) -> None:
        self._file, self._at = file, at
        self.size = max(0, min(length, file.size - at))
        self.mtime_ns = file.mtime_ns

    def read_at(self, offset: int, count: int) -> bytes:
        """Up to ``count`` bytes; fewer at its end."""
        if offset < 0:
            return b""
        return self._file.read_at(self._at + offset, min(count, self.size - offset))

    def keeps_written_zeros(self) -> bool:
        """As the whole file."""
        return self._file.keeps_written_zeros()

    def tail_hole(self, spared_bytes: int = 0) -> int | None:
        """None: where the whole file has a hole is for its own format to ask."""
        return None

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        pass
