"""Whether two files hold the same bytes, by samples: a trained state differs from another one everywhere."""

from __future__ import annotations

from ckpt_governor.formats.reading import RegularFile
from ckpt_governor.observe.kept import Kept

_SAMPLES = 16
_SAMPLE_BYTES = 4096


def copied(kept: Kept, others: list[Kept], root: int) -> Kept | None:
    """The file of which this one is a copy: same format, same step, same size, same bytes."""
    if not _comparable(kept) or kept.shown is None:
        return None
    for other in others:
        if other is kept or other.twin_of or not _comparable(other) or other.shown is None:
            continue
        mine, theirs = kept.shown, other.shown
        alike = (mine.format, mine.step, mine.bytes) == (theirs.format, theirs.step, theirs.bytes)
        if alike and kept.members[0].inode != other.members[0].inode and _same_bytes(root, kept, other):
            return other
    return None


def _comparable(kept: Kept) -> bool:
    """A number that is no step tells nothing: ``last.ckpt`` is a copy of its own."""
    return kept.single and not kept.temporary and kept.shown is not None and kept.shown.step is not None


def _same_bytes(root: int, one: Kept, other: Kept) -> bool:
    try:
        with RegularFile(root, one.path) as left, RegularFile(root, other.path) as right:
            if left.size != right.size:
                return False
            last = max(0, left.size - _SAMPLE_BYTES)
            for sample in range(_SAMPLES):
                at = last * sample // (_SAMPLES - 1)
                if left.read_at(at, _SAMPLE_BYTES) != right.read_at(at, _SAMPLE_BYTES):
                    return False
    except OSError:
        return False
    return True
