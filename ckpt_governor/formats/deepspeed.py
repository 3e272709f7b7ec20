"""DeepSpeed: a folder of one tag, in which every rank writes its own files; ``latest`` beside it names the newest tag.

No file in the folder says that all are there. The ranks count from zero, so that a gap shows; that the last ones are
missing shows in the number of parts that an optimizer file tells. ``latest`` is no evidence: it is optional and lags.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import COMPLETE, Files, Format, Judgement, Member
from ckpt_governor.formats.parts import incomplete, judge_parts
from ckpt_governor.formats.torch_values import read_values

_MODEL = re.compile(r"(?:zero_pp_rank_([0-9]+)_)?mp_rank_([0-9]+)_model_states\.pt", re.ASCII)
_OPTIMIZER = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_([0-9]+)_mp_rank_([0-9]+)_?optim_states\.pt", re.ASCII)
_EXPERT = re.compile(r"(?:layer_[0-9]+_)?expert_[0-9]+_mp_rank_[0-9]+_model_states\.pt", re.ASCII)
_EXPERT_OPTIMIZER = re.compile(r"expp_rank_[0-9]+_mp_rank_[0-9]+_optim_states\.pt", re.ASCII)
_KINDS = (_MODEL, _OPTIMIZER, _EXPERT, _EXPERT_OPTIMIZER)
# A rank's number counts from zero while all else in the name stays the same. The layers of a pipeline have gaps.
_COUNTED = re.compile(r"(?:pp_rank|mp_rank|expp_rank|expert)_([0-9]{1,9})(?![0-9])", re.ASCII)
_PARTITIONS_MAX = 1_000_000


class DeepSpeed(Format):
    """Files grow at their final names and are not flushed: what a power cut leaves is often empty."""

    word = "deepspeed"
    misses_by_elders = True

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        return any(inner.endswith("_states.pt") and _is_part(inner) for inner in files)

    def judge(self, files: Files) -> Judgement:
        wrong, all_tell = judge_parts(files, must_tell=_is_part)
        if wrong is not None:
            return wrong
        return _judge_ranks(files) or (COMPLETE if all_tell else Judgement(Structure.SHAPELESS))


def _is_part(name: str) -> bool:
    return any(kind.fullmatch(name) for kind in _KINDS)


def _judge_ranks(files: Files) -> Judgement | None:
    """Whether every rank is there, as far as names and one file of each kind tell; None when nothing is missed."""
    names = [member.name for member in files.members if "/" not in member.name]
    missing = _gap(names)
    parts = _partitions(files, _first(files, _OPTIMIZER))
    short = _short(names, parts)
    models = any(_MODEL.fullmatch(name) for name in names)
    optimizers = any(_OPTIMIZER.fullmatch(name) for name in names)
    if not missing and not short and models and optimizers:
        return None
    model = _values(files, _first(files, _MODEL))
    if _is_of_one_node(model):
        return Judgement(Structure.SHAPELESS, "it holds the ranks of one node, and cannot be checked alone")
    if missing or short:
        return incomplete(f"{missing} is missing" if missing else short)
    if not models:
        return incomplete("no model states in it")
    return incomplete("no optimizer states in it") if not optimizers and _has_partitions(model) else None


def _short(names: list[str], parts: int) -> str:
    """In a clause, which files of the last ranks are missing; empty when none is."""
    for kind, what in ((_OPTIMIZER, "optimizer"), (_MODEL, "model")):
        ranks: dict[str, int] = {}
        for name in names:
            found = kind.fullmatch(name)
            if found is not None and found[1] is not None:
                ranks[found[2]] = ranks.get(found[2], 0) + 1
        for count in ranks.values():
            if count < parts:
                return f"the {what} states of {count} of {parts} ranks"
    return ""


def _gap(names: list[str]) -> str:
    """The first file of a series that is missing while a later one is there; empty when there is none."""
    series: dict[tuple[str, str], set[int]] = {}
    for name in names:
        if not _is_part(name):
            continue
        for found in _COUNTED.finditer(name):
            around = (name[: found.start(1)], name[found.end(1) :])
            series.setdefault(around, set()).add(int(found[1]))
    for (before, after), numbers in sorted(series.items()):
        if max(numbers) >= len(numbers):
            number = next(number for number in range(len(numbers) + 1) if number not in numbers)
            width = 2 if before.endswith("mp_rank_") else 1
            return f"{before}{number:0{width}d}{after}"
    return ""


def _first(files: Files, kind: re.Pattern[str]) -> Member | None:
    return min((member for member in files.members if kind.fullmatch(member.name)), default=None)


def _values(files: Files, member: Member | None) -> dict[object, object]:
    """What the file holds; nothing when that is not told."""
    if member is None:
        return {}
    with files.open(member.name) as file:
        return read_values(file) or {}


def _partitions(files: Files, optimizer: Member | None) -> int:
    """Over how many ranks the optimizer's state is spread, by one of its files; 0 when it does not tell."""
    state = _values(files, optimizer).get("optimizer_state_dict")
    count = state.get("partition_count") if isinstance(state, dict) else None
    counts = count if isinstance(count, list | tuple) else [count]
    known = [one for one in counts if type(one) is int and 0 < one <= _PARTITIONS_MAX]
    return max(known, default=0)


def _is_of_one_node(model: dict[object, object]) -> bool:
    """Whether every node was told to save to a disk of its own."""
    settings = model.get("ds_config")
    checkpoint = settings.get("checkpoint") if isinstance(settings, dict) else None
    return isinstance(checkpoint, dict) and checkpoint.get("use_node_local_storage") is True


def _has_partitions(model: dict[object, object]) -> bool:
    """Whether the model's file says that the optimizer's state is in files of its own."""
    return "optimizer" in model and model["optimizer"] is None and isinstance(model.get("param_shapes"), list)
