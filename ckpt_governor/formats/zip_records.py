"""Reads the end of a zip archive and its table of records; the data of the records only for a deep check.

The standard library's reader is not used: it accepts archives with something before or after them, does not say where
the table lies, and its test of checksums calls files broken that were written without any.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import Judgement, OpenFile

LOCAL = b"PK\3\4"
_CENTRAL = b"PK\1\2"
_END = b"PK\5\6"
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
_CHUNK_BYTES = 1 << 20


class Damage(Exception):
    """Something that a finished archive has is missing; its text is a clause for a person."""


class Record(NamedTuple):
    """One record as the table tells it."""

    name: bytes
    method: int
    crc: int
    packed_bytes: int
    header_at: int


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


def read_end(file: OpenFile) -> End:
    """The end record, with its 64-bit form. Raises Damage when it is missing or does not fit, and OSError."""
    tail_at = max(0, file.size - _TAIL_BYTES)
    tail = file.read_at(tail_at, _TAIL_BYTES)
    at = tail.rfind(_END)
    if at < 0 and tail_at:
        tail_at = max(0, file.size - _TRAILING_BYTES_MAX - _END_BYTES)
        tail = file.read_at(tail_at, _TRAILING_BYTES_MAX + _END_BYTES)
        at = tail.rfind(_END)
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
    if table[at : at + 4] != _CENTRAL or at + 46 > len(table):
        raise Damage("its table of records is damaged")
    method, crc, packed, plain, name_bytes, extra_bytes, comment_bytes, header_at = struct.unpack_from(
        "<H4x3L3H8xL", table, at + 10
    )
    name_at = at + 46
    extra_at = name_at + name_bytes
    after = extra_at + extra_bytes + comment_bytes
    if after > len(table):
        raise Damage("its table of records is damaged")
    if 0xFFFFFFFF in (packed, plain, header_at):
        plain, packed, header_at = _wide(table[extra_at : extra_at + extra_bytes], plain, packed, header_at)
    return Record(table[name_at:extra_at], method, crc, packed, header_at), after


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
    for record in {*ordered[::step], *ordered[-1:]}:
        header = file.read_at(record.header_at, 30 + len(record.name))
        if header[:4] != LOCAL or header[30:] != record.name:
            raise Damage("a record is not where its table says")


def judge_archive(file: OpenFile, missing: Callable[[list[Record]], str]) -> Judgement:
    """The cheap check. ``missing`` says what a finished archive of its kind still lacks, empty for nothing."""
    try:
        end = read_end(file)
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


def deep_check_archive(file: OpenFile, progress: Callable[[int], None]) -> Judgement:
    """The checksum of every record, unless the archive was written without any."""
    try:
        end = read_end(file)
        records = read_records(file, end)
        check_records(file, end, records)
        if not any(record.crc for record in records):
            return Judgement(Structure.COMPLETE, "it was written without checksums")
        for record in records:
            _check_sum(file, record, progress)
    except Damage as damage:
        return Judgement(Structure.INCOMPLETE, str(damage))
    return Judgement(Structure.COMPLETE)


def _check_sum(file: OpenFile, record: Record, progress: Callable[[int], None]) -> None:
    name_bytes, extra_bytes = struct.unpack("<2H", file.read_at(record.header_at + 26, 4).ljust(4, b"\0"))
    at = record.header_at + 30 + name_bytes + extra_bytes
    end_at = at + record.packed_bytes
    unpack = zlib.decompressobj(-15) if record.method == 8 else None
    crc = 0
    while at < end_at:
        data = file.read_at(at, min(_CHUNK_BYTES, end_at - at))
        if not data:
            raise Damage("a record is cut")
        at += len(data)
        crc = _crc(data, crc, unpack)
        progress(len(data))
    if crc != record.crc:
        raise Damage(f"the checksum of {record.name.decode('utf-8', 'replace')} is wrong")


def _crc(data: bytes, crc: int, unpack: zlib._Decompress | None) -> int:
    """The checksum goes on; packed data is unpacked in bounded pieces, however far it would swell."""
    if unpack is None:
        return zlib.crc32(data, crc)
    try:
        while data:
            crc = zlib.crc32(unpack.decompress(data, _CHUNK_BYTES), crc)
            data = unpack.unconsumed_tail
    except zlib.error:
        raise Damage("a record cannot be unpacked") from None
    return crc
