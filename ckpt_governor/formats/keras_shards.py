"""Keras' weights in several files: ``model_00000.weights.h5`` and so on, and ``model.weights.json`` as their index.

The index is written anew with every shard that is closed, so that it never tells which one is the last: time does.
Before there is one, nothing but their names tells that the shards belong together, and names such as
``model_00010.weights.h5`` are just as often epochs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from itertools import islice

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import Files, Format, Judgement, OpenFile
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
        wrong, _ = judge_parts(files)
        if wrong is not None:
            return wrong
        index = _index_of(files.name)
        if index not in files.beside:
            return unchecked(f"its {index} is not there")
        with files.open_beside(index) as file:
            return _judge_index(files, index, file)


def judge_keras_indexes(files: Files) -> Judgement | None:
    """By every such index in a folder; None when nothing is missed. Raises OSError."""
    indexes = (member.name for member in files.members if member.name.endswith(_INDEX_SUFFIX))
    for name in islice(indexes, _INDEXES_MAX):
        with files.open(name) as file:
            judgement = _judge_index(files, name, file)
        if judgement.structure is Structure.INCOMPLETE:
            return judgement
    return None


def _index_of(group: str) -> str:
    return f"{group.removesuffix(_GROUP_SUFFIX)}{_INDEX_SUFFIX}"


def _judge_index(files: Files, index: str, file: OpenFile) -> Judgement:
    """Whether every shard that it names is there; that none is cut has been asked before."""
    if file.size > _INDEX_BYTES_READ_MAX:
        return unchecked(f"{index} is too long to be checked")
    text = file.read_at(0, file.size)
    if judge_json(text) is Structure.INCOMPLETE:
        return incomplete(f"{index} is cut")
    wanted = _shards(text)
    if not wanted:
        return unchecked(f"{index} is of an unknown kind")
    there = {member.name for member in files.members}
    folder, slash, _ = index.rpartition("/")
    for name in sorted(wanted):
        if folder + slash + name not in there:
            return judge_absent(files, folder + slash + name)
    return unchecked("its index does not tell which of its files is the last")


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
