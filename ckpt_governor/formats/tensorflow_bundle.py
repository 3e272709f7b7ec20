"""TensorFlow checkpoints: an index and its data in several files of one prefix, loose or inside a SavedModel."""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from attrs import frozen

from ckpt_governor.facts import Structure
from ckpt_governor.formats.crc32c import UNCHECKED, Checksum, fast_crc32c, masked
from ckpt_governor.formats.generic import holds_copies
from ckpt_governor.formats.interface import (
    COMPLETE,
    NO_CHECKSUMS,
    WRONG,
    Damage,
    Files,
    Format,
    Judgement,
    OpenFile,
    Piece,
    Plan,
    gathered,
)
from ckpt_governor.formats.naming import COPY_SUFFIXES, numbered_word, suffix_of
from ckpt_governor.formats.parts import incomplete, judge_absent, unchecked
from ckpt_governor.formats.sstable import Unknown, fields, read_table, varint

_DATA = re.compile(r"(.+)\.data-([0-9]{5,6})-of-([0-9]{5,6})", re.ASCII | re.DOTALL)
_INDEX_BYTES_READ_MAX = 4 << 20
"""About fifty thousand tensors; a longer index is not read, for time."""
_TENSORS_MAX = 100_000
"""Entries may have four bytes, where real ones have eighty."""
_SHARDS_MAX = 100_000
_STRINGS = frozenset([7, 20, 21])
"""Types whose checksum is of something else than their bytes: string, resource, variant."""
_GRAPHS = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")
_VARIABLES = "variables/variables"
_FIELDS_MAX = 64
_PREFIXES_MAX = 16


class _Entry(NamedTuple):
    """One tensor as the index tells it."""

    kind: int
    shard: int
    at: int
    bytes: int
    crc: int


class TensorFlowBundle(Format):
    """It is written under temporary names; its data is renamed into place, and its index after that."""

    word = "tensorflow"
    tells_all = True

    def group_of(self, name: str) -> str | None:
        """Only data is a part: the index beside it is a few bytes, and its coming ends the write, as a mark does."""
        match = _DATA.fullmatch(name)
        return match[1] if match is not None and match[1] != "variables" else None

    def watches_beside(self, name: str) -> tuple[str, ...]:
        return (f"{name}.index",)

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        alone = not any(suffix_of(inner) in COPY_SUFFIXES for inner in files)
        return (
            alone
            and bool(_prefixes(files))
            and numbered_word(name)
            and not holds_copies(name, files, folders)
        )

    def judge(self, files: Files) -> Judgement:
        judgement = incomplete("its data is missing")
        for prefix in sorted(_prefixes(member.name for member in files.members))[:_PREFIXES_MAX]:
            judgement = judge_bundle(files, prefix)
            if judgement.structure is not Structure.COMPLETE:
                break
        return judgement

    def plan(self, files: Files) -> Plan:
        prefixes = sorted(_prefixes(member.name for member in files.members))[:_PREFIXES_MAX]
        return _plan(files, prefixes)


class SavedModel(Format):
    """A folder with a program and its variables; what is in ``variables`` is written first."""

    word = "saved-model"

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        inner = set(folders)
        begun = "variables" in inner and inner <= {"variables", "assets", "assets.extra"} and not files
        whole = any(graph in files for graph in _GRAPHS) or begun or {"variables", "assets"} <= inner
        return whole and not holds_copies(name, files, folders)

    def judge(self, files: Files) -> Judgement:
        there = {member.name: member for member in files.members}
        graph = next((there[name] for name in _GRAPHS if name in there), None)
        if graph is None:
            begun = any(name.startswith((_VARIABLES, "assets/")) for name in there)
            return judge_absent(files, _GRAPHS[0]) if begun else unchecked("no program is in it")
        if f"{_VARIABLES}.index" in there or _VARIABLES in _prefixes(there):
            judgement = judge_bundle(files, _VARIABLES)
            if judgement.structure is not Structure.COMPLETE:
                return judgement
        if graph.name != _GRAPHS[0]:
            return unchecked(f"{graph.name} cannot be checked")
        with files.open(graph.name) as file:
            return _judge_message(file, graph.name)

    def plan(self, files: Files) -> Plan:
        there = any(member.name == f"{_VARIABLES}.index" for member in files.members)
        return _plan(files, [_VARIABLES]) if there else NO_CHECKSUMS


def _prefixes(names: Iterable[str]) -> set[str]:
    return {match[1] for name in names if (match := _DATA.fullmatch(name)) is not None}


def judge_bundle(files: Files, prefix: str) -> Judgement:
    """By its index: every shard is there and ends where the last tensor in it ends. Raises OSError."""
    try:
        shards, entries = _read_index(files, prefix)
        wanted = _shard_sizes(shards, entries)
    except Damage as damage:
        return incomplete(str(damage))
    except Unknown as unknown:
        return unchecked(str(unknown))
    except FileNotFoundError:
        return incomplete("its index is missing")
    there = {member.name: member for member in files.members}
    index = there.get(f"{prefix}.index")
    indexed_ns = files.mtime_ns_beside(f"{prefix}.index") if index is None else index.mtime_ns
    odd = ""
    for shard, size in sorted(wanted.items()):
        name = _shard_name(prefix, shard, shards)
        member = there.get(name)
        if member is None:
            return judge_absent(files, name)
        if member.bytes < size:
            return incomplete(f"{name}: {size - member.bytes} of {size} bytes are missing")
        if member.bytes > size:
            odd = odd or f"{name} has {member.bytes - size} bytes more than its index tells"
        elif indexed_ns is not None and member.mtime_ns > indexed_ns:
            odd = odd or f"{name} is newer than its index"
    return unchecked(odd) if odd else COMPLETE


def _shard_name(prefix: str, shard: int, shards: int) -> str:
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


def _read_index(files: Files, prefix: str) -> tuple[int, list[_Entry]]:
    """How many shards there are, and every tensor. Raises Damage, Unknown and OSError."""
    name = f"{prefix}.index"
    inside = any(member.name == name for member in files.members)
    try:
        with files.open(name) if inside or "/" in name else files.open_beside(name) as file:
            if file.size > _INDEX_BYTES_READ_MAX:
                raise Unknown(f"its index of {file.size} bytes is too long to be checked")
            data = file.read_at(0, file.size)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise Unknown("its index is a link, which is not followed") from None
    shards = 0
    entries: list[_Entry] = []
    for number, (key_bytes, value) in enumerate(read_table(data)):
        if key_bytes == 0:
            shards = _number(dict(fields(value)).get(1))
        else:
            entries.append(_entry(value))
        if number > _TENSORS_MAX:
            raise Unknown(f"its index has more than {_TENSORS_MAX} tensors, too many to be checked")
    if not 1 <= shards <= _SHARDS_MAX:
        raise Damage("its index is damaged")
    return shards, entries


def _entry(value: bytes) -> _Entry:
    found = dict(fields(value))
    return _Entry(*(_number(found.get(number)) for number in (1, 3, 4, 5, 6)))


def _number(value: int | bytes | None) -> int:
    if isinstance(value, bytes):
        raise Damage("its index is damaged")
    return value or 0


def _shard_sizes(shards: int, entries: list[_Entry]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for entry in entries:
        if entry.shard >= shards:
            raise Damage("its index is damaged")
        sizes[entry.shard] = max(sizes.get(entry.shard, 0), entry.at + entry.bytes)
    return sizes


def _judge_message(file: OpenFile, name: str) -> Judgement:
    """A protocol buffer ends where its last field ends."""
    at = 0
    for _ in range(_FIELDS_MAX):
        if at >= file.size:
            break
        head = file.read_at(at, 20)
        try:
            tag, after = varint(head, 0)
            count, after = varint(head, after)
        except Damage:
            return incomplete(f"{name} is cut")
        if tag & 7 not in (0, 2):
            return unchecked(f"{name} is of an unknown kind")
        at += after + (count if tag & 7 == 2 else 0)
    else:
        return unchecked(f"{name} is of an unknown kind")
    if at != file.size or at == 0:
        return incomplete(f"{name} is cut")
    return COMPLETE


def _plan(files: Files, prefixes: list[str]) -> Plan:
    """The checksum of every tensor, where a module is at hand that does not take hours. Raises Damage and OSError."""
    checksum = fast_crc32c()
    if checksum is None:
        return Plan((), UNCHECKED)
    return gathered(plan for prefix in prefixes for plan in _plans_of_tensors(files, prefix, checksum))


def _plans_of_tensors(files: Files, prefix: str, checksum: Checksum) -> Iterator[Plan]:
    try:
        shards, entries = _read_index(files, prefix)
    except Unknown as unknown:
        yield Plan((), str(unknown))
        return
    for number, entry in enumerate(entries):
        if entry.bytes and entry.kind not in _STRINGS:
            name = _shard_name(prefix, entry.shard, shards)
            check = _Crc32c(checksum, entry.crc)
            yield Plan((Piece(name, entry.at, entry.bytes, f"tensor {number} in {name}", check),))


@frozen
class _Crc32c:
    """The check of one tensor."""

    checksum: Checksum
    expected: int

    def __call__(self, data: Iterator[memoryview]) -> str:
        value = 0
        for view in data:
            value = self.checksum(view, value)
        return "" if masked(value) == self.expected else WRONG
