"""Composer: loose files ``ep0-ba100-rank0.pt``; the ranks of one batch are one copy, and most jobs have one rank."""

from __future__ import annotations

import re

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import COMPLETE, Files, Format, Judgement
from ckpt_governor.formats.parts import incomplete, judge_parts

_NAME = re.compile(r"((?:.*[-_])?ep[0-9]+-ba[0-9]+-rank)([0-9]{1,9})(\.pt)", re.ASCII | re.DOTALL)


class Composer(Format):
    """Nothing in a file says how many ranks there are: of several, time alone tells that the last one has come."""

    word = "composer"

    def group_of(self, name: str) -> str | None:
        found = _NAME.fullmatch(name)
        return f"{found[1]}*{found[3]}" if found is not None else None

    def judge(self, files: Files) -> Judgement:
        ranks = {
            int(found[2]) for member in files.members if (found := _NAME.fullmatch(member.name)) is not None
        }
        missing = next((rank for rank in range(len(ranks)) if rank not in ranks), None)
        if missing is not None:
            return incomplete(f"rank {missing} is missing")
        wrong, all_tell = judge_parts(files)
        if wrong is not None:
            return wrong
        return COMPLETE if all_tell and len(ranks) == 1 else Judgement(Structure.SHAPELESS)
