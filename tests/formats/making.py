"""Makes small checkpoint files with the standard library alone, and shows them to a format as the scanner would."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable, Collection
from pathlib import Path

from ckpt_governor.facts import Structure
from ckpt_governor.formats import format_named, format_of_file
from ckpt_governor.formats.deep import check, each_byte_once
from ckpt_governor.formats.interface import (
    NO_CHECKSUMS,
    Damage,
    Format,
    Judgement,
    Member,
    MemberFile,
    Plan,
    T,
)
from ckpt_governor.formats.manifest import judge_by_manifest, plan_by_manifest
from ckpt_governor.formats.reading import RegularFile

TENSORS = {"data.pkl": b"\x80\x02}q\x00.", "byteorder": b"little", "data/0": bytes(range(256)) * 12}


def torch_zip(
    records: dict[str, bytes] | None = None, *, root: str = "archive", crc: bool = True, version: bool = True
) -> bytes:
    """An archive as ``torch.save`` writes it: stored records, checksums behind the data, 64-bit end record."""
    records = dict(TENSORS if records is None else records)
    if version:
        records["version"] = b"3\n"
    out, table = bytearray(), bytearray()
    for name, data in records.items():
        path = f"{root}/{name}".encode()
        checksum = zlib.crc32(data) if crc else 0
        at = len(out)
        out += struct.pack("<4s5H3L2H", b"PK\3\4", 0, 0x808, 0, 0, 0, 0, len(data), len(data), len(path), 0)
        out += path + data + struct.pack("<4s3L", b"PK\7\x08", checksum, len(data), len(data))
        table += struct.pack(
            "<4s6H3L5H2L",
            b"PK\1\2", 0, 0, 0x808, 0, 0, 0, checksum, len(data), len(data), len(path), 0, 0, 0, 0, 0, at,
        ) + path  # fmt: skip
    return bytes(out) + end_of_zip(len(out), len(table), len(records), bytes(table))


def end_of_zip(table_at: int, table_bytes: int, count: int, table: bytes) -> bytes:
    """The table with the end records that torch always writes."""
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 0, 0, 0, 0, count, count, table_bytes, table_at)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, table_at + table_bytes, 1)
    short = min(table_at, 0xFFFFFFFF)
    return (
        table
        + end64
        + locator
        + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, table_bytes, short, 0)
    )


def safetensors(sizes: tuple[int, ...] = (1024, 4096), *, metadata: dict[str, str] | None = None) -> bytes:
    """Tensors of bytes, one after another."""
    index: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for number, size in enumerate(sizes):
        index[f"layer.{number}"] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(index, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes((7 * n + 3) % 251 + 1 for n in range(at))


class Shown:
    """One file or folder as a format is given it."""

    def __init__(self, path: Path, former: Judgement | None = None, age_s: float = 1000.0) -> None:
        self.path, self.name = path, path.name
        self.former: Judgement | None = former
        self.age_s = age_s
        self.beside: Collection[str] = frozenset(os.listdir(path.parent))
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        self.members = tuple(self._member(file) for file in files)
        folders = path.rglob("*") if path.is_dir() else ()
        self.hollow: Collection[str] = [
            str(one.relative_to(path)) for one in folders if one.is_dir() and not any(one.iterdir())
        ]

    def _member(self, file: Path) -> Member:
        found = file.stat()
        name = "" if file == self.path else str(file.relative_to(self.path))
        return Member(name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def open(self, member: str) -> RegularFile:
        """One of the members."""
        root = os.open(self.path.parent, os.O_RDONLY)
        try:
            return RegularFile(root, f"{self.name}/{member}" if member else self.name)
        finally:
            os.close(root)

    def open_beside(self, name: str) -> RegularFile:
        """A file beside it."""
        root = os.open(self.path.parent, os.O_RDONLY)
        try:
            return RegularFile(root, name)
        finally:
            os.close(root)

    def plan_member(self, member: Member) -> Plan:
        """By the word that its name suggests."""
        word = {".pt": "torch-zip"}.get(Path(member.name).suffix)
        plan = known(word).plan(Shown(self.path / member.name)) if word else NO_CHECKSUMS
        return plan._replace(pieces=tuple(piece._replace(member=member.name) for piece in plan.pieces))

    def mtime_ns_beside(self, name: str) -> int | None:
        """Of a file beside it."""
        path = self.path.parent / name
        return path.stat().st_mtime_ns if path.is_file() else None

    def judge_member(self, member: Member) -> Judgement | None:
        """By the word that its name suggests, enough for these tests."""
        word = {".pt": "torch-zip", ".safetensors": "safetensors"}.get(Path(member.name).suffix)
        return judged(word, self.path / member.name) if word else None

    def learn(self, member: Member, reader: Callable[[MemberFile], T]) -> T:
        """Read anew each time."""
        with self.open(member.name) as file:
            return reader(file)

    def check_time(self) -> None:
        """There is time."""


def judged(word: str, path: Path, **more: object) -> Judgement:
    """What the format with this word says about a file or folder, and its manifest where there is one."""
    return judge_by_manifest(known(word), Shown(path, **more))  # type: ignore[arg-type]


def known(word: str) -> Format:
    """The format with this word."""
    format = format_named(word)
    assert format is not None
    return format


def word_of(name: str, head: bytes) -> str | None:
    """The word of the format that claims a file, None when no one does."""
    format = format_of_file(name, head)
    return None if format is None else format.word


def checked_deeply(word: str, path: Path) -> tuple[Structure, str, int]:
    """What a deep check says, why, and how many bytes it read."""
    files = Shown(path)
    try:
        plan = each_byte_once(plan_by_manifest(known(word), files), files.members)
    except Damage as damage:
        return Structure.INCOMPLETE, str(damage), 0
    found = check(files, plan, threads=2)
    assert found.unread is None
    if found.wrong or not plan.pieces:
        return (
            Structure.INCOMPLETE if found.wrong else Structure.SHAPELESS,
            found.wrong or plan.why,
            found.checked_bytes,
        )
    return Structure.COMPLETE, plan.why, found.checked_bytes
