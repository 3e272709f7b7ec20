"""The deep check of one copy that a scanner has found, and what may be said of it when the copy moved meanwhile."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from enum import Enum

from attrs import frozen

from ckpt_governor.formats.deep import Found, check, each_byte_once
from ckpt_governor.formats.interface import NO_CHECKSUMS, Damage, Format, Plan
from ckpt_governor.formats.manifest import plan_by_manifest
from ckpt_governor.formats.reading import words
from ckpt_governor.observe.kept import FilesOf

THREADS_MAX = 32
_SHARE = "/sys/fs/cgroup/cpu.max"


class DeepStatus(str, Enum):
    """What a deep check came to."""

    SOUND = "sound"
    """Every checksum is right."""
    BROKEN = "broken"
    NO_CHECKSUMS = "no-checksums"
    UNKNOWN = "unknown"
    """It could not be checked; the reason says why."""


@frozen(kw_only=True)
class Deep:
    """One copy, read as a whole."""

    status: DeepStatus
    why: str = ""
    bytes: int = 0
    checked_bytes: int = 0


def check_copy(
    format: Format, files: FilesOf, *, threads: int, progress: Callable[[int, int], None] | None = None
) -> Deep:
    """Reads it. ``progress`` is told how many bytes are done and how many will be. Never raises for what lies there."""
    bytes_there = sum({(one.device, one.inode): one.bytes for one in files.members}.values())
    damage, plan, found = "", Plan(), Found("", 0, None)
    try:
        plan = each_byte_once(plan_by_manifest(format, files), files.members)
        planned = sum(piece.length for piece in plan.pieces)
        found = check(
            files,
            plan,
            threads=threads,
            progress=None if progress is None else lambda done: progress(done, planned),
        )
    except Damage as what_is_damaged:
        damage = str(what_is_damaged)
    except OSError as error:
        found = Found("", 0, error)
    except Exception as bug:  # hostile bytes make nobody fail, and say nothing of the copy
        why = f"its check has failed: {type(bug).__name__}"
        return Deep(status=DeepStatus.UNKNOWN, why=why, bytes=bytes_there)
    status, why = _judged(plan, found, damage, files.changed())
    return Deep(status=status, why=why, bytes=bytes_there, checked_bytes=found.checked_bytes)


def _judged(plan: Plan, found: Found, damage: str, changed: str) -> tuple[DeepStatus, str]:
    """What was read of a copy that changed meanwhile is of two states, and says nothing of either."""
    if changed:
        return DeepStatus.UNKNOWN, changed
    if damage or found.wrong:
        return DeepStatus.BROKEN, damage or found.wrong
    if found.unread is not None:
        return DeepStatus.UNKNOWN, f"it cannot be read: {words(found.unread)}"
    if not plan.pieces:
        none = plan.why == NO_CHECKSUMS.why
        return DeepStatus.NO_CHECKSUMS if none else DeepStatus.UNKNOWN, plan.why
    return DeepStatus.SOUND, plan.why


def usable_cpus() -> int:
    """How many this process may keep busy: those that it is bound to, and no more than its container's share."""
    bound = len(os.sched_getaffinity(0))
    try:
        with open(_SHARE, encoding="ascii") as file:
            share, period = file.read(64).split()
        bound = min(bound, max(1, math.ceil(int(share) / int(period))))
    except (OSError, ValueError, ZeroDivisionError):
        pass  # no such file outside a container, and "max" in it where there is no bound
    return min(bound, THREADS_MAX)
