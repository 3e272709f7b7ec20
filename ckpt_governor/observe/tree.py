"""The folders of one unit, listed again only when they may have changed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator

from ckpt_governor.formats.interface import Format
from ckpt_governor.formats.reading import open_folder

ENTRIES_MAX = 100_000
"""In one folder; what lies beyond is not seen, and the look says so."""
_SMALL = 64
"""So few entries are listed at every look: as cheap as asking, and right where a folder's mtime does not move."""
_SETTLED_S = 3.0
"""A folder's mtime is coarse: a name that comes within the same tick as a listing does not move it again."""
_TRUST_S = 10.0
"""An unchanged folder is listed again after this all the same; object stores do not keep folder times."""

Mark = tuple[int, int, int, int]


class Folder:
    """One folder as it was last listed: the names in it by their sort, each sorted."""

    __slots__ = (
        "claim",
        "files",
        "folders",
        "full",
        "here",
        "links",
        "listed_s",
        "mark",
        "marked_s",
        "parts",
        "walk",
    )

    def __init__(self, mark: Mark, marked_s: float, listed_s: float) -> None:
        self.mark = mark
        self.marked_s = marked_s
        """Since when the mark has been this one."""
        self.listed_s = listed_s
        self.files: list[str] = []
        self.folders: list[str] = []
        self.links: list[str] = []
        self.walk = 0
        self.full = False
        """It holds more than may be looked at."""
        self.claim: tuple[Format, bool] | tuple[()] | None = None
        """What its names make of it, once asked: a format and whether it is temporary; empty for none."""
        self.here: frozenset[str] | None = None
        self.parts: list[str] | None = None
        """Those of its files that count as parts of a copy, once asked."""

    def holds(self) -> frozenset[str]:
        """The files in it, to ask for some."""
        if self.here is None:
            self.here = frozenset(self.files)
        return self.here

    def same_names(self, other: Folder) -> bool:
        """Whether both listings show the same."""
        return (self.files, self.folders, self.links) == (other.files, other.folders, other.links)


def gone(error: OSError) -> bool:
    """Whether this says that something is not there (any more), or is now something else."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class Tree:
    """Remembers the listings of the folders below one root."""

    def __init__(self) -> None:
        self._folders: dict[str, Folder] = {}
        self._times_lie = False
        self._walk = 0

    def begin_walk(self) -> None:
        """What was listed before may have changed; within one walk a folder is listed once."""
        self._walk += 1

    def list(self, root: int, path: str, now_s: float, volume_now_s: float) -> Folder:
        """The folder at this path below the root, links not followed. Raises OSError."""
        known = self._folders.get(path)
        if known is not None and known.walk == self._walk:
            return known
        if known is not None and self._may_skip(known, now_s):
            seen = os.stat(path or ".", dir_fd=root, follow_symlinks=False)
            if _mark(seen) == known.mark:
                known.walk = self._walk
                return known
        try:
            folder = self._list(root, path, known, now_s, volume_now_s)
        except OSError:
            self._folders.pop(path, None)
            raise
        if known is not None and known.same_names(folder):
            folder.claim, folder.parts, folder.here = known.claim, known.parts, known.here
        elif known is not None and known.mark == folder.mark:
            settled = known.listed_s - known.marked_s >= _SETTLED_S
            self._times_lie = self._times_lie or settled
        folder.walk = self._walk
        self._folders[path] = folder
        return folder

    def _may_skip(self, known: Folder, now_s: float) -> bool:
        """Whether asking for its mtime is both cheaper than listing it, and enough."""
        count = len(known.files) + len(known.folders) + len(known.links)
        if self._times_lie or (count <= _SMALL and len(self._folders) <= _SMALL):
            return False
        return known.listed_s - known.marked_s >= _SETTLED_S and now_s - known.listed_s < _TRUST_S

    def _list(self, root: int, path: str, known: Folder | None, now_s: float, volume_now_s: float) -> Folder:
        descriptor = open_folder(root, path)
        try:
            seen = os.fstat(descriptor)
            mark = _mark(seen)
            if known is not None and known.mark == mark:
                marked_s = known.marked_s
            else:
                marked_s = now_s - max(0.0, volume_now_s - seen.st_mtime)
            folder = Folder(mark, marked_s, now_s)
            with os.scandir(descriptor) as entries:
                _sort_in(folder, entries)
        finally:
            os.close(descriptor)
        return folder

    def keep_only(self, wanted: Callable[[str], bool]) -> None:
        """Drops the listings of folders that are not there any more."""
        for path in [path for path in self._folders if not wanted(path)]:
            del self._folders[path]


def _mark(seen: os.stat_result) -> Mark:
    if not stat.S_ISDIR(seen.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return seen.st_dev, seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns


def _sort_in(folder: Folder, entries: Iterator[os.DirEntry[str]]) -> None:
    """Devices, pipes and sockets are left out: they are never opened."""
    for count, entry in enumerate(entries):
        if count >= ENTRIES_MAX:
            folder.full = True
            break
        if entry.is_symlink():
            folder.links.append(entry.name)
        elif entry.is_dir(follow_symlinks=False):
            folder.folders.append(entry.name)
        elif entry.is_file(follow_symlinks=False):
            folder.files.append(entry.name)
    for names in (folder.files, folder.folders, folder.links):
        names.sort()
