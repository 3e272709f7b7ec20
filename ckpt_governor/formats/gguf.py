"""GGUF, as llama.cpp and its tools write it: an index at the front tells type, shape and place of each tensor."""

from __future__ import annotations

import math
from typing import Literal

from ckpt_governor.facts import Structure
from ckpt_governor.formats.forward import Cut, Forward, Uncheckable
from ckpt_governor.formats.interface import Damage, Files, Format, Judgement, OpenFile
from ckpt_governor.formats.naming import suffix_of
from ckpt_governor.formats.unwritten import judge_tail

_MAGIC = b"GGUF"
_ENTRIES_MAX = 100_000
_TEXTS_MAX = 1_500_000
"""The words of a vocabulary and the pairs that merge, one by one: the largest known have eight hundred thousand."""
_TEXT_BYTES_MAX = 65_535
_DIMENSIONS_MAX = 8
_ALIGNMENT_BYTES_MAX = 1 << 20

_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a plain value by its kind."""
_TEXT, _LIST, _WHOLE_NUMBER = 8, 9, 4

_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
}  # fmt: skip
"""Numbers in a block and its bytes, by the kind of a tensor. Not 9: two sizes of it are in use."""


class Gguf(Format):
    """It grows at its final name; some tools write the index last, over the zeros that held its place."""

    word = "gguf"

    def claims_file(self, name: str, head: bytes) -> bool:
        return head.startswith(_MAGIC) or (suffix_of(name) == "gguf" and _has_begun(head))

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            return _judge(file, files)


def _has_begun(head: bytes) -> bool:
    """Whether more may still become of it: nothing is there yet, or zeros that hold the place of the index."""
    return _MAGIC.startswith(head) or not head.strip(b"\0")


def _judge(file: OpenFile, files: Files) -> Judgement:
    if file.size == 0:
        return Judgement(Structure.INCOMPLETE, "empty")
    if file.read_at(0, 4) != _MAGIC:
        return Judgement(Structure.INCOMPLETE, "its index is not there yet")
    try:
        index_end, data_bytes, alignment_bytes = _Index(file).read()
    except Cut:
        return Judgement(Structure.INCOMPLETE, "its index is cut")
    except Damage as damage:
        return Judgement(Structure.INCOMPLETE, str(damage))
    except Uncheckable as why:
        return Judgement(Structure.SHAPELESS, str(why))
    data_at = _rounded(index_end, alignment_bytes)
    expected = data_at + data_bytes if data_bytes else index_end
    if file.size < expected:
        return Judgement(Structure.INCOMPLETE, f"{expected - file.size} of {expected} bytes are missing")
    if file.size > _rounded(expected, alignment_bytes):
        return Judgement(
            Structure.SHAPELESS, f"{file.size - expected} bytes follow its end, and cannot be checked"
        )
    return judge_tail(file, files, data_at, may_be_sparse=False)


def _rounded(count: int, alignment_bytes: int) -> int:
    return -(-count // alignment_bytes) * alignment_bytes


class _Index:
    """The index, read piece by piece: with a vocabulary it may have many megabytes."""

    def __init__(self, file: OpenFile) -> None:
        self._forward = Forward(file)
        self._order: Literal["little", "big"] = "little"
        self._length_bytes = 8
        self._alignment_bytes = 32
        self._texts = 0

    def read(self) -> tuple[int, int, int]:
        """Where it ends, how far the tensors reach behind it, and to what they are aligned.

        Raises Cut, Damage, Uncheckable and OSError.
        """
        version = self._forward.take(8)[4:]
        if version[:2] == b"\0\0":
            self._order, version = "big", version[::-1]
        if int.from_bytes(version, "little") not in (1, 2, 3):
            raise Uncheckable("it is of a version that cannot be checked")
        if version[0] == 1:
            self._length_bytes = 4
        tensors, entries = self._length(), self._length()
        if max(tensors, entries) > _ENTRIES_MAX:
            self._too_long(tensors + entries)
        for _ in range(entries):
            self._entry()
        reached = 0
        for _ in range(tensors):
            reached = max(reached, self._tensor())
        return self._forward.at, reached, self._alignment_bytes

    def _too_long(self, parts: int) -> None:
        """Raises Cut when so many parts cannot be in the file at all, else Uncheckable."""
        self._forward.skip(parts * self._length_bytes)
        raise Uncheckable("its index is too long to be checked")

    def _number(self, width: int) -> int:
        data = self._forward.take(width)
        return int.from_bytes(data, self._order)

    def _length(self) -> int:
        return self._number(self._length_bytes)

    def _name(self) -> bytes:
        length = self._length()
        if length > _TEXT_BYTES_MAX:
            self._forward.skip(length)
            raise Damage("its index is damaged")
        name = self._forward.take(length)
        if not name.strip(b"\0"):  # where nothing was written, there are zeros
            raise Damage("its index is damaged")
        return name

    def _entry(self) -> None:
        name, kind = self._name(), self._number(4)
        if name == b"general.alignment" and kind == _WHOLE_NUMBER:
            self._alignment_bytes = self._number(4)
            if not 1 <= self._alignment_bytes <= _ALIGNMENT_BYTES_MAX:
                raise Uncheckable("its alignment is none that can be checked")
            return
        if kind == _LIST:
            kind, count = self._number(4), self._length()
        else:
            count = 1
        if kind in _WIDTHS:
            self._forward.skip(_WIDTHS[kind] * count)
        elif kind == _TEXT:
            self._skip_texts(count)
        else:
            raise Uncheckable("its index holds a kind of value that cannot be checked")

    def _skip_texts(self, count: int) -> None:
        self._texts += count
        if self._texts > _TEXTS_MAX:
            self._too_long(count)
        length, skip = self._length, self._forward.skip
        for _ in range(count):
            skip(length())

    def _tensor(self) -> int:
        """How far one tensor reaches behind the index."""
        self._name()
        dimensions = self._number(4)
        if dimensions > _DIMENSIONS_MAX:
            raise Uncheckable("a tensor has more dimensions than can be checked")
        shape = [self._length() for _ in range(dimensions)]
        kind, begin = self._number(4), self._number(8)
        if kind not in _BLOCKS:
            raise Uncheckable("a tensor is of a type that cannot be checked")
        numbers, block_bytes = _BLOCKS[kind]
        if (shape[0] if shape else 1) % numbers:
            raise Uncheckable("a tensor has a shape that cannot be checked")
        return begin + math.prod(shape) // numbers * block_bytes
