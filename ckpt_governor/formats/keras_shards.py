"""Keras' weights in several files: ``model_00000.weights.h5`` and so on, and ``model.weights.json`` as their index.

The index is written when the last shard is closed. Before there is one, nothing but their names tells that the shards
belong together, and names such as ``model_00010.weights.h5`` are just as often epochs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import COMPLETE, Files, Format, Judgement
from ckpt_governor.formats.naming import certain_steps
from ckpt_governor.formats.parts import incomplete, judge_absent, judge_json, judge_parts, unchecked

_SHARD = re.compile(r"(.+)_([0-9]{5,9})\.weights\.h5", re.ASCII | re.DOTALL)
_INDEX_SUFFIX = ".weights.json"
_GROUP_SUFFIX = "_*.weights.h5"
_INDEX_BYTES_READ_MAX = 1 << 20
"""It names layers, not tensors; a longer one is not parsed, for memory."""
_INDEXES_MAX = 16


class KerasShards(Format):
    """Shards that lie loose in the unit; in a folder that is a copy they are judged as a part of it."""

    word = "keras-shards"

    def watches_beside(self, name: str) -> tuple[str, ...]:
        return (_index_of(name),)

    def group_of(self, name: str) -> str | None:
        found = _SHARD.fullmatch(name)
        return f"{found[1]}{_GROUP_SUFFIX}" if found is not None else None

    def is_one(self, group: str, parts: Collection[str], beside: Collection[str]) -> bool:
        """By the index; before it is there, by a step in the name that is not the number of a shard, and no gap."""
        if _index_of(group) in beside:
            return True
        numbers = {int(found[2]) for part in parts if (found := _SHARD.fullmatch(part)) is not None}
        has_step = bool(certain_steps(group.removesuffix(_GROUP_SUFFIX)))
        return has_step and numbers == set(range(len(numbers)))

    def judge(self, files: Files) -> Judgement:
        index = _index_of(files.name)
        wrong, _ = judge_parts(files)
        if wrong is not None:
            return wrong
        if index not in files.beside:
            return unchecked(f"its {index} is not there, so that nothing tells how many files it has")
        with files.open_beside(index) as file:
            text = file.read_at(0, min(file.size, _INDEX_BYTES_READ_MAX + 1))
        return _judge_index(files, index, text, files.mtime_ns_beside(index), "")


def judge_keras_indexes(files: Files) -> Judgement | None:
    """By every such index in a folder; None when there is none. Raises OSError."""
    indexes = [member for member in files.members if member.name.endswith(_INDEX_SUFFIX)][:_INDEXES_MAX]
    found = None
    for member in indexes:
        with files.open(member.name) as file:
            text = file.read_at(0, min(file.size, _INDEX_BYTES_READ_MAX + 1))
        folder, slash, _ = member.name.rpartition("/")
        judgement = _judge_index(files, member.name, text, member.mtime_ns, folder + slash)
        if judgement.structure is Structure.INCOMPLETE:
            return judgement
        found = judgement if found is None or judgement is not COMPLETE else found
    return found


def _index_of(group: str) -> str:
    return f"{group.removesuffix(_GROUP_SUFFIX)}{_INDEX_SUFFIX}"


def _judge_index(files: Files, index: str, text: bytes, written_ns: int | None, folder: str) -> Judgement:
    """Whether every shard that it names is there and not younger; that none is cut has been asked before."""
    if len(text) > _INDEX_BYTES_READ_MAX:
        return unchecked(f"{index} is too long to be checked")
    if judge_json(text) is Structure.INCOMPLETE:
        return incomplete(f"{index} is cut")
    wanted = _shards(text)
    if not wanted:
        return unchecked(f"{index} is of an unknown kind")
    there = {member.name: member for member in files.members}
    for name in sorted(wanted):
        if folder + name not in there:
            return judge_absent(files, folder + name)
    for name in sorted(wanted):
        if written_ns is not None and there[folder + name].mtime_ns > written_ns:
            return unchecked(f"{name} is newer than its index")
    return COMPLETE


def _shards(text: bytes) -> set[str]:
    """The files that it names; empty when it is written in another way. A variable may lie in several."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    places = told.get("weight_map") if isinstance(told, dict) else None
    wanted: set[str] = set()
    for place in places.values() if isinstance(places, dict) else ():
        names = place if isinstance(place, list) else [place]
        if not all(isinstance(name, str) and _SHARD.fullmatch(name) and "/" not in name for name in names):
            return set()
        wanted.update(names)
    return wanted
