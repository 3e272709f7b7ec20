"""A sorted table as LevelDB made it: blocks of entries, an index of the blocks, and a footer that says where that is.

The keys are not put together: nobody here asks for one, and a hostile table could make them grow without end.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_governor.formats.crc32c import Checksum, crc32c, fast_crc32c, masked
from ckpt_governor.formats.interface import Damage

_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_PLAIN = 0
_CHECKED_BYTES_MAX = 1 << 20
"""Of a larger table the blocks behind these are believed without their checksums, unless a fast one is at hand."""


class Unknown(Exception):
    """Nothing can be said; its text is a clause for a person."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to 64 bits, and where it ends. Raises Damage."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Damage("its index is damaged")


def read_table(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Every entry: how long its key is, and its value. Raises Damage, and Unknown for what is packed."""
    if len(data) < _FOOTER_BYTES or data[-len(_MAGIC) :] != _MAGIC:
        raise Damage("its index is cut")
    footer = data[-_FOOTER_BYTES:]
    at = 0
    for _ in range(2):  # the first handle is of a block about the table that nobody fills
        _, at = varint(footer, at)
    index_at, at = varint(footer, at)
    index_bytes, at = varint(footer, at)
    checksum = fast_crc32c() or crc32c
    left = len(data) if checksum is not crc32c else _CHECKED_BYTES_MAX
    index = _block(data, index_at, index_bytes, checksum)
    reached = 0
    for _, handle in _entries(index):
        block_at, after = varint(handle, 0)
        block_bytes, _ = varint(handle, after)
        if block_at < reached:  # they lie one after another, so that all of them are no more than the file
            raise Damage("its index is damaged")
        reached = block_at + block_bytes
        left -= block_bytes
        yield from _entries(_block(data, block_at, block_bytes, checksum if left >= 0 else None))


def _block(data: bytes, at: int, count: int, checksum: Checksum | None) -> bytes:
    end = at + count
    if end + _TRAILER_BYTES > len(data) - _FOOTER_BYTES or count < 4:
        raise Damage("its index is damaged")
    if checksum is not None:
        stored = int.from_bytes(data[end + 1 : end + _TRAILER_BYTES], "little")
        if masked(checksum(data[at : end + 1], 0)) != stored:
            raise Damage("the checksum of its index is wrong")
    if data[end] != _PLAIN:
        raise Unknown("its index is packed and cannot be checked")
    return data[at:end]


def _entries(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Behind the entries are the places where keys begin anew, and how many those are."""
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise Damage("its index is damaged")
    at, key_bytes = 0, 0
    while at < end:
        shared, at = varint(block, at)
        more, at = varint(block, at)
        value_bytes, at = varint(block, at)
        value_at = at + more
        at = value_at + value_bytes
        if shared > key_bytes or at > end:
            raise Damage("its index is damaged")
        key_bytes = shared + more
        yield key_bytes, block[value_at:at]


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer: number, and a number or bytes. Raises Damage."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        kind = tag & 7
        value: int | bytes
        if kind == 0:
            value, at = varint(message, at)
        elif kind in (1, 5):
            end = at + (8 if kind == 1 else 4)
            value, at = int.from_bytes(message[at:end], "little"), end
        elif kind == 2:
            count, at = varint(message, at)
            value, at = message[at : at + count], at + count
        else:
            raise Unknown("its index is of an unknown kind")
        if at > len(message):
            raise Damage("its index is damaged")
        yield tag >> 3, value
