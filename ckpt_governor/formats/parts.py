"""What the formats of many files share: members with formats of their own, parts that an index names, JSON texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import Files, Judgement, Member
from ckpt_governor.formats.naming import is_log, is_temporary

_PARTS_MAX = 20_000
_NAME_CHARACTERS_MAX = 4096
_PARSED_BYTES_MAX = 1 << 20
"""A longer text is not parsed, for memory: its two ends and its braces are looked at."""


def incomplete(why: str) -> Judgement:
    """Something that a finished copy has is missing."""
    return Judgement(Structure.INCOMPLETE, why)


def unchecked(why: str) -> Judgement:
    """Whole or not, it cannot be told from here."""
    return Judgement(Structure.SHAPELESS, why)


def parts_of(files: Files) -> Iterator[Member]:
    """The members that belong to the copy: logs and temporaries do not."""
    for member in islice(files.members, _PARTS_MAX):
        if not (is_log(member.name) or is_temporary(member.name)):
            yield member


def judge_parts(
    files: Files,
    *,
    within: Callable[[str], bool] = lambda _: True,
    must_tell: Callable[[str], bool] = lambda _: True,
) -> tuple[Judgement | None, bool]:
    """Each part by its own format: the first bad one makes the copy bad. Raises OSError.

    ``within``: the names that are looked at. Also returns whether all that ``must_tell`` told that they are whole.
    """
    all_tell = True
    for member in parts_of(files):
        if not within(member.name):
            continue
        judgement = files.judge_member(member)
        if judgement is not None and judgement.structure in (Structure.INCOMPLETE, Structure.UNREADABLE):
            why = f"{member.name}: {judgement.why}"
            return Judgement(judgement.structure, why, provisional=judgement.provisional), False
        told = judgement is not None and judgement.structure is Structure.COMPLETE
        all_tell = all_tell and (told or not must_tell(member.name))
    return None, all_tell


def judge_absent(files: Files, name: str) -> Judgement:
    """Of a part that an index names and that is none of the copy's files: a link is no part, nor is it missing."""
    if len(name) > _NAME_CHARACTERS_MAX or any(part in ("", ".", "..") for part in name.split("/")):
        return unchecked("its index names a file outside of it")
    try:
        with files.open(name):
            pass
    except FileNotFoundError:
        return incomplete(f"{name} is missing")
    except (OSError, ValueError):  # a link; or a name that no file can have
        pass
    return unchecked(f"{name} is a link or cannot be read")


def judge_json(text: bytes) -> Structure:
    """Whether a text that is to be one JSON object has its end."""
    if not text.startswith(b"{") or not text.rstrip().endswith(b"}"):
        return Structure.INCOMPLETE
    if len(text) <= _PARSED_BYTES_MAX:
        try:
            json.loads(text)
        except RecursionError:
            return Structure.SHAPELESS
        except ValueError:
            return Structure.INCOMPLETE
        return Structure.COMPLETE
    if b"\0" in text:
        return Structure.INCOMPLETE
    return Structure.COMPLETE if text.count(b"{") == text.count(b"}") else Structure.SHAPELESS
