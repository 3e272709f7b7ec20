"""One copy as the scanner keeps it from look to look: looked at by ``stat``, opened only when it changed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterator
from math import inf

from ckpt_governor.facts import Structure
from ckpt_governor.formats import format_named, format_of_file, format_of_open
from ckpt_governor.formats.interface import (
    HEAD_BYTES,
    NO_CHECKSUMS,
    Format,
    Judgement,
    Member,
    MemberFile,
    Plan,
    T,
    TakesLong,
)
from ckpt_governor.formats.manifest import judge_by_manifest
from ckpt_governor.formats.marks import empty_member
from ckpt_governor.formats.naming import final_of, is_bare_write, is_ignored, is_log, is_no_part
from ckpt_governor.formats.reading import RegularFile, words
from ckpt_governor.observe.keeping import Kept
from ckpt_governor.observe.shown import sighting_of
from ckpt_governor.observe.tree import Folder, gone

MEMBERS_MAX = 50_000
_DEPTH_MAX = 8
_RACY_S = 2.0
"""A file may change again within the tick of its mtime: what was found incomplete that soon is looked at once more."""
_ERROR_RETRY_S = 5.0
_HOLLOW_MAX = 1024
JUDGE_S_MAX = 1.0
"""A copy whose members take longer to be judged is judged on at the next look: the beat goes on meanwhile."""

Lister = Callable[[str], Folder]


def see(kept: Kept, root: int, list_folder: Lister) -> bool:
    """Look at sizes and times; True when anything is new. Raises FileNotFoundError when nothing is left of it."""
    error, members, hollow = "", kept.members, kept.hollow
    listed_ns = 0

    def listed(path: str) -> Folder:
        nonlocal listed_ns
        folder = list_folder(path)
        listed_ns = max(listed_ns, folder.mark[2])
        return folder

    try:
        if kept.mark is not None:
            kept.mark = listed(kept.path).mark[:2]
            found, hollow = _members(root, kept.path, listed)
            members = tuple(found)
        else:
            members = tuple(_stats(root, kept))
    except OSError as failure:
        if gone(failure):
            raise FileNotFoundError from None
        error = words(failure)
    if not members and not error:
        raise FileNotFoundError
    new = members != kept.members or error != kept.error or hollow != kept.hollow
    if new and kept.single and kept.members and members[0].inode != kept.members[0].inode:
        kept.judged = None  # so that a hole of another file is not taken for this one's
    kept.error, kept.listed_ns, kept.hollow = error, listed_ns, hollow
    if new:
        kept.members = members
        kept.written_ns = max((member.mtime_ns for member in members), default=0)
    return new


def _stats(root: int, kept: Kept) -> Iterator[Member]:
    for name in kept.group or ("",):
        path = join(kept.folder, name) if name else kept.path
        try:
            found = os.stat(path, dir_fd=root, follow_symlinks=False)
        except OSError as error:
            if gone(error):
                continue
            raise
        if stat.S_ISREG(found.st_mode):
            yield _member(name, found)


def _members(root: int, path: str, list_folder: Lister) -> tuple[list[Member], tuple[str, ...]]:
    """The regular files below a folder, in a fixed order, and the folders with nothing in them; logs are no part of it.

    This is what a look at an unchanged copy costs, so that it does nothing twice for a file.
    """
    found: list[Member] = []
    hollow: list[str] = []
    todo, seen = [("", 0)], 0
    while todo and seen + len(found) < MEMBERS_MAX:
        inner, depth = todo.pop()
        seen += 1
        at = join(path, inner)
        try:
            folder = list_folder(at)
        except OSError as error:
            if inner and gone(error):
                continue
            raise
        if folder.parts is None:
            folder.parts = [name for name in folder.files if not (is_log(name) or is_ignored(name))]
        if inner and not folder.files and not folder.folders and len(hollow) < _HOLLOW_MAX:
            hollow.append(inner)
        before, inner_before = f"{at}/", f"{inner}/" if inner else ""
        for name in folder.parts[: MEMBERS_MAX - seen - len(found)]:
            try:
                there = os.stat(before + name, dir_fd=root, follow_symlinks=False)
            except OSError as error:
                if gone(error):
                    continue
                raise
            if stat.S_ISREG(there.st_mode):
                found.append(_member(inner_before + name, there))
        if depth < _DEPTH_MAX:
            todo += [(inner_before + name, depth + 1) for name in reversed(folder.folders)]
    return found, tuple(hollow)


def _member(name: str, found: os.stat_result) -> Member:
    return Member(name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def join(folder: str, name: str) -> str:
    """A path below the unit."""
    return f"{folder}/{name}" if folder and name else folder or name


class FilesOf:
    """What a format is given of one copy."""

    def __init__(
        self,
        kept: Kept,
        root: int,
        beside: Collection[str],
        age_s: float,
        member: Member | None = None,
        judge_s: float = inf,
    ) -> None:
        self._kept, self._root = kept, root
        self._member = member
        self.name = (member.name if member else kept.path).rpartition("/")[2]
        self.members = kept.members if member is None else (member._replace(name=""),)
        self.hollow: Collection[str] = kept.hollow if member is None else ()
        self.beside = beside
        self.former = kept.judged
        if member is not None:
            known = kept.former.get(member.name)
            self.former = known[1] if known is not None and known[0].inode == member.inode else None
        self.age_s = age_s
        self._end_s, self._steps = time.monotonic() + judge_s, 0

    def path(self, name: str) -> str:
        """Of a member, below the unit."""
        inner = join(self._member.name, name) if self._member is not None else name
        return join(self._kept.folder if self._kept.group else self._kept.path, inner)

    def open(self, member: str) -> RegularFile:
        """One of the members."""
        return RegularFile(self._root, self.path(member))

    def open_beside(self, name: str) -> RegularFile:
        """A file in the folder that holds the copy."""
        return RegularFile(self._root, join(self._kept.folder, name))

    def changed(self) -> str:
        """In a clause, what has become of its members since they were looked at; empty when nothing has.

        A new name of a file, which its ctime shows, is no change.
        """
        for member in self.members:
            try:
                found = os.stat(self.path(member.name), dir_fd=self._root, follow_symlinks=False)
            except OSError as error:
                return (
                    "it vanished while it was checked"
                    if gone(error)
                    else f"it cannot be read: {words(error)}"
                )
            if _member(member.name, found)[:5] != member[:5]:
                return "it changed while it was checked"
        return ""

    def mtime_ns_beside(self, name: str) -> int | None:
        """Of a regular file in the folder that holds the copy."""
        return mtime_ns(self._root, join(self._kept.folder, name))

    def judge_member(self, member: Member) -> Judgement | None:
        """By the format of its own that the member's bytes tell."""
        known = self._kept.former.get(member.name)
        if known is not None and known[0] == member and not (known[1] is not None and known[1].provisional):
            return known[1]
        self.check_time()
        judgement = empty_member(member) or self._judge_alone(member)
        if judgement is None or judgement.structure is not Structure.UNREADABLE:
            self._kept.former[member.name] = (member, judgement)
        return judgement

    def learn(self, member: Member, reader: Callable[[MemberFile], T]) -> T:
        """What this reader makes of the member, remembered while it does not change."""
        known = self._kept.learned.get(member.name)
        if known is not None and known[0] == member:
            return known[1]  # type: ignore[return-value] # there is one reader of each member
        self.check_time()
        with self.open(member.name) as file:
            learned = reader(file)
        self._kept.learned[member.name] = (member, learned)
        return learned

    def check_time(self) -> None:
        """Raises TakesLong when the time is up for which this copy may hold up a look; but one step is always made."""
        if self._steps and time.monotonic() > self._end_s:
            raise TakesLong
        self._steps += 1

    def plan_member(self, member: Member) -> Plan:
        """By the format of its own; its pieces under its name."""
        format = self._format_of(member)
        if format is None:
            return NO_CHECKSUMS
        plan = format.plan(FilesOf(self._kept, self._root, (), self.age_s, member))
        return plan._replace(
            pieces=tuple(
                piece._replace(member=member.name, what=f"{member.name}: {piece.what}")
                for piece in plan.pieces
            )
        )

    def _format_of(self, member: Member) -> Format | None:
        name = member.name.rpartition("/")[2]
        if is_no_part(name):
            return None
        with self.open(member.name) as file:
            format = format_of_open(name, file)
        return None if format is None or format.word == "file" else format

    def _judge_alone(self, member: Member) -> Judgement | None:
        try:
            format = self._format_of(member)
            if format is None:
                return None
            same, alike = (*member[1:], format.word), self._kept.alike
            judgement = alike.get(same)
            if judgement is None:
                judgement = format.judge(FilesOf(self._kept, self._root, (), self.age_s, member))
                if not judgement.provisional:
                    alike[same] = judgement
            return judgement
        except FileNotFoundError:
            raise
        except OSError as error:
            return Judgement(Structure.UNREADABLE, words(error))


def mtime_ns(root: int, path: str) -> int | None:
    """The modification time of a regular file, None when there is none."""
    try:
        found = os.stat(path, dir_fd=root, follow_symlinks=False)
    except OSError:
        return None
    return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else None


def judge(
    kept: Kept,
    root: int,
    beside: Collection[str],
    now_s: float,
    volume_offset_s: float,
    judge_s: float = JUDGE_S_MAX,
) -> None:
    """Recognise it and judge its structure, in so much time. Raises FileNotFoundError when it is being removed."""
    kept.again_s = None
    volume_age_s = now_s + volume_offset_s - kept.written_ns / 1e9
    error = kept.error
    if not error:
        try:
            kept.judged = _judged(kept, root, beside, max(volume_age_s, now_s - kept.changed_s), judge_s)
        except OSError as failure:
            if gone(failure):
                raise FileNotFoundError from None
            error = words(failure)
        except TakesLong:
            kept.judged = Judgement(
                Structure.UNREADABLE, "its check takes long and goes on", provisional=True
            )
            kept.again_s = now_s
            kept.shown = sighting_of(kept, volume_offset_s)
            return
        except (
            Exception
        ) as bug:  # hostile bytes stop no governor, and a check that fails says nothing of a copy
            kept.judged = Judgement(Structure.UNREADABLE, f"its check has failed: {type(bug).__name__}")
            kept.shown = sighting_of(kept, volume_offset_s)
            return
    if error:
        kept.judged = Judgement(Structure.UNREADABLE, error)
        if kept.format is None and kept.likely:
            kept.format = format_of_file(kept.name, b"")
    if kept.judged is not None and kept.judged.structure is Structure.UNREADABLE:
        kept.again_s = now_s + _ERROR_RETRY_S
    elif kept.judged is not None and kept.judged.provisional:
        kept.again_s = now_s
    elif kept.judged is not None and kept.judged.structure is Structure.INCOMPLETE:
        kept.again_s = now_s + _RACY_S if abs(volume_age_s) < _RACY_S else None
    kept.shown = sighting_of(kept, volume_offset_s)


def restless(kept: Kept, now_s: float, volume_offset_s: float) -> None:
    """It changed while it was being judged: whatever was read is not what is there now."""
    kept.judged = Judgement(Structure.INCOMPLETE, "it changes while it is looked at")
    kept.again_s = now_s
    kept.shown = sighting_of(kept, volume_offset_s)


def _judged(kept: Kept, root: int, beside: Collection[str], age_s: float, judge_s: float) -> Judgement | None:
    files = FilesOf(kept, root, beside, age_s, judge_s=judge_s)
    if kept.single:
        _recognise(kept, files)
    if kept.format is None:
        return None
    if kept.temporary:
        return Judgement(Structure.INCOMPLETE, "under a temporary name")
    judgement = judge_by_manifest(kept.format, files)
    kept.forget_others()
    return judgement


def _recognise(kept: Kept, files: FilesOf) -> None:
    """Ask the registry by name and first bytes; a file that is none of ours is not opened again as it grows."""
    member = kept.members[0]
    if (
        kept.format is None
        and kept.sniffed[0] == member.inode
        and HEAD_BYTES <= kept.sniffed[1] <= member.bytes
    ):
        return
    promised = final_of(files.name) if kept.temporary else files.name
    with files.open("") as file:
        kept.format = format_of_open(promised, file)
        if kept.format is None and kept.temporary and is_bare_write(promised, file.read_at(0, HEAD_BYTES)):
            kept.format = format_named("file")
    kept.sniffed = (member.inode, member.bytes)
