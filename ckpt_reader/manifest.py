"""Writes down what a checkpoint consists of: ``write_manifest()``, called after a save.

One file, standard library only: it can be copied into any project, under any name. With it ``ckptctl copies``
knows the exact size of every file, and ``ckptctl copies --deep`` finds every damaged byte, whatever the format.
"""

import json
import os
import stat
import time
import zlib
from contextlib import suppress
from io import FileIO

__all__ = ["write_manifest"]

_MANIFEST = "manifest.json"
_TEXT_BYTES_MAX = 4 << 20  # of a manifest: nobody reads a longer one
# Not blocking, because a FIFO would hold the job; no links, because they may lead out of the checkpoint.
_SAFELY = sum(getattr(os, f"O_{name}", 0) for name in ("NONBLOCK", "NOFOLLOW", "CLOEXEC"))
_Files = dict[str, dict[str, object]]


def write_manifest(path: str | os.PathLike[str]) -> bool:
    """Leaves ``manifest.json`` in a checkpoint's folder, ``NAME.manifest.json`` beside a checkpoint that is one file.

    Call it when the save is over, its last rename included, and on one rank. It reads the checkpoint once, in little
    memory. True when the manifest is there. It never raises: False when there is no checkpoint, when a file of it
    cannot be read or is still written, and when the manifest cannot be written or another program has a file of its
    name. The checkpoint is as good as before in any case.
    """
    try:
        path = os.path.abspath(path)
        if os.path.isdir(path) and not os.path.islink(path):
            files = _files_below(path)
            return bool(files) and _put(path, _MANIFEST, files)
        folder, name = os.path.split(path)
        return _put(folder, f"{name}.{_MANIFEST}", {name: _entry(path)})
    except Exception:  # whatever it is, training matters more; an interrupt is no Exception and passes
        return False


def _files_below(path: str) -> _Files:
    """Every regular file but a governor's own, the manifest, and what an interrupted write of it has left."""
    files: _Files = {}
    for folder, inner, names, opened in os.fwalk(path, onerror=_raise):  # which enters no link
        inner[:] = [name for name in inner if name != ".ckpt-governor"]
        below = os.path.relpath(folder, path)
        for name in names:
            own = name.startswith(f".{_MANIFEST}.tmp") or (below == "." and name == _MANIFEST)
            if not own and stat.S_ISREG(os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode):
                files[os.path.normpath(os.path.join(below, name))] = _entry(name, opened)
    return files


def _raise(error: OSError) -> None:
    raise error


def _entry(name: str, folder: int | None = None) -> dict[str, object]:
    """The size and checksum of a file. Raises OSError when it cannot be read, is no file, or somebody writes it."""
    with _open(name, folder) as file:
        size, crc, buffer = 0, 0, memoryview(bytearray(1 << 20))
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise OSError(f"{name} is no file")
        while size <= before.st_size and (count := file.readinto(buffer)):
            size, crc = size + count, zlib.crc32(buffer[:count], crc)
        if (size, os.fstat(file.fileno()).st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise OSError(f"{name} is still written")
    return {"size": size, "crc32": f"{crc:08x}"}


def _put(folder: str, name: str, files: _Files) -> bool:
    """Puts the manifest there as a whole or not at all, and on the disk."""
    path = os.path.join(folder, name)
    beside = os.path.join(folder, f".{name}.tmp-{os.getpid():x}{time.time_ns():x}")
    text = json.dumps({"v": 1, "files": files}, separators=(",", ":")).encode()
    with suppress(FileNotFoundError), _open(path) as file:
        if "files" not in json.loads(file.read(_TEXT_BYTES_MAX)):
            return False
    if len(text) > _TEXT_BYTES_MAX:
        return False
    try:
        with open(beside, "xb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with suppress(OSError):  # ordinarily there is nothing left to remove
            os.unlink(beside)
    with suppress(OSError):  # some volumes cannot, and the manifest is there all the same
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    return True


def _open(name: str, folder: int | None = None) -> FileIO:
    return open(name, "rb", 0, opener=lambda name, flags: os.open(name, flags | _SAFELY, dir_fd=folder))
