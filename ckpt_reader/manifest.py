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
from typing import Any

__all__ = ["write_manifest"]

_MANIFEST = "manifest.json"
# Not blocking, because a FIFO would hold the job; no links, because they may lead out of the checkpoint.
_THERE_BYTES_MAX = 4 << 20  # of what stands there already: this runs in the training job
_SAFELY = sum(getattr(os, f"O_{name}", 0) for name in ("NONBLOCK", "NOFOLLOW", "CLOEXEC"))


def write_manifest(path: str | os.PathLike[str]) -> bool:
    """Leaves ``manifest.json`` in a checkpoint's folder, ``NAME.manifest.json`` beside a checkpoint that is one file.

    Call it when the save is over, its last rename included, and on one rank. It reads the checkpoint once, in little
    memory. True when the manifest is there. It never raises: False when there is no checkpoint, when a file of it
    cannot be read or is still written, and when the manifest cannot be written or another program has a file of its
    name. The checkpoint is as good as before in any case.
    """
    try:
        path = os.path.abspath(path)
        if os.path.islink(path):
            return False
        if not os.path.isdir(path):
            return _put(f"{path}.{_MANIFEST}", {os.path.basename(path): _entry(path)})
        own = os.path.join(path, _MANIFEST)
        files = {os.path.relpath(file, path): _entry(file) for file in _files_below(path) if file != own}
        return bool(files) and _put(own, files)
    except Exception:  # whatever it is, training matters more; an interrupt is no Exception and passes
        return False


def _files_below(folder: str) -> list[str]:
    """Every regular file but what an interrupted write_manifest has left, and a governor's own."""
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False) and entry.name != ".ckpt-governor":
                found += _files_below(entry.path)
            elif entry.is_file(follow_symlinks=False) and not entry.name.startswith(f".{_MANIFEST}.tmp"):
                found.append(entry.path)
    return found


def _entry(path: str) -> dict[str, object]:
    """The size and checksum of a file. Raises OSError when it cannot be read, is no file, or somebody writes it."""
    with _open(path) as file:
        size, crc, buffer = 0, 0, memoryview(bytearray(1 << 20))
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise OSError(f"{path} is no file")
        while size <= before.st_size and (count := file.readinto(buffer)):
            size, crc = size + count, zlib.crc32(buffer[:count], crc)
        if (size, os.fstat(file.fileno()).st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise OSError(f"{path} is still written")
    return {"size": size, "crc32": f"{crc:08x}"}


def _put(path: str, files: dict[str, dict[str, object]]) -> bool:
    """Puts the manifest there as a whole or not at all, and on the disk."""
    with suppress(FileNotFoundError), _open(path) as file:
        text = file.read(_THERE_BYTES_MAX + 1)
        if len(text) > _THERE_BYTES_MAX or "files" not in json.loads(text):
            return False
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.tmp-{os.getpid():x}{time.time_ns():x}")
    try:
        with open(beside, "xb") as file:
            file.write(json.dumps({"v": 1, "files": files}, separators=(",", ":")).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with suppress(OSError):  # ordinarily there is nothing left to remove
            os.unlink(beside)
    with suppress(OSError):  # some volumes cannot, and the manifest is there all the same
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return True


def _open(path: str) -> Any:
    return open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | _SAFELY))
