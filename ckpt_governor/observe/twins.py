"""Whether copies hold the same bytes, by samples: a trained state differs from another one everywhere."""

from __future__ import annotations

from ckpt_governor.facts import Structure
from ckpt_governor.formats.marks import MARKERS
from ckpt_governor.formats.naming import is_temporary
from ckpt_governor.formats.reading import RegularFile
from ckpt_governor.observe.keeping import Kept
from ckpt_governor.observe.kept import join

_SAMPLES = 16
_SAMPLES_EACH = 4
_FILES_SAMPLED = 16
"""Of a copy of many files the largest ones are compared, each at a few places: they hold its tensors."""
_SAMPLE_BYTES = 4096
_COMPARED_MAX = 8


def find_copied(changed: list[Kept], shown: list[Kept], root: int) -> None:
    """Marks those that are copies of another one: same format, step, names, sizes and bytes. The older one is the
    original."""
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
    """What must be equal before anything is compared. Without a step it is a copy of its own, as ``last.ckpt``."""
    shown = kept.shown
    if shown is None or shown.step is None or kept.temporary or kept.group:
        return None
    if shown.structure not in (Structure.COMPLETE, Structure.SHAPELESS) or shown.lacks or shown.lost:
        return None
    return (shown.format, shown.step, shown.bytes) if shown.bytes else None


def _same_bytes(root: int, one: Kept, other: Kept) -> bool:
    if one.single != other.single or _parts(one) != _parts(other):
        return False
    if one.single:
        return one.members[0].inode != other.members[0].inode and _same_file(root, one, other, "", _SAMPLES)
    if one.mark == other.mark:
        return False
    names = [name for name, _ in sorted(_parts(one), key=lambda part: -part[1])[:_FILES_SAMPLED]]
    return names != [] and all(_same_file(root, one, other, name, _SAMPLES_EACH) for name in names)


def _parts(kept: Kept) -> list[tuple[str, int]]:
    """Name and size of all that belongs to a folder, in a fixed order."""
    return sorted(
        (member.name, member.bytes)
        for member in (() if kept.single else kept.members)
        if member.name not in MARKERS and not is_temporary(member.name)
    )


def _same_file(root: int, one: Kept, other: Kept, name: str, samples: int) -> bool:
    """By samples from its beginning to its end."""
    try:
        with (
            RegularFile(root, join(one.path, name)) as left,
            RegularFile(root, join(other.path, name)) as right,
        ):
            last = max(0, left.size - _SAMPLE_BYTES)
            places = sorted({last * sample // (samples - 1) for sample in range(samples)})
            return left.size == right.size and all(
                left.read_at(at, _SAMPLE_BYTES) == right.read_at(at, _SAMPLE_BYTES) for at in places
            )
    except OSError:
        return False
