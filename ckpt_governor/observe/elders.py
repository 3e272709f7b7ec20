"""What the elders of a copy all had and it has not: of some formats a lost file cannot be told from the copy alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ckpt_governor.facts import Structure
from ckpt_governor.formats import format_named
from ckpt_governor.formats.marks import MARKERS
from ckpt_governor.formats.naming import OTHER_SUFFIXES, is_temporary, suffix_of
from ckpt_governor.observe.keeping import Kept

ELDERS_MAX = 3
PARTS_MAX = 4096
"""Of a copy with more files nothing is missed: their names are made by a rule that its format knows."""

_WEIGHTS = re.compile(
    r"(?P<folder>(?:.*/)?)(?:pytorch_)?(?P<stem>[^/]*?)(?:-#-of-#)?\.(?P<suffix>[a-z]+)(?:\.index\.json)?",
    re.DOTALL,
)
"""``pytorch_model.bin``, ``model-#-of-#.safetensors`` and ``model.safetensors.index.json`` are for the same."""
_NEWER = frozenset(["safetensors"])
_OLDER = frozenset(["bin", "pt", "pth", "ckpt", "safetensors"])
_NUMBER = re.compile("[0-9a-f]{16,}|[0-9]+")


def kind_of(name: str) -> str:
    """What names of one kind have in common: all but their numbers."""
    return _NUMBER.sub("#", name)


def lacks(kept: Kept, others: Iterable[Kept]) -> tuple[str, bool]:
    """In one clause, what all its last elders of its kind had, empty when nothing; and whether it has what none had.

    What the copy right before it lacked as well is missed no more: whoever saves has changed what is saved. The first
    copy after such a change cannot be told from one that stopped, but for new kinds of files in it.
    """
    if kept.format is None or kept.mark is None or len(kept.members) > PARTS_MAX:
        return "", False
    elders = _elders(kept, others)
    full = [elder for elder in elders if not (elder.lacks or elder.lost)][-ELDERS_MAX:]
    if not full:
        return "", False
    wanted = set.intersection(*(_belonging(elder) for elder in full))
    own = _kinds(kept)
    missing = (wanted & _kinds(elders[-1])) - own
    new = own - set[str]().union(*map(_kinds, full)) if missing else set()
    if missing:  # the same weights in another format of files are no loss
        gone = {role for part in missing if (role := _role(part, _OLDER))}
        fresh = {role for part in new if (role := _role(part, _NEWER))}
        missing = {part for part in missing if _role(part, _OLDER) not in fresh}
        new = {
            part for part in new if _role(part, _NEWER) not in gone and suffix_of(part) not in OTHER_SUFFIXES
        }
    if not missing:
        return "", False
    part = min(missing)
    name = next(member.name for member in full[-1].members if kind_of(member.name) == part)
    return f"{name} is missing, which {full[-1].name} has", bool(new)


def _elders(kept: Kept, others: Iterable[Kept]) -> list[Kept]:
    """The whole copies of its kind that came before it, oldest first; a folder that says nothing may have lost what
    its elders are recognised by."""
    kind, plain = kind_of(kept.name), kept.format is format_named("folder")
    alike = [
        other
        for other in others
        if _is_whole(other)
        and (plain or other.format is kept.format)
        and other.order < kept.order
        and not other.temporary
        and kind_of(other.name) == kind
    ]
    return sorted(alike, key=lambda other: other.order)


def _belonging(elder: Kept) -> set[str]:
    """The kinds of its files that a copy of its format must have."""
    if elder.format is None or elder.format.misses_by_elders:
        return _kinds(elder)
    return _kinds(elder) & elder.format.marks


def _role(part: str, suffixes: frozenset[str]) -> str:
    """What weights in files of these formats are for, in one part or many, or their index; empty for other files."""
    match = _WEIGHTS.fullmatch(part)
    return f"{match['folder']}{match['stem']}" if match is not None and match["suffix"] in suffixes else ""


def _is_whole(kept: Kept) -> bool:
    return kept.judged is not None and kept.judged.structure in (Structure.COMPLETE, Structure.SHAPELESS)


def _kinds(kept: Kept) -> set[str]:
    """The kinds of its files."""
    if len(kept.members) > PARTS_MAX:
        return set()
    names = (member.name for member in kept.members if member.name not in MARKERS)
    return {kind_of(name) for name in names if not is_temporary(name)}
