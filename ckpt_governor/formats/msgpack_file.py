"""msgpack as Flax writes it: one value, a map of names, that ends with the last byte of the file."""

from __future__ import annotations

import re

from ckpt_governor.facts import Structure
from ckpt_governor.formats.forward import Cut, Forward, Uncheckable
from ckpt_governor.formats.interface import Damage, Files, Format, Judgement, OpenFile
from ckpt_governor.formats.naming import names_a_copy, suffix_of
from ckpt_governor.formats.unwritten import judge_tail

_VALUES_MAX = 500_000
_WITHOUT_SUFFIX = re.compile(r"[^.]*[0-9](?:\.[0-9]+)?", re.ASCII)
"""``checkpoint_100``, and ``checkpoint_1.5``: a step may be a fraction there."""

# By first byte: how many bytes of a count follow, what a count stands for, and how many bytes follow in any case.
_SIZED = {
    0xC4: (1, 1, 0), 0xC5: (2, 1, 0), 0xC6: (4, 1, 0),  # bytes
    0xC7: (1, 1, 1), 0xC8: (2, 1, 1), 0xC9: (4, 1, 1),  # an extension with its kind: every array of Flax
    0xCA: (0, 0, 4), 0xCB: (0, 0, 8),  # fractions
    0xCC: (0, 0, 1), 0xCD: (0, 0, 2), 0xCE: (0, 0, 4), 0xCF: (0, 0, 8),
    0xD0: (0, 0, 1), 0xD1: (0, 0, 2), 0xD2: (0, 0, 4), 0xD3: (0, 0, 8),
    0xD4: (0, 0, 2), 0xD5: (0, 0, 3), 0xD6: (0, 0, 5), 0xD7: (0, 0, 9), 0xD8: (0, 0, 17),  # short extensions
    0xD9: (1, 1, 0), 0xDA: (2, 1, 0), 0xDB: (4, 1, 0),  # texts
}  # fmt: skip
_HOLDERS = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Lists and maps: how many bytes of a count follow, and how many values each count stands for."""
_NEVER_USED = 0xC1
_EMPTY_MAP = b"\x80"
"""All of the file of an empty state; every pickle of a newer protocol begins with it, too."""


class MsgpackFile(Format):
    """Flax writes it in one go, ``save_checkpoint`` beside under ``checkpoint_tmp``, others at its final name."""

    word = "msgpack"

    def claims_file(self, name: str, head: bytes) -> bool:
        if suffix_of(name) == "msgpack":
            return True
        if not names_a_copy(name) or _WITHOUT_SUFFIX.fullmatch(name) is None:
            return False
        return head == _EMPTY_MAP or _begins_with_a_name(head)

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            if suffix_of(files.name) != "msgpack" and file.size == 1 and file.read_at(0, 1) == _EMPTY_MAP:
                return Judgement(Structure.SHAPELESS, "it is an empty state, or the first byte of a pickle")
            return _judge(file, files)


def _begins_with_a_name(head: bytes) -> bool:
    """Whether it begins with a map whose first key is a text: no pickle does, and no text in any usual encoding."""
    if not head or not (0x81 <= head[0] <= 0x8F or head[0] in (0xDE, 0xDF)):
        return False
    at = 1 if head[0] <= 0x8F else 1 + _HOLDERS[head[0]][0]
    kind = head[at : at + 1]
    if kind == b"\xd9":
        at, length = at + 2, int.from_bytes(head[at + 1 : at + 2], "big")
    else:
        at, length = at + 1, kind[0] - 0xA0 if kind and 0xA0 <= kind[0] <= 0xBF else 0
    key = head[at : at + length]
    try:
        return length > 0 and len(key) == length and key.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _judge(file: OpenFile, files: Files) -> Judgement:
    first = file.read_at(0, 16)
    if not first.strip(b"\0"):
        why = "its beginning was never written" if first else "empty"
        return Judgement(Structure.INCOMPLETE, why)
    if not _may_hold_values(first[0]):
        return Judgement(
            Structure.SHAPELESS, "it does not begin as Flax begins a file, and cannot be checked"
        )
    forward = Forward(file)
    try:
        _walk(forward)
        if forward.at == file.size:
            return judge_tail(file, files, 0, may_be_sparse=False)
        more = forward.take(1)[0]
    except Uncheckable as bound:
        return Judgement(Structure.SHAPELESS, str(bound))
    except Damage:
        return Judgement(Structure.INCOMPLETE, f"it is damaged before byte {forward.at}")
    except Cut:
        return Judgement(Structure.INCOMPLETE, f"it ends in the middle of a value, at byte {file.size}")
    if forward.at == 2 or _may_hold_values(more):
        return Judgement(Structure.SHAPELESS, "it is more than one value, and cannot be checked")
    return Judgement(Structure.INCOMPLETE, f"{file.size - forward.at + 1} bytes follow its end")


def _may_hold_values(first: int) -> bool:
    """Whether this first byte begins a map, a list or an extension."""
    return 0x80 <= first <= 0x9F or first in _HOLDERS or 0xC7 <= first <= 0xC9 or 0xD4 <= first <= 0xD8


def _walk(forward: Forward) -> None:
    """To the end of the first value. How deep it goes needs no memory: only how many values are still to come."""
    wanted, seen = 1, 0
    take, skip = forward.take, forward.skip
    while wanted:
        if wanted > forward.size - forward.at:  # each has at least one byte
            raise Cut
        seen += 1
        if seen > _VALUES_MAX:
            raise Uncheckable("it has more values than can be checked")
        wanted -= 1
        first = take(1)[0]
        if first < 0x80 or first >= 0xE0 or first in (0xC0, 0xC2, 0xC3):
            continue
        if first < 0xA0:
            wanted += (first & 0x0F) * (2 if first < 0x90 else 1)
        elif first < 0xC0:
            skip(first & 0x1F)
        elif first in _HOLDERS:
            count_bytes, values = _HOLDERS[first]
            wanted += int.from_bytes(take(count_bytes), "big") * values
        elif first == _NEVER_USED:
            raise Damage
        else:
            count_bytes, each, always = _SIZED[first]
            count = int.from_bytes(take(count_bytes), "big") if count_bytes else 0
            skip(count * each + always)
