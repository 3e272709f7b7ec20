"""What a look shows of one copy that the scanner keeps: its size, its step, and what tells when it changes."""

from __future__ import annotations

import os
import zlib

from ckpt_governor.facts import Sighting
from ckpt_governor.formats.interface import Member
from ckpt_governor.formats.marks import MARKERS
from ckpt_governor.formats.naming import final_of, step_of
from ckpt_governor.observe.keeping import Kept


def sighting_of(kept: Kept, volume_offset_s: float) -> Sighting | None:
    """What is shown of it; None while it is no copy."""
    if kept.format is None or kept.judged is None:
        return None
    counted = [member for member in kept.members if member.name not in MARKERS] or list(kept.members)
    sizes = {(member.device, member.inode): member.bytes for member in counted}
    return Sighting(
        name=kept.path,
        format=kept.format.word,
        step=step_of(final_of(kept.name) if kept.temporary else kept.name),
        bytes=sum(sizes.values()),
        structure=kept.judged.structure,
        why=kept.judged.why,
        small=kept.judged.small,
        fingerprint=_fingerprint(kept, counted),
        inode=identity_of(kept),
        written_s=max((member.mtime_ns for member in counted), default=0) / 1e9 - volume_offset_s,
        listed_s=kept.listed_ns / 1e9 - volume_offset_s if kept.listed_ns else 0.0,
        temporary=kept.temporary,
        lacks=kept.lacks,
        renewed=kept.renewed,
        lost=kept.lost,
    )


def identity_of(kept: Kept) -> str:
    """Device and inode of what it is."""
    if kept.mark is not None:
        return f"{kept.mark[0]:x}:{kept.mark[1]:x}"
    if not kept.members:
        return "0:0"
    first = kept.members[0]
    if kept.group:
        return f"{first.device:x}:{zlib.crc32(os.fsencode(kept.path)):x}:group"
    return f"{first.device:x}:{first.inode:x}"


def _fingerprint(kept: Kept, counted: list[Member]) -> str:
    """The inodes before the first dot, all else after it. No ctime is in it: a new hard link is no change."""
    if kept.single and counted:
        member = counted[0]
        return f"{member.inode:x}.{member.bytes:x}.{member.mtime_ns:x}"
    inodes, content = zlib.crc32(b"%d" % kept.mark[1]) if kept.mark is not None else 0, 0
    for member in counted:
        inodes = zlib.crc32(b" %d" % member.inode, inodes)
        line = b"%d %d " % (member.bytes, member.mtime_ns) + os.fsencode(member.name)
        content = zlib.crc32(line + b"\0", content)
    return f"{inodes:x}.{len(counted):x}.{sum(member.bytes for member in counted):x}.{content:x}"
