"""Whether a copy without any other sign of its end is too small to be whole: by the former ones of its kind. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ckpt_governor.facts import Copy, CopyStatus

SMALL_SHARE = 0.9
SAME_SIZE_SHARE = 0.02

_DOUBTED = (CopyStatus.BROKEN, CopyStatus.UNKNOWN)
_NUMBER = re.compile("[0-9]+")


def too_small(copy: Copy, elders: Sequence[Copy]) -> str:
    """What is odd about the size of a copy that has no other sign of its end; empty when nothing is."""
    kind = _kind(copy.name)
    alike = [elder for elder in elders if elder.format == copy.format and _kind(elder.name) == kind]
    sound = sorted([elder.bytes for elder in alike if elder.status is CopyStatus.SOUND][-3:])
    if not sound or copy.bytes >= SMALL_SHARE * (usual := sound[len(sound) // 2]):
        return ""
    last = alike[-1]
    if last.status in _DOUBTED and abs(copy.bytes - last.bytes) <= SAME_SIZE_SHARE * last.bytes:
        return ""  # twice the same small size is the new normal
    return f"{100 * copy.bytes // usual} % of the former copies' bytes"


def _kind(name: str) -> str:
    """What the names of copies of one kind have in common: all but their numbers."""
    return _NUMBER.sub("#", name)
