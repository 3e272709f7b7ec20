"""The text files that name the newest copy, such as ``latest``: one that lags behind is told. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from ckpt_governor.copies import newest_sound
from ckpt_governor.facts import Copy, Trouble

LAG_S = 60.0
"""The pointer is written after the copy; where a copy is flushed in the background, some time after it."""


@frozen(kw_only=True)
class Pointer:
    """One of them, as a look showed it."""

    name: str
    """Path relative to the unit."""
    to: str
    """Path of the copy that it names, relative to the unit."""


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
