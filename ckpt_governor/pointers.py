"""The text files that name the newest copy, such as ``latest``: one that lags behind or is missing is told. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from attrs import frozen

from ckpt_governor.copies import newest_sound
from ckpt_governor.facts import Copy, Trouble

LAG_S = 60.0
"""The pointer is written after the copy; where a copy is flushed in the background, some time after it."""
TRACKERS = ("latest", "latest_checkpointed_iteration.txt")
"""Those without which a job finds none of its copies; TensorFlow's ``checkpoint`` is left out by choice."""

_NUMBER = re.compile("[0-9]+")


@frozen(kw_only=True)
class Pointer:
    """One of them, as a look showed it."""

    name: str
    """Path relative to the unit."""
    to: str
    """Path of the copy that it names, relative to the unit."""


def told(
    copies: Iterable[Copy], pointers: Iterable[Pointer], files: Collection[str], now_s: float
) -> tuple[Trouble, ...]:
    """All there is to say of them, and of one that is not there; ``files`` are all that there are."""
    copies, pointers = tuple(copies), tuple(pointers)
    return (*lagging(copies, pointers, now_s), *untracked(copies, pointers, files, now_s))


def lagging(copies: Iterable[Copy], pointers: Iterable[Pointer], now_s: float) -> tuple[Trouble, ...]:
    """The pointers that still name an older copy although a newer one beside it has been sound for a while.

    The job would resume from the older one; the newer copy is sound all the same.
    """
    troubles = []
    copies = tuple(copies)
    for pointer in pointers:
        folder = pointer.name.rpartition("/")[0]
        beside = [copy for copy in copies if copy.name.rpartition("/")[0] == folder]
        named = next((copy for copy in beside if copy.name == pointer.to), None)
        top = newest_sound(beside)
        if named is None or top is None or top.serial <= named.serial or top.format != named.format:
            continue
        if top.sound_s is not None and now_s - top.sound_s >= LAG_S:
            text = f"{pointer.name} still names {pointer.to}, though {top.name} is newer and sound"
            troubles.append(Trouble(key=f"lag:{pointer.name}", reason="copies", text=text))
    return tuple(troubles)


def untracked(
    copies: Iterable[Copy], pointers: Iterable[Pointer], files: Collection[str], now_s: float
) -> tuple[Trouble, ...]:
    """That nothing names the newest sound copy, where every other run beside has a tracker that names one of its own.

    An asynchronous save that never wrote it looks like this, and the job would begin anew. Most trainers write no
    tracker at all, so that only the example of all other runs makes one missed; ``files`` are all trackers there are.
    """
    copies = tuple(copies)
    top = newest_sound(copies)
    if top is None or top.sound_s is None or now_s - top.sound_s < LAG_S:
        return ()
    run = _folder(top.name)
    if not run or any(f"{run}/{name}" in files for name in TRACKERS):
        return ()
    others = {_folder(copy.name) for copy in copies if _is_alike(copy, top)}
    runs = {other for other in others if other and other != run and _folder(other) == _folder(run)}
    named: dict[str, set[str]] = {other: set() for other in runs}
    for pointer in pointers:
        folder, _, name = pointer.name.rpartition("/")
        if folder in named and name in TRACKERS:
            named[folder].add(name)
    common = set.intersection(*named.values()) if named else set()
    if not common:
        return ()
    text = f"{run} has no {min(common)}, as {min(runs)} has: a job may not find {top.name}, which is sound"
    return (Trouble(key=f"untracked:{run}", reason="copies", text=text),)


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _is_alike(copy: Copy, top: Copy) -> bool:
    """Whether it is a copy of the same kind: of one format, with the same name but for its numbers."""
    names = [_NUMBER.sub("#", one.name.rpartition("/")[2]) for one in (copy, top)]
    return copy.format == top.format and names[0] == names[1] and not copy.temporary
