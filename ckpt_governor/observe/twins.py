"""Whether files hold the same bytes, by samples: a trained state differs from another one everywhere."""

from __future__ import annotations

from ckpt_governor.facts import Structure
from ckpt_governor.formats.reading import RegularFile
from ckpt_governor.observe.keeping import Kept

_SAMPLES = 16
_SAMPLE_BYTES = 4096
_COMPARED_MAX = 8


def find_copied(changed: list[Kept], shown: list[Kept], root: int) -> None:
    """Marks those that are copies of another file: same format, step, size and bytes. The older one is the original."""
    if not any(map(_key, changed)):
        return
    alike: dict[tuple[str, int, int], list[Kept]] = {}
    for kept in shown:
        key = _key(kept)
        if key is not None:
            alike.setdefault(key, []).append(kept)
    for kept in changed:
        key = _key(kept)
        others = alike.get(key, []) if key is not None else []
        for other in others[:_COMPARED_MAX]:
            if other.order < kept.order and other.twin_of is None and _same_bytes(root, kept, other):
                assert other.shown is not None
                kept.twin_of = (other.path, other.shown.fingerprint)
                break


def _key(kept: Kept) -> tuple[str, int, int] | None:
    """What must be equal before bytes are compared. Without a step it is a copy of its own, as ``last.ckpt``."""
    shown = kept.shown
    if shown is None or shown.step is None or kept.temporary or not kept.single:
        return None
    if shown.structure not in (Structure.COMPLETE, Structure.SHAPELESS) or shown.bytes == 0:
        return None
    return shown.format, shown.step, shown.bytes


def _same_bytes(root: int, one: Kept, other: Kept) -> bool:
    if one.members[0].inode == other.members[0].inode:
        return False
    try:
        with RegularFile(root, one.path) as left, RegularFile(root, other.path) as right:
            last = max(0, left.size - _SAMPLE_BYTES)
            places = {last * sample // (_SAMPLES - 1) for sample in range(_SAMPLES)}
            return left.size == right.size and all(
                left.read_at(at, _SAMPLE_BYTES) == right.read_at(at, _SAMPLE_BYTES) for at in places
            )
    except OSError:
        return False
