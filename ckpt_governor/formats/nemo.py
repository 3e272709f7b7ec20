"""NeMo 2: ``weights`` as Megatron saves them and ``context``; a mark beside the folder says that it is not whole."""

from __future__ import annotations

from collections.abc import Collection

from ckpt_governor.facts import Structure
from ckpt_governor.formats.below import Below, placed, within
from ckpt_governor.formats.dcp import INDEX, SHARD_SUFFIX
from ckpt_governor.formats.interface import Files, Format, Judgement, Plan
from ckpt_governor.formats.megatron import Megatron
from ckpt_governor.formats.naming import mark_of, numbered_word
from ckpt_governor.formats.parts import incomplete, judge_parts

_WEIGHTS, _CONTEXT = "weights", "context"
_MEGATRON = Megatron()


class Nemo(Format):
    """The context is optional, and may be written after the weights."""

    word = "nemo"
    misses_by_elders = True

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        return _WEIGHTS in folders and (_CONTEXT in folders or numbered_word(name))

    def watches_beside(self, name: str) -> tuple[str, ...]:
        return (mark_of(name),)

    def judge(self, files: Files) -> Judgement:
        if mark_of(files.name) in files.beside:
            return incomplete("a mark beside it says that it is unfinished")
        weights = Below(files, _WEIGHTS)
        if not weights.members:
            return incomplete("its weights are not there yet")
        wrong, _ = judge_parts(files, within=lambda name: not name.startswith(f"{_WEIGHTS}/"))
        if wrong is not None:
            return wrong
        return within(_judge_weights(weights), _WEIGHTS)

    def plan(self, files: Files) -> Plan:
        return placed(_MEGATRON.plan(Below(files, _WEIGHTS)), _WEIGHTS)


def _judge_weights(weights: Below) -> Judgement:
    """As Megatron, or file by file: other strategies save the weights in their own way."""
    names = [member.name for member in weights.members]
    folders = {name.partition("/")[0] for name in names if "/" in name}
    if INDEX in names or any(name.endswith(SHARD_SUFFIX) for name in names):
        return _MEGATRON.judge(weights)
    if _MEGATRON.claims_folder(weights.name, names, folders):
        return _MEGATRON.judge(weights)
    wrong, _ = judge_parts(weights)
    return wrong or Judgement(Structure.SHAPELESS)
