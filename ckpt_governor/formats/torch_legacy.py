"""``torch.save`` before 1.6, or without its new format: five pickles, and then each storage behind its length."""

from __future__ import annotations

import re

from ckpt_governor.facts import Structure
from ckpt_governor.formats.generic import GenericFile
from ckpt_governor.formats.inert import Budget, Cut, Damaged, Failure, Inert, Unsupported, walk
from ckpt_governor.formats.interface import Files, Judgement, OpenFile
from ckpt_governor.formats.naming import CONCATENATED_SUFFIXES, suffix_of
from ckpt_governor.formats.unwritten import judge_tail

_MAGIC = 0x1950A86A20F9469CFC6C
_MAGIC_PICKLE = re.compile(
    rb"\x80[\x02-\x05](?:\x95.{8})?\x8a\x0a" + re.escape(_MAGIC.to_bytes(10, "little")) + rb"\.", re.DOTALL
)
_VERSION = 1001
_OPCODES_MAX = 1_000_000
_STORAGES_MAX = 20_000
_LENGTH_BYTES = 8
_BYTES_MAX = 1 << 62

_ITEM_BYTES = {
    name: size
    for size, names in (
        (1, "Untyped _Untyped Byte Char Bool QInt8 QUInt8 QUInt4x2 QUInt2x4"),
        (2, "Short Half BFloat16"),
        (4, "Int Float QInt32"),
        (8, "Long Double ComplexFloat"),
        (16, "ComplexDouble"),
    )
    for name in names.split()
}


class TorchLegacy(GenericFile):
    """It grows at its final name. The loader wants each length to be as pickled, and ignores what follows the last."""

    word = "torch-legacy"

    def claims_file(self, name: str, head: bytes) -> bool:
        return suffix_of(name) not in CONCATENATED_SUFFIXES and _MAGIC_PICKLE.match(head) is not None

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            judgement = _judge(file, files)
        if judgement.structure is Structure.SHAPELESS:
            marked = super().judge(files)
            return marked if marked.structure is Structure.COMPLETE else judgement
        return judgement


def _judge(file: OpenFile, files: Files) -> Judgement:
    try:
        storages, at = _index(file)
        end = at + sum(_LENGTH_BYTES + bytes for bytes, _ in storages)
        if file.size < end:
            return _incomplete(f"{end - file.size} of {end} bytes are missing")
        last_at = at
        for bytes, length in storages:
            if file.read_at(at, _LENGTH_BYTES) != length:
                return _incomplete(f"a tensor is not where its index says, at byte {at}")
            last_at, at = at, at + _LENGTH_BYTES + bytes
    except (Cut, Damaged) as failure:
        return _incomplete(str(failure))
    except Failure as failure:
        return Judgement(Structure.SHAPELESS, str(failure))
    if file.size > end:
        return Judgement(
            Structure.SHAPELESS, f"{file.size - end} bytes follow its end, and cannot be checked"
        )
    return judge_tail(file, files, last_at, may_be_sparse=False)


def _index(file: OpenFile) -> tuple[list[tuple[int, bytes]], int]:
    """Of each storage how many bytes it has and how its length is written; and where the first of them lies."""
    budget = Budget(_OPCODES_MAX, memory=128 << 20, bytes=32 << 20)
    magic = walk(file, 0, budget)
    version = walk(file, magic.end, budget)
    system = walk(file, version.end, budget)
    if magic.value != _MAGIC or version.value != _VERSION or not _is_little_endian(system.value):
        raise Unsupported("it is of another version and cannot be checked")
    held = walk(file, system.end, budget)
    keys = walk(file, held.end, budget)
    known: dict[str, tuple[int, bytes]] = {}
    for told in held.persistent_ids:
        if type(told) is tuple and len(told) == 6 and told[0] == "storage" and type(told[2]) is str:
            known.setdefault(told[2], _storage(told[1], told[4]))
    if type(keys.value) is not list or len(keys.value) > _STORAGES_MAX:
        raise Unsupported("its list of tensors cannot be checked")
    storages = [known.get(key) if type(key) is str else None for key in keys.value]
    if None in storages:
        raise Unsupported("its list of tensors cannot be checked")
    return [storage for storage in storages if storage is not None], keys.end


def _is_little_endian(system: object) -> bool:
    return type(system) is dict and system.get("little_endian") is True


def _storage(kind: object, count: object) -> tuple[int, bytes]:
    """How many bytes a storage has, and how its length is written. Raises Unsupported."""
    size = _ITEM_BYTES.get(kind.name.removesuffix("Storage")) if type(kind) is Inert else None
    if size is None or type(count) is not int or not 0 <= count < _BYTES_MAX:
        raise Unsupported("it has tensors of a sort that cannot be checked")
    return count * size, count.to_bytes(_LENGTH_BYTES, "little")


def _incomplete(why: str) -> Judgement:
    return Judgement(Structure.INCOMPLETE, why)
