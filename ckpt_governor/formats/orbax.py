"""Orbax folders: written under a temporary name that is changed when all is there, with the time of that in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from functools import partial

from ckpt_governor.facts import Structure
from ckpt_governor.formats.crc32c import crc32c
from ckpt_governor.formats.interface import COMPLETE, Files, Format, Judgement, Member, OpenFile
from ckpt_governor.formats.marks import done_name
from ckpt_governor.formats.naming import step_of
from ckpt_governor.formats.parts import incomplete, judge_json, unchecked

_COMMIT_TIMES = "_CHECKPOINT_METADATA"
_COMMITTED = "commit_success.txt"
"""Written last; where folders cannot be renamed at once it alone ends a write."""
_MANIFEST = "manifest.ocdbt"
_MARKS = frozenset([_COMMIT_TIMES, "_METADATA", _MANIFEST, _COMMITTED, "orbax.checkpoint"])
_NEWER_API = "orbax.checkpoint"
_NEWER = re.compile(r"(?:[^/]+/)?array_metadatas/process_[0-9]+", re.ASCII | re.DOTALL)
"""Written by versions that are newer than that mark."""
_TEMPORARY = ".orbax-checkpoint-tmp"
_TEXTS = re.compile(r"(?:.*/)?(?:_METADATA|_sharding|array_metadatas/process_[0-9]+)", re.ASCII | re.DOTALL)
_DATA = re.compile(r"(?:.*/)?(?:d|ocdbt_data|ocdbt_meta)/[0-9a-f]{16,}", re.ASCII | re.DOTALL)
_CHUNK = re.compile(r"[0-9]+(?:[./][0-9]+)*|c(?:[./][0-9]+)*", re.ASCII)
_OF_A_PROCESS = "ocdbt.process_"
_MAGIC = bytes.fromhex("0cdb3a2a")
_HEADER_BYTES = 13
_VERSION = 0
_CHECKED_BYTES_MAX = 1 << 16
"""A longer manifest is not summed, for time."""
_TIMES_BYTES_MAX = 1 << 20
_TEXT_BYTES_MAX = 16 << 20
_TREE = "_METADATA"
_TREE_BYTES_MAX = 1 << 20
"""The arrays of a larger tree are not looked up, for memory."""
_STORED = ("scalar", "jax.Array", "np.ndarray")
"""What is stored as an array in a folder of its own."""
_ARRAY_BYTES_MAX = 1 << 16
_DIMENSIONS_MAX = 64
_OPENED_MAX = 1024
"""Of more small files the rest is believed: the folder got its name when they were all there."""
_MEMBERS_MAX = 50_000
"""Of a folder with as many files not all are seen."""


class Orbax(Format):
    """Of a folder that can be renamed the name says that it is whole; of all others their marks do."""

    word = "orbax"
    marks = frozenset([_COMMIT_TIMES, _COMMITTED])

    def watches_beside(self, name: str) -> tuple[str, ...]:
        return (done_name(name),)

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        return not _MARKS.isdisjoint(files)

    def judge(self, files: Files) -> Judgement:
        there = {member.name: member for member in files.members}
        for member in files.members:
            if _TEMPORARY in member.name:
                part = next(part for part in member.name.split("/") if _TEMPORARY in part)
                return incomplete(f"{part} is still under a temporary name")
            if member.bytes == 0 and _DATA.fullmatch(member.name) is not None:
                return incomplete(f"{member.name} is empty")
        committed = _judge_commit(files, there)
        if committed.structure is Structure.INCOMPLETE:
            return committed
        odd = ""
        for judgement in (*_stores(files), *_small_files(files, there), *_arrays(files, there)):
            if judgement.structure is Structure.INCOMPLETE:
                return judgement
            odd = odd or judgement.why
        return unchecked(odd) if odd else committed


def _judge_commit(files: Files, there: dict[str, Member]) -> Judgement:
    """By the time that it says it was committed at."""
    times = there.get(_COMMIT_TIMES)
    if times is None:
        why = f"it has no {_COMMIT_TIMES}"
        return incomplete(why) if _tells_its_time(files, there) else unchecked(why)
    if times.bytes > _TIMES_BYTES_MAX:
        return unchecked(f"{_COMMIT_TIMES} is too long to be checked")
    with files.open(_COMMIT_TIMES) as file:
        text = file.read_at(0, file.size)
    try:
        told = json.loads(text)
    except RecursionError:
        told = None
    except ValueError:
        return incomplete(f"{_COMMIT_TIMES} is cut")
    if not isinstance(told, dict) or "commit_timestamp_nsecs" not in told:
        return unchecked("it does not say when it was committed")
    if isinstance(told["commit_timestamp_nsecs"], int):
        return COMPLETE
    if _COMMITTED in there:
        return unchecked("it was committed without a time")
    return incomplete("it is not committed yet")


def _tells_its_time(files: Files, there: Collection[str]) -> bool:
    """Whether it is of a version that gives every copy the time of its commit (Orbax has done so since 0.5.11).

    One of its items that somebody took out of it has none: it bears no step, and its traces lie in no item.
    """
    if _NEWER_API in there:
        return True
    traces = [name for name in there if _NEWER.fullmatch(name) is not None]
    named = step_of(files.name) is not None
    return any("/" in name.partition("array_metadatas/")[0] or named for name in traces)


def _stores(files: Files) -> Iterator[Judgement]:
    """A manifest lies where there is data and nowhere else; that of one process may tell of none, and is not needed."""
    if len(files.members) >= _MEMBERS_MAX:
        return
    names = {member.name for member in files.members}
    data = {name.rpartition("/")[0] for name in names if _DATA.fullmatch(name) is not None}
    stores = {place.rpartition("/")[0] for place in data}
    for place in sorted(data):
        holder, slash, last = place.rpartition("/")
        manifest = f"{holder}{slash}{_MANIFEST}"
        if last == "d" and manifest not in names and _OF_A_PROCESS not in manifest:
            yield incomplete(f"{manifest} is missing")
    for name in sorted(names):
        folder, _, last = name.rpartition("/")
        if last == _MANIFEST and _OF_A_PROCESS not in folder and folder not in stores:
            yield incomplete(f"the data of {name} is missing")
        item, slash, last = folder.rpartition("/")
        if last == "array_metadatas" and f"{item}{slash}_METADATA" not in names:
            yield incomplete(f"{item}{slash}_METADATA is missing")


def _small_files(files: Files, there: Collection[str]) -> Iterator[Judgement]:
    """The manifests and texts in it."""
    opened = 0
    for member in files.members:
        is_manifest = member.name.rpartition("/")[2] == _MANIFEST
        if not is_manifest and _TEXTS.fullmatch(member.name) is None:
            continue
        opened += 1
        if opened > _OPENED_MAX:
            return
        if is_manifest:
            yield files.learn(member, partial(_judge_manifest, name=member.name))
        elif member.bytes <= _TEXT_BYTES_MAX:
            told, wanted = files.learn(member, _read_text)
            if told is Structure.INCOMPLETE:
                yield incomplete(f"{member.name} is cut")
            elif member.name.rpartition("/")[2] == _TREE:
                yield from _named_arrays(member.name.removesuffix(_TREE), wanted, there)


def _named_arrays(item: str, wanted: tuple[str, ...], there: Collection[str]) -> Iterator[Judgement]:
    """The arrays that an item tells of."""
    for name in wanted:
        if item + name not in there:
            yield incomplete(f"{item}{name} is missing")


def _read_text(file: OpenFile) -> tuple[Structure, tuple[str, ...]]:
    """Whether it has its end, and of a tree the descriptions of the arrays that must be there: one in each array's own
    folder, which is named by its keys. Orbax gives them all in a store where it uses one."""
    text = file.read_at(0, file.size)
    told = judge_json(text)
    if told is not Structure.COMPLETE or file.size > _TREE_BYTES_MAX:
        return told, ()
    tree = json.loads(text)
    arrays = tree.get("tree_metadata")
    if tree.get("use_ocdbt") is not False or not isinstance(arrays, dict):
        return told, ()
    last = "zarr.json" if tree.get("use_zarr3") is True else ".zarray"
    folders = (_folder_of(entry) for entry in arrays.values())
    return told, tuple(f"{folder}/{last}" for folder in folders if folder)


def _folder_of(entry: object) -> str:
    """The folder of an array in a tree; empty for what has none, or none that is known here."""
    try:
        value, keys = entry["value_metadata"], entry["key_metadata"]  # type: ignore[index]
        if value["value_type"] not in _STORED or value["skip_deserialize"] is not False:
            return ""
        parts = [key["key"] for key in keys]
    except (TypeError, KeyError, IndexError):
        return ""
    plain = all(isinstance(part, str) and part and "/" not in part for part in parts)
    return ".".join(parts) if plain else ""


def _judge_manifest(file: OpenFile, name: str) -> Judgement:
    """It tells its own length and ends with its checksum."""
    head = file.read_at(0, _HEADER_BYTES)
    if len(head) < _HEADER_BYTES or head[:4] != _MAGIC:
        return incomplete(f"{name} is damaged")
    length = int.from_bytes(head[4:12], "little")
    if head[12] != _VERSION:
        return unchecked(f"{name} is of a newer version")
    if file.size < length:
        return incomplete(f"{name}: {length - file.size} of {length} bytes are missing")
    if file.size > length or length < _HEADER_BYTES + 4:
        return incomplete(f"{name} is damaged")
    if length <= _CHECKED_BYTES_MAX:
        data = file.read_at(0, length)
        if crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
            return incomplete(f"the checksum of {name} is wrong")
    return COMPLETE


def _arrays(files: Files, there: dict[str, Member]) -> Iterator[Judgement]:
    """Arrays that are folders of their own, with a file for each chunk."""
    arrays = [name for name in there if name.rpartition("/")[2] in (".zarray", "zarr.json")]
    if not arrays or len(files.members) >= _MEMBERS_MAX:
        return
    chunks: dict[str, int] = {name.rpartition("/")[0]: 0 for name in arrays}
    for member in files.members:
        folder = _array_of(member.name, chunks)
        if folder is None:
            continue
        if member.bytes == 0:
            yield incomplete(f"{member.name} is empty")
        chunks[folder] += 1
    # Who writes these also stores chunks that are all zeros, which others leave out.
    stores_all = any("array_metadatas/" in name for name in there)
    for name in arrays[:_OPENED_MAX]:
        whole, wanted = files.learn(there[name], _read_array)
        if not whole:
            yield incomplete(f"{name} is cut")
            continue
        found = chunks[name.rpartition("/")[0]]
        if wanted is not None and found < wanted:
            why = f"{name.rpartition('/')[0]}: {wanted - found} of {wanted} chunks are missing"
            yield incomplete(why) if stores_all else unchecked(why)


def _read_array(file: OpenFile) -> tuple[bool, int | None]:
    """Whether the description of an array has its end, and how many chunks it tells of; None when it does not tell."""
    if file.size > _ARRAY_BYTES_MAX:
        return True, None
    text = file.read_at(0, file.size)
    return judge_json(text) is not Structure.INCOMPLETE, _chunk_count(text)


def _array_of(name: str, arrays: Collection[str]) -> str | None:
    """The folder of the array that a file is a chunk of."""
    end = len(name)
    while (end := name.rfind("/", 0, end)) >= 0:
        if name[:end] in arrays:
            return name[:end] if _CHUNK.fullmatch(name, end + 1) is not None else None
    return None


def _chunk_count(text: bytes) -> int | None:
    """How many chunks an array has; None when it is told in another way."""
    try:
        told = json.loads(text)
        shape = told["shape"]
        chunks = told["chunks"] if "chunks" in told else told["chunk_grid"]["configuration"]["chunk_shape"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    if not (isinstance(shape, list) and isinstance(chunks, list) and len(shape) == len(chunks)):
        return None
    if len(shape) > _DIMENSIONS_MAX or not all(
        type(size) is int and type(chunk) is int and size >= 0 and chunk > 0
        for size, chunk in zip(shape, chunks, strict=True)
    ):
        return None
    count = 1
    for size, chunk in zip(shape, chunks, strict=True):
        count *= -(-size // chunk)
    return count if count < _MEMBERS_MAX else None
