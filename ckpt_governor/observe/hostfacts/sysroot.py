"""Reads the small files of /proc and /sys below a root that tests may choose: bounded, and nothing is believed."""

from __future__ import annotations

import os
import re
from itertools import islice

from ckpt_governor.files import read_bounded

TEXT_BYTES_MAX = 64 * 1024
"""No file of one value, and none of the short tables, is larger."""
ENTRIES_MAX = 1024
"""More entries of one folder than this are not looked at."""
_NUMBER = re.compile(r"[0-9]{1,20}")


class Damage(ValueError):
    """A file that does not say what the kernel's documentation promises."""


class SysRoot:
    """The kernel's files, seen below one root."""

    def __init__(self, sysroot: str = "/") -> None:
        self._sysroot = sysroot

    def path(self, name: str) -> str:
        """Where ``/proc/meminfo`` and its like lie here."""
        return os.path.join(self._sysroot, name.lstrip("/"))

    def text(self, name: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
        """The whole text of a regular file. Raises OSError, TooLarge among them."""
        return read_bounded(self.path(name), bytes_max).decode("utf-8", "replace")

    def number(self, name: str) -> int:
        """The one whole number in a file. Raises OSError or Damage."""
        return whole_number(self.text(name), name)

    def names(self, folder: str, pattern: str) -> list[str]:
        """The entries of a folder whose whole name fits, in sorting order; empty when the folder is not there."""
        fits = re.compile(pattern)
        try:
            with os.scandir(self.path(folder)) as entries:
                found = [entry.name for entry in islice(entries, ENTRIES_MAX) if fits.fullmatch(entry.name)]
        except OSError:
            return []
        return sorted(found)

    def table(self, name: str) -> dict[str, int]:
        """A file of lines ``word number``, such as memory.stat; other lines are left out. Raises OSError."""
        found: dict[str, int] = {}
        for line in self.text(name).splitlines():
            words = line.replace(":", " ", 1).split()
            if len(words) >= 2 and _NUMBER.fullmatch(words[1]):
                found[words[0]] = int(words[1])
        return found


def whole_number(text: str, name: str) -> int:
    """The number that a text is. Raises Damage, which names the file."""
    if not _NUMBER.fullmatch(text.strip()):
        raise Damage(f"{name}: a whole number is wanted, this is {text.strip()[:32]!a}")
    return int(text)


def why_not(error: OSError | Damage, name: str) -> str:
    """What is wrong with a file, for a person: damage names its file itself."""
    if isinstance(error, OSError):
        return f"{name}: {error.strerror or error}"
    return str(error)


def host_memory(root: SysRoot) -> tuple[int, int]:
    """Available and total bytes of the whole host. Raises OSError or Damage."""
    name = "/proc/meminfo"
    table = root.table(name)
    found: list[int] = []
    for word in ("MemAvailable", "MemTotal"):
        if word not in table:
            raise Damage(f"{name} has no {word}")
        found.append(table[word] * 1024)
    available, total = found
    if total == 0 or available > total:
        raise Damage(f"{name}: MemAvailable {available} of MemTotal {total} bytes cannot be")
    return available, total
