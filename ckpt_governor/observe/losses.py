"""What a copy has lost since it was sound: of many formats a lost file or end cannot be told from what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ckpt_governor.facts import Structure, Whole
from ckpt_governor.formats.interface import Member
from ckpt_governor.formats.marks import MARKERS
from ckpt_governor.formats.naming import OTHER_SUFFIXES, is_temporary, suffix_of
from ckpt_governor.observe.keeping import Kept
from ckpt_governor.observe.kept import MEMBERS_MAX
from ckpt_governor.observe.shown import identity_of

PARTS_MAX = 1000
"""Of a copy with more files the parts are not remembered over a restart: such copies have an index that tells them."""
REMEMBERED_MAX = 3
"""So many of the newest sound copies are remembered: which of them are old ones is known when they lose something."""
WHOLES_MAX = 6

_TEXTS = frozenset(["json", "index", "meta", "yaml", "yml"])
"""Files that are loaded with a copy and may be rewritten shorter; they may neither vanish nor be emptied."""
_DOCUMENTS = OTHER_SUFFIXES - _TEXTS


def whole_of(kept: Kept, fingerprint: str) -> Whole | None:
    """What it holds now, when it has this fingerprint; a single file is told by its format and its former sizes."""
    if kept.single or kept.shown is None or kept.shown.fingerprint != fingerprint:
        return None
    counted = [member for member in kept.members if _counts(member.name)]
    return Whole(
        name=kept.path,
        inode=identity_of(kept),
        fingerprint=fingerprint,
        written_ns=max((member.mtime_ns for member in counted), default=0),
        parts={member.name: member.bytes for member in counted},
    )


def bounded_wholes(wholes: Iterable[Whole]) -> tuple[Whole, ...]:
    """Those that can be remembered over a restart, the newest ones."""
    return tuple(whole for whole in wholes if len(whole.parts) <= PARTS_MAX)[-WHOLES_MAX:]


def lost(kept: Kept, whole: Whole | None) -> str:
    """In one clause, what it had when it was sound and has no more; empty when nothing, or when its check says it.

    Whoever saves into the same folder again writes every file anew; then what it held before says nothing.
    """
    if whole is None or kept.judged is None or kept.format is None or whole.inode != identity_of(kept):
        return ""
    structure = kept.judged.structure
    if structure not in (Structure.COMPLETE, Structure.SHAPELESS) or len(kept.members) >= MEMBERS_MAX:
        return ""
    if kept.format.tells_all and structure is Structure.COMPLETE:
        return ""
    counted = [member for member in kept.members if _counts(member.name)]
    if all(member.mtime_ns > whole.written_ns for member in counted):
        return ""
    there = {member.name: member for member in counted}
    losses = [f"{name} is missing" for name in _missing(whole, there)]
    for name, size in whole.parts.items():
        member = there.get(name)
        if member is not None and _is_cut(member, size, kept):
            losses.append(f"{name}: {size - member.bytes} of {size} bytes are missing")
    if not losses:
        return ""
    more = f", and {len(losses) - 1} more of its files" if len(losses) > 1 else ""
    return f"{min(losses)} since it was sound{more}"


def _missing(whole: Whole, there: dict[str, Member]) -> list[str]:
    """The files that are gone, but for those that have other names now or whose bytes went into new files."""
    gone = {name: size for name, size in whole.parts.items() if name not in there}
    new = Counter(member.bytes for name, member in there.items() if name not in whole.parts)
    for name, size in tuple(gone.items()):
        if new[size] > 0:
            new[size] -= 1
            del gone[name]
    return [] if sum(new.elements()) >= sum(gone.values()) and any(new.values()) else list(gone)


def _is_cut(member: Member, size: int, kept: Kept) -> bool:
    """Whether it has fewer bytes than it had, and nothing says that it is whole again."""
    if member.bytes >= size or (suffix_of(member.name) in _TEXTS and member.bytes):
        return False
    known = kept.former.get(member.name)
    alone = known[1] if known is not None and known[0] == member else None
    return alone is None or alone.structure is not Structure.COMPLETE


def _counts(name: str) -> bool:
    """Whether a file of a copy is a part of what is saved: no mark, no temporary, no document."""
    if name in MARKERS or is_temporary(name):
        return False
    return suffix_of(name) not in _DOCUMENTS
