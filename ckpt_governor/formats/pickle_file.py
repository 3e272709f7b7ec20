"""Pickles, as they are or one after another, and joblib's, where the bytes of arrays stand between the opcodes."""

from __future__ import annotations

import re

from ckpt_governor.facts import SmallSize, Structure
from ckpt_governor.formats.generic import GenericFile
from ckpt_governor.formats.inert import Budget, Cut, Damaged, Failure, Inert, TooBig, Unsupported, walk
from ckpt_governor.formats.interface import COMPLETE, Files, Judgement, OpenFile
from ckpt_governor.formats.naming import names_a_copy, suffix_of

_SUFFIXES = ("pkl", "pickle", "joblib")
_OPCODES_MAX = 500_000
_BEGINNING_BYTES = 256
# A value may begin with these opcodes; all but the oldest pickles have their protocol before the first.
_BEGINNING = re.compile(rb"\x80[\x02-\x05][\x95\x8a-\x8f\x88\x89\x96NKMJGIFLBCXUTSV()\]}c]", re.DOTALL)
_OLD_BEGINNING = re.compile(
    rb"\((?:[dl]p|tp|l|d)[0-9]+\n|c[A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n|[}\]]q\0", re.ASCII
)
_PACKED = (
    b"\x1f\x8b", b"x\x01", b"x\x5e", b"x\x9c", b"x\xda", b"BZh", b"\xfd7zXZ", b"\x5d\0\0", b"\x04\x22M\x18",
    b"\x28\xb5\x2f\xfd", b"ZF",
)  # fmt: skip
"""gzip, zlib, bzip2, xz, lzma, lz4, zstandard, and joblib's own of old."""
_SIZE = re.compile(r"[A-Za-z]([0-9]{1,9})", re.ASCII)
_SIDES_MAX = 64
_SIDE_BELOW = 1 << 62
_HOLDS_OBJECTS = 1
"""A flag of numpy."""


class PickleFile(GenericFile):
    """It grows at its final name. The loader ignores what follows the first pickle."""

    word = "pickle"

    def claims_file(self, name: str, head: bytes) -> bool:
        begins = _BEGINNING.match(head) is not None or (len(head) < 3 and head[:1] == b"\x80")
        return suffix_of(name) in _SUFFIXES or (begins and names_a_copy(name))

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            judgement = _judge(file)
        if judgement.structure is Structure.SHAPELESS:
            marked = super().judge(files)
            return marked if marked.structure is Structure.COMPLETE else judgement
        return judgement


def _judge(file: OpenFile) -> Judgement:
    head = file.read_at(0, _BEGINNING_BYTES)
    if not head.strip(b"\0"):
        return _incomplete("its beginning was never written" if head else "empty")
    if head.startswith(_PACKED):
        return _shapeless("it is compressed and cannot be checked")._replace(small=SmallSize.DOUBT)
    if len(head) > 2 and not (_BEGINNING.match(head) or _OLD_BEGINNING.match(head)):
        return _shapeless("it does not begin as a pickle does, and cannot be checked")
    arrays = _Arrays(file, Budget(_OPCODES_MAX, memory=64 << 20, bytes=16 << 20))
    end = 0
    try:
        while True:
            end = walk(file, end, arrays.budget, arrays.behind).end
            if end >= file.size:
                return COMPLETE
            if not _BEGINNING.match(file.read_at(end, 3)):
                return _shapeless(f"{file.size - end} bytes follow its end, and cannot be checked")
    except (Cut, Damaged) as failure:
        return _incomplete(str(failure))
    except Failure as failure:
        return _shapeless(str(failure))


class _Arrays:
    """Where joblib's pickles go on behind an array."""

    def __init__(self, file: OpenFile, budget: Budget) -> None:
        self.file = file
        self.budget = budget

    def behind(self, built: Inert, at: int) -> int:
        """The offset behind the bytes of an array, or the same one when this is none. Raises Failure and OSError."""
        if built.name != "NumpyArrayWrapper" or not built.module.endswith("joblib.numpy_pickle"):
            return at
        self.budget.jumps -= 1
        if self.budget.jumps < 0:
            raise TooBig
        fields = built.fields()
        bytes = _array_bytes(fields.get("shape"), fields.get("dtype"))
        if bytes is None:  # an array of objects is a pickle of its own
            return walk(self.file, at, self.budget).end
        if fields.get("numpy_array_alignment_bytes") is not None:
            filled = self.file.read_at(at, 1)
            if not filled:
                raise Cut
            at += 1 + filled[0]
        return at + bytes


def _array_bytes(shape: object, dtype: object) -> int | None:
    """How many bytes an array has; None when it holds objects. Raises Unsupported."""
    size = _item_bytes(dtype)
    if type(shape) is not tuple or len(shape) > _SIDES_MAX:
        raise _unknown_array()
    for side in shape:
        if type(side) is not int or not 0 <= side < _SIDE_BELOW:
            raise _unknown_array()
        if size is not None:
            size *= side
    return size


def _item_bytes(dtype: object) -> int | None:
    """The size of one element, None for objects. Raises Unsupported."""
    if type(dtype) is not Inert or (dtype.module, dtype.name) != ("numpy", "dtype"):
        raise _unknown_array()
    state, args = dtype.state, dtype.args
    if type(state) is not tuple or not 8 <= len(state) <= 9 or type(state[7]) is not int:
        raise _unknown_array()
    if state[7] & _HOLDS_OBJECTS:
        return None
    if type(state[5]) is int and 0 <= state[5] < _SIDE_BELOW:
        return state[5]
    named = _SIZE.fullmatch(args[0]) if type(args) is tuple and args and type(args[0]) is str else None
    if named is None:
        raise _unknown_array()
    return int(named[1])


def _unknown_array() -> Unsupported:
    return Unsupported("it holds arrays of a sort that cannot be checked")


def _incomplete(why: str) -> Judgement:
    return Judgement(Structure.INCOMPLETE, why)


def _shapeless(why: str) -> Judgement:
    return Judgement(Structure.SHAPELESS, why)
