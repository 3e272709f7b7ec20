"""What the formats of many files share: parts that an index names, and texts that are JSON to their end."""

from __future__ import annotations

import json

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import Files, Judgement

_NAME_CHARACTERS_MAX = 4096
_PARSED_BYTES_MAX = 1 << 20
"""A longer text is not parsed, for memory: its two ends and its braces are looked at."""


def incomplete(why: str) -> Judgement:
    """Something that a finished copy has is missing."""
    return Judgement(Structure.INCOMPLETE, why)


def unchecked(why: str) -> Judgement:
    """Whole or not, it cannot be told from here."""
    return Judgement(Structure.SHAPELESS, why)


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
