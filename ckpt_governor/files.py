"""The few ways in which files are touched: bounded reads of regular files, whole replacements, appended lines."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from attrs import frozen

CONTROL_NAME = ".ckpt-governor"
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class NotRegular(OSError):
    """Something else than a regular file stands where one is wanted."""


class TooLarge(OSError):
    """A file is larger than anything that is read here."""


@frozen(kw_only=True)
class Paths:
    """Where the files of one unit's contract lie."""

    unit: str
    control: str

    def of(self, name: str) -> str:
        """The path of one file in the control directory."""
        return os.path.join(self.control, name)

    @property
    def glue(self) -> str:
        """The folder of the drop-in files."""
        return self.of("glue")

    @property
    def acks(self) -> str:
        """The folder of the answers to hooks."""
        return self.of("acks")


def paths_of(unit: str, control_dir: str | None = None) -> Paths:
    """The paths of a unit; ``control_dir`` is where ``.ckpt-governor/`` lives when it is not in the unit itself."""
    return Paths(unit=unit, control=os.path.join(control_dir or unit, CONTROL_NAME))


def kind_of(mode: int) -> str:
    """The word for what stands there instead of a regular file."""
    for test, word in (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    ):
        if test(mode):
            return word
    return "no regular file"


COARSE_S = 3.0
"""Two writes of one size within a step of the volume's clock, up to 2 s, look alike: what may be written in place is
read again until that has passed."""


def read_bounded(path: str, bytes_max: int) -> bytes:
    """The whole content of a regular file. Never blocks on a FIFO and never follows a link.

    Raises FileNotFoundError, NotRegular, TooLarge or another OSError.
    """
    mode = os.lstat(path).st_mode
    if not stat.S_ISREG(mode):
        raise NotRegular(f"{kind_of(mode)}, not a regular file")
    handle = os.open(path, _READ_FLAGS)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise NotRegular(f"{kind_of(found.st_mode)}, not a regular file")
        if found.st_size > bytes_max:
            raise TooLarge(f"{found.st_size} bytes; at most {bytes_max} are read")
        parts, left = [], bytes_max + 1
        while left > 0:
            part = os.read(handle, left)
            if not part:
                break
            parts.append(part)
            left -= len(part)
        if left <= 0:
            raise TooLarge(f"more than {bytes_max} bytes")
        return b"".join(parts)
    finally:
        os.close(handle)


def replace_file(path: str, text: str, *, durable: bool = False) -> float:
    """Replaces a file as a whole: written beside, renamed over it. Returns the volume's mtime of what was written.

    ``durable`` also syncs the file and its folder, so that it survives a crash of the machine.
    """
    folder = os.path.dirname(path)
    beside = os.path.join(folder, f".governor-{os.getpid()}.tmp")  # any name is short enough to be renamed to
    handle = _create(beside)
    try:
        _write_all(handle, text.encode("utf-8", "surrogateescape"))
        if durable:
            os.fsync(handle)
        written = os.fstat(handle).st_mtime
    except BaseException:
        os.close(handle)
        _forget(beside)
        raise
    os.close(handle)
    try:
        os.replace(beside, path)
    except OSError:
        _forget(beside)
        raise
    if durable:
        _sync_folder(folder)
    return written


def _create(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileExistsError:
        os.unlink(path)  # our own name and pid: left by a former process
        return os.open(path, flags, 0o644)


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _forget(path: str) -> None:
    with suppress(OSError):  # the error that led here is the one to tell
        os.unlink(path)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems cannot sync a folder; the rename itself is done
    finally:
        os.close(handle)


def append_line(path: str, line: str, *, rotate_bytes: int) -> None:
    """Appends one line; beyond ``rotate_bytes`` the file becomes ``NAME.1`` and a new one begins.

    A line that was torn by a crash is closed first, so that it spoils no other.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags, 0o644)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise NotRegular(f"{kind_of(found.st_mode)}, not a regular file")
        size = found.st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        _write_all(handle, ("\n" if torn else "").encode() + line.encode("utf-8", "surrogateescape") + b"\n")
    finally:
        os.close(handle)
    if size >= rotate_bytes:
        os.replace(path, path + ".1")


def make_control(paths: Paths) -> None:
    """Makes the control directory and its folders where they are missing. Raises OSError, also for links."""
    # Whoever may write checkpoints may take part, also under another user than this process.
    shared = os.stat(os.path.dirname(paths.control)).st_mode & 0o022
    for folder in (paths.control, paths.glue, paths.acks):
        try:
            os.mkdir(folder, 0o755)
            os.chmod(folder, os.stat(folder).st_mode & 0o7777 | shared)
        except FileExistsError:
            mode = os.lstat(folder).st_mode
            if not stat.S_ISDIR(mode):
                raise NotRegular(f"{folder} is {kind_of(mode)}, not a directory") from None


def words_of(error: OSError) -> str:
    """What the system says of an error, without the path."""
    return error.strerror or str(error)
