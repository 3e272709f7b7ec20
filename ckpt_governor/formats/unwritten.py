"""For formats whose index is at the front: whether a file of full size still has an end that nobody has written.

Where the file system stores what is written, and the format's writers write all, a hole at the end is the answer.
Elsewhere it is not: a writer that sets the size first leaves a hole that reaches the end of the file and shrinks as it
writes, and a sound copy may have such a hole, too: an array that was mapped and never filled, a ``cp --sparse``, or a
volume that stores zeros as holes. What tells them apart is movement: a hole that shrank under our eyes is a write, one
that never moved is believed to be zeros. Only while a hole is so young that it could not have moved yet, the question
is left open.
"""

from __future__ import annotations

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import COMPLETE, Files, Judgement, OpenFile

YOUNG_S = 5.0
_HOLE_BYTES_MIN = 4096
"""Smaller ones are the rest of the last block."""
_LAST_BLOCK_BYTES = 64 << 10
"""Whoever maps a file writes its last byte first, and with it the block, or the large page, that it lies in."""


def judge_tail(file: OpenFile, files: Files, data_at: int, *, may_be_sparse: bool = True) -> Judgement:
    """The judgement of a file whose size is exact and whose data begins at ``data_at``.

    ``may_be_sparse``: whole files of this format may have places that nobody ever wrote, such as a mapped array.
    """
    hole_at = file.tail_hole(_LAST_BLOCK_BYTES if may_be_sparse else 0)
    if hole_at is None or file.size - max(hole_at, data_at) < _HOLE_BYTES_MIN:
        return COMPLETE
    why = f"its last {file.size - max(hole_at, data_at)} bytes were never written"
    if _moves(files.former, hole_at):
        return Judgement(Structure.INCOMPLETE, why, hole_at)
    if not may_be_sparse and file.keeps_written_zeros():
        return Judgement(Structure.INCOMPLETE, why, hole_at)
    if files.age_s < YOUNG_S:
        return Judgement(Structure.INCOMPLETE, why, hole_at, provisional=True)
    return Judgement(Structure.COMPLETE, f"{why} and read as zeros", hole_at)


def _moves(former: Judgement | None, hole_at: int) -> bool:
    """Whether the hole was seen to shrink, now or before."""
    if former is None or former.hole_at is None:
        return False
    return former.hole_at < hole_at or (former.structure is Structure.INCOMPLETE and not former.provisional)
