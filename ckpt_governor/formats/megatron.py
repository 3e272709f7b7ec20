"""Megatron: ``iter_0000100`` with a distributed copy and ``metadata.json`` as its end, or a folder for each rank.

The tracker beside it, ``latest_checkpointed_iteration.txt``, is no evidence: it is written last and may lag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable

from ckpt_governor.facts import Structure
from ckpt_governor.formats.dcp import INDEX, SHARD_SUFFIX, Dcp
from ckpt_governor.formats.interface import COMPLETE, Files, Format, Judgement, Plan
from ckpt_governor.formats.parts import incomplete, judge_json, judge_parts, parts_of, unchecked

_COMMON, _CONFIG = "common.pt", "metadata.json"
_CONFIG_BYTES_MAX = 1 << 20
_ITERATION = re.compile(r"iter_[0-9]{7,}", re.ASCII)
_RANK = re.compile(r"mp_rank_([0-9]{2,9})(?:_([0-9]{3,9}))?(?:_([0-9]{3,9}))?", re.ASCII)

_DCP = Dcp()


class Megatron(Format):
    """Megatron-core writes ``common.pt`` first, then the shards and their index, and ``metadata.json`` last of all."""

    word = "megatron"
    misses_by_elders = True

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        if _COMMON in files and (_CONFIG in files or INDEX in files):
            return True
        if (_COMMON in files or _ITERATION.fullmatch(name)) and any(
            inner.endswith(SHARD_SUFFIX) for inner in files
        ):
            return True
        return any(_RANK.fullmatch(inner) for inner in folders)

    def judge(self, files: Files) -> Judgement:
        names = {member.name for member in files.members}
        if any(_RANK.fullmatch(name.partition("/")[0]) for name in names if "/" in name):
            return _judge_rank_folders(files)
        if _CONFIG in names:
            return _judge_committed(files, names)
        if _COMMON in names:
            return incomplete(f"its {_CONFIG} is not there yet")
        return _DCP.judge(files)  # saved by torch itself, as newer Megatrons can

    def plan(self, files: Files) -> Plan:
        return _DCP.plan(files)


def _judge_committed(files: Files, names: Collection[str]) -> Judgement:
    with files.open(_CONFIG) as file:
        text = file.read_at(0, _CONFIG_BYTES_MAX)
    if judge_json(text) is Structure.INCOMPLETE:
        return incomplete(f"its {_CONFIG} is cut")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict) or "sharded_backend" not in config:
        return _DCP.judge(files) if INDEX in names else unchecked(f"its {_CONFIG} is of an unknown kind")
    if config.get("common_backend") == "torch" and _COMMON not in names:
        return incomplete(f"{_COMMON} is missing")
    if config["sharded_backend"] != "torch_dist":
        return unchecked("it is saved in a way that cannot be checked")
    return _DCP.judge(files)


def _judge_rank_folders(files: Files) -> Judgement:
    """The older layout: a folder for each rank of tensor, pipeline and expert parallelism, all with the same files."""
    wrong, all_tell = judge_parts(files)
    if wrong is not None:
        return wrong
    inside: dict[tuple[int, ...], set[str]] = {}
    for member in parts_of(files):
        folder, _, name = member.name.partition("/")
        rank = _RANK.fullmatch(folder)
        if rank is not None:
            inside.setdefault(_rank_of(rank), set()).add(name)
    for folder in files.hollow:
        rank = _RANK.fullmatch(folder)
        if rank is not None:
            inside.setdefault(_rank_of(rank), set())
    missing = _missing_rank(inside)
    if missing:
        return incomplete(missing)
    return COMPLETE if all_tell else Judgement(Structure.SHAPELESS)


def _rank_of(named: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(part) for part in named.groups() if part is not None)


def _missing_rank(inside: dict[tuple[int, ...], set[str]]) -> str:
    """What of the grid of ranks is not there; empty when nothing, or when the names do not agree."""
    if len({len(rank) for rank in inside}) != 1:
        return ""
    for axis in range(len(next(iter(inside)))):
        numbers = {rank[axis] for rank in inside}
        missing = _first_missing(numbers)
        if missing is not None:
            return f"the files of rank {missing} of {max(numbers) + 1} are missing"
    if len(next(iter(inside))) == 3:
        return ""  # experts may be spread over the ranks in another way
    tensor, *pipeline = (1 + max(numbers) for numbers in zip(*inside, strict=True))
    if len(inside) < tensor * (pipeline[0] if pipeline else 1):
        return f"{len(inside)} of {tensor * pipeline[0]} ranks"
    every = set.union(*inside.values())
    for rank, names in sorted(inside.items()):
        if names != every:
            return f"{min(every - names)} of rank {'_'.join(map(str, rank))} is missing"
    return ""


def _first_missing(numbers: Iterable[int]) -> int | None:
    there = set(numbers)
    return next((number for number in range(len(there)) if number not in there), None)
