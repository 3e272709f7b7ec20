"""safetensors: a length, a JSON index of that length, and the data; the sizes must agree to the byte."""

from __future__ import annotations

import re

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import Files, Format, Judgement, OpenFile
from ckpt_governor.formats.naming import suffix_of
from ckpt_governor.formats.unwritten import judge_tail

_INDEX_BYTES_MAX = 100_000_000
"""The library's own bound."""
_INDEX_BYTES_READ_MAX = 16 << 20
"""More than a hundred thousand tensors; a longer index is not read, for time and memory."""
# The index is searched instead of parsed: a fiftieth of the time, and no memory for its objects. In valid JSON this
# pattern cannot occur inside a string, where every quote has a backslash before it.
_OFFSETS = re.compile(rb'"data_offsets"\s*:\s*\[\s*([0-9]{1,18})\s*,\s*([0-9]{1,18})\s*\]')


class Safetensors(Format):
    """Since 0.8 it is written beside under a temporary name with its full size at once, before that in place."""

    word = "safetensors"

    def claims_file(self, name: str, head: bytes) -> bool:
        if suffix_of(name) == "safetensors":
            return True
        length = int.from_bytes(head[:8], "little")
        return head[8:10] in (b'{"', b"{}") and len(head) >= 10 and 2 <= length <= _INDEX_BYTES_MAX

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            return _judge(file, files)


def _judge(file: OpenFile, files: Files) -> Judgement:
    if file.size < 8:
        return _incomplete("its index is not there yet")
    length = int.from_bytes(file.read_at(0, 8), "little")
    if not 2 <= length <= _INDEX_BYTES_MAX:
        return _incomplete("it does not begin with the length of its index")
    if file.size < 8 + length:
        return _incomplete("its index is cut")
    if length > _INDEX_BYTES_READ_MAX:
        return Judgement(Structure.SHAPELESS, f"its index of {length} bytes is too long to be checked")
    index = file.read_at(8, length)
    if len(index) < length or index[:1] != b"{" or index.rstrip(b" \n\r\t")[-1:] != b"}" or b"\0" in index:
        return _incomplete("its index is damaged")
    return _judge_sizes(file, files, index)


def _judge_sizes(file: OpenFile, files: Files, index: bytes) -> Judgement:
    reached, covered = 0, 0
    for match in _OFFSETS.finditer(index):
        begin, end = int(match[1]), int(match[2])
        if end < begin:
            return _incomplete("its index is damaged")
        reached = max(reached, end)
        covered += end - begin
    if reached != covered:
        return _incomplete("its index has gaps or overlaps")
    expected = 8 + len(index) + reached
    if file.size < expected:
        return _incomplete(f"{expected - file.size} of {expected} bytes are missing")
    if file.size > expected:
        return _incomplete(f"{file.size - expected} bytes more than its index tells")
    return judge_tail(file, files, 8 + len(index), may_be_sparse=False)


def _incomplete(why: str) -> Judgement:
    return Judgement(Structure.INCOMPLETE, why)
