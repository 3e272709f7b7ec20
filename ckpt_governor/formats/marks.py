"""Files that are no part of a copy and say something of it: that it is whole, or that a member holds nothing."""

from __future__ import annotations

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import Judgement, Member
from ckpt_governor.formats.manifest import MANIFEST
from ckpt_governor.formats.naming import COPY_SUFFIXES, suffix_of

DONE = ("DONE", ".done")
MARKERS = frozenset([MANIFEST, *DONE])
"""Written after a copy's last byte: their coming is no change of it."""
EMPTY = Judgement(Structure.INCOMPLETE, "empty")


def done_name(name: str) -> str:
    """The mark beside a copy that says it is whole."""
    return f"{name}.done"


def empty_member(member: Member) -> Judgement | None:
    """A member that should hold tensors and holds nothing; other empty files are marks and mean nothing."""
    return EMPTY if member.bytes == 0 and suffix_of(member.name) in COPY_SUFFIXES else None
