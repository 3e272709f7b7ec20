"""Reads the end of a zip archive and its table of records; the data of the records only for a deep check.

The standard library's reader is not used: it accepts archives with something before or after them, does not say where
the table lies, and its test of checksums calls files broken that were written without any.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from attrs import frozen

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import NO_CHECKSUMS, WRONG, Judgement, OpenFile, Piece, Plan
from ckpt_governor.formats.interface import Damage as Damage  # also named by those who read archives
from ckpt_governor.formats.reading import Window

LOCAL = b"PK\3\4"
_CENTRAL = b"PK\1\2"
END = b"PK\5\6"
"""All of an archive without a record begins with it."""
_END64 = b"PK\6\6"
_LOCATOR64 = b"PK\6\7"
_END_BYTES = 22
_END64_BYTES = 56
_LOCATOR64_BYTES = 20
_TAIL_BYTES = 512
_TRAILING_BYTES_MAX = 65_557
"""How far before the end of the file the end record may lie: behind it a comment, or what a block tool appended."""
_TABLE_BYTES_MAX = 8 << 20
_RECORDS_MAX = 50_000
_SAMPLES = 5
_WIDE = 0xFFFFFFFF
"""In place of a number that has no room in 32 bits."""
_ENTRY = struct.Struct("<4s4x2H4x3L3H8xL").unpack_from
_CHUNK_BYTES = 1 << 20
_NAME_BYTES_SHOWN_MAX = 256


class Record(NamedTuple):
    """One record as the table tells it."""

    name: bytes
    method: int
    crc: int
    packed_bytes: int
    header_at: int
    plain_bytes: int = 0
    """How long it is when it is unpacked."""
    flags: int = 0


class End(NamedTuple):
    """Where the table lies, and how much follows the archive."""

    records: int
    table_bytes: int
    table_at: int
    trailing_bytes: int


def first_name(head: bytes) -> bytes:
    """The name of the first record, from the beginning of the file; empty when that is no zip or too short."""
    if len(head) < 30 or not head.startswith(LOCAL):
        return b""
    length: int = struct.unpack_from("<H", head, 26)[0]
    return head[30 : 30 + length] if len(head) >= 30 + length else b""


def is_tail(tail: bytes) -> bool:
    """Whether an archive without a comment ends so."""
    return tail[-_END_BYTES:].startswith(END) and _CENTRAL in tail


def read_end(file: OpenFile) -> End:
    """The end record, with its 64-bit form. Raises Damage when it is missing or does not fit, and OSError."""
    tail_at = max(0, file.size - _TAIL_BYTES)
    tail = file.read_at(tail_at, _TAIL_BYTES)
    at = tail.rfind(END)
    if at < 0 and tail_at:
        tail_at = max(0, file.size - _TRAILING_BYTES_MAX - _END_BYTES)
        tail = file.read_at(tail_at, _TRAILING_BYTES_MAX + _END_BYTES)
        at = tail.rfind(END)
    if at < 0 or len(tail) < at + _END_BYTES:
        raise Damage("no end record")
    _, _, _, count, table_bytes, table_at, comment_bytes = struct.unpack_from("<4H2LH", tail, at + 4)
    end_at = tail_at + at
    trailing_bytes = file.size - end_at - _END_BYTES - comment_bytes
    if trailing_bytes < 0:
        raise Damage("its end record is cut")
    records_end = end_at
    locator = file.read_at(end_at - _LOCATOR64_BYTES, _LOCATOR64_BYTES)
    if locator[:4] == _LOCATOR64 and len(locator) == _LOCATOR64_BYTES:
        (end64_at,) = struct.unpack_from("<Q", locator, 8)
        end64 = file.read_at(end64_at, _END64_BYTES) if end64_at < end_at else b""
        if end64[:4] != _END64 or len(end64) < _END64_BYTES:
            raise Damage("its 64-bit end record is missing")
        count, table_bytes, table_at = struct.unpack_from("<3Q", end64, 32)
        records_end = end64_at
    elif count == 0xFFFF or 0xFFFFFFFF in (table_bytes, table_at):
        raise Damage("its 64-bit end record is missing")
    if table_at + table_bytes != records_end:
        raise Damage("its table of records is not where its end record says")
    return End(count, table_bytes, table_at, trailing_bytes)


def read_records(file: OpenFile, end: End) -> list[Record]:
    """The table. Raises Damage when it is not whole, and OSError."""
    table = file.read_at(end.table_at, end.table_bytes)
    if len(table) != end.table_bytes:
        raise Damage("its table of records is cut")
    records: list[Record] = []
    at = 0
    while at < len(table):
        record, at = _record(table, at)
        records.append(record)
    if len(records) != end.records:
        raise Damage(f"its table names {len(records)} records, its end record {end.records}")
    return records


def _record(table: bytes, at: int) -> tuple[Record, int]:
    try:
        mark, flags, method, crc, packed, plain, name_bytes, extra_bytes, comment_bytes, header_at = _ENTRY(
            table, at
        )
    except struct.error:
        raise Damage("its table of records is damaged") from None
    name_at = at + 46
    extra_at = name_at + name_bytes
    after = extra_at + extra_bytes + comment_bytes
    if mark != _CENTRAL or after > len(table):
        raise Damage("its table of records is damaged")
    if packed == _WIDE or plain == _WIDE or header_at == _WIDE:
        plain, packed, header_at = _wide(table[extra_at : extra_at + extra_bytes], plain, packed, header_at)
    return Record(table[name_at:extra_at], method, crc, packed, header_at, plain, flags), after


def _wide(extra: bytes, *fields: int) -> list[int]:
    """The fields with those that did not fit 32 bits taken from the extra field, in its fixed order."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            values = extra[at + 4 : at + 4 + length]
            wanted = sum(field == 0xFFFFFFFF for field in fields)
            if len(values) < 8 * wanted:
                break
            wide = iter(struct.unpack_from(f"<{wanted}Q", values))
            return [next(wide) if field == 0xFFFFFFFF else field for field in fields]
        at += 4 + length
    raise Damage("its table of records is damaged")


def check_records(file: OpenFile, end: End, records: list[Record]) -> None:
    """That they lie one after another before the table, and that a few of them begin where they should."""
    reached = 0
    ordered = sorted(records, key=lambda record: record.header_at)
    for record in ordered:
        if record.header_at < reached:
            raise Damage("its records overlap")
        reached = record.header_at + 30 + len(record.name) + record.packed_bytes
    if reached > end.table_at:
        raise Damage("its records reach into its table")
    step = max(1, (len(ordered) - 1) // (_SAMPLES - 1)) if ordered else 1
    for record in dict.fromkeys((*ordered[::step], *ordered[-1:])):
        header = file.read_at(record.header_at, 30 + len(record.name))
        if record.header_at == 0 and not any(header):
            raise Damage("its beginning was never written")
        if header[:4] != LOCAL or header[30:] != record.name:
            raise Damage("a record is not where its table says")


def judge_archive(file: OpenFile, missing: Callable[[list[Record]], str]) -> Judgement:
    """The cheap check. ``missing`` says what a finished archive of its kind still lacks, empty for nothing."""
    try:
        end = read_end(file)
        if 46 * end.records > end.table_bytes:
            raise Damage("its table is damaged")
        if end.table_bytes <= _TABLE_BYTES_MAX and end.records <= _RECORDS_MAX:
            records = read_records(file, end)
            check_records(file, end, records)
            lacks = missing(records)
            if lacks:
                return Judgement(Structure.INCOMPLETE, lacks)
    except Damage as damage:
        return Judgement(Structure.INCOMPLETE, str(damage))
    if end.trailing_bytes:
        return Judgement(Structure.COMPLETE, f"{end.trailing_bytes} bytes follow its end record")
    return Judgement(Structure.COMPLETE)


def plan_archive(file: OpenFile, member: str = "", at: int = 0, length: int | None = None) -> Plan:
    """The records that have a checksum, of an archive that is this file or a part of it. Raises Damage and OSError.

    ``member``: the name of the file that holds it; ``at`` and ``length``: where in it. A checksum of zero is none:
    torch leaves it so when it is told to write without checksums.
    """
    archive = Window(file, at, file.size - at if length is None else length)
    end = read_end(archive)
    if end.table_bytes > _TABLE_BYTES_MAX or end.records > _RECORDS_MAX:
        return Plan((), f"its table of {end.records} records is too long to be checked")
    records = read_records(archive, end)
    check_records(archive, end, records)
    pieces: list[Piece] = []
    unknown = False
    for record, end_at in _with_ends(records, end):
        if record.crc and (record.method not in (0, 8) or record.flags & 1):
            unknown = True
        elif record.crc:
            pieces.append(_piece(archive, member, at, record, end_at))
    if unknown:
        return Plan(
            tuple(pieces), "some of its records are encrypted or packed in a way that is not known here"
        )
    return Plan(tuple(pieces)) if pieces else NO_CHECKSUMS


def _with_ends(records: list[Record], end: End) -> Iterator[tuple[Record, int]]:
    """In the order of their data, and where each must have ended."""
    ordered = sorted(records, key=lambda record: record.header_at)
    for record, after in pairwise(ordered):
        yield record, after.header_at
    yield from ((record, end.table_at) for record in ordered[-1:])


def _piece(archive: OpenFile, member: str, at: int, record: Record, end_at: int) -> Piece:
    """Where its data begins only the header before it tells. Raises Damage."""
    name_bytes, extra_bytes = struct.unpack("<2H", archive.read_at(record.header_at + 26, 4).ljust(4, b"\0"))
    data_at = record.header_at + 30 + name_bytes + extra_bytes
    if data_at + record.packed_bytes > end_at:
        raise Damage("its records overlap")
    expected = _Unpacked(record.crc, record.plain_bytes) if record.method else record.crc
    what = record.name[:_NAME_BYTES_SHOWN_MAX].decode("utf-8", "replace")
    return Piece(member, at + data_at, record.packed_bytes, what, expected)


@frozen
class _Unpacked:
    """The checksum of what the data unpacks to, and how long that is: no more than that is ever unpacked."""

    crc: int
    plain_bytes: int

    def __call__(self, data: Iterator[memoryview]) -> str:
        unpack, crc, left = zlib.decompressobj(-15), 0, self.plain_bytes
        try:
            for view in data:
                rest: bytes | memoryview = view
                while rest and left >= 0 and not unpack.eof:
                    plain = unpack.decompress(rest, min(_CHUNK_BYTES, left + 1))
                    crc, left, rest = zlib.crc32(plain, crc), left - len(plain), unpack.unconsumed_tail
                if left < 0 or unpack.eof:
                    break  # what follows the end of the packed data would only be gathered
            plain = unpack.flush() if left >= 0 else b""
        except zlib.error:
            return "cannot be unpacked"
        crc, left = zlib.crc32(plain, crc), left - len(plain)
        if left < 0:
            return "unpacks to more than its table tells"
        if left or not unpack.eof:
            return "unpacks to less than its table tells"
        return "" if crc == self.crc else WRONG
