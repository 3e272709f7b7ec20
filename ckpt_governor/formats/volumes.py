"""What the system says of the file system that a file lies on."""

from __future__ import annotations

import os
from functools import lru_cache

_MOUNTS = "/proc/self/mountinfo"
_MOUNTS_BYTES_MAX = 4 << 20
_PLAIN = frozenset(["ext2", "ext3", "ext4", "xfs", "tmpfs"])
"""They store what is written: zeros never become a hole by themselves, as they do where data is compressed."""


@lru_cache(maxsize=64)
def keeps_written_zeros(device: int) -> bool:
    """Whether a hole on this device is a place where nobody has written; False also when that cannot be told."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
            lines = file.read(_MOUNTS_BYTES_MAX).splitlines()
    except OSError:
        return False
    kinds = {_kind(line) for line in lines if line.split(" ", 3)[2:3] == [number]}
    return bool(kinds) and kinds <= _PLAIN


def _kind(line: str) -> str:
    """The file system's type: the first word behind the lone dash."""
    return line.partition(" - ")[2].partition(" ")[0]
