"""Distributed copies inside of a copy: ``checkpoint-100/global_step100``, ``step_100/optimizer/.metadata``."""

from __future__ import annotations

import re
from itertools import chain

from ckpt_governor.facts import Structure
from ckpt_governor.formats.below import Below, placed, within
from ckpt_governor.formats.dcp import Dcp
from ckpt_governor.formats.deepspeed import DeepSpeed
from ckpt_governor.formats.interface import (
    Damage,
    Files,
    Format,
    Judgement,
    Plan,
    gathered,
    plans_of_members,
)
from ckpt_governor.formats.megatron import Megatron

_INSIDE: tuple[Format, ...] = (Megatron(), DeepSpeed(), Dcp())
_FOLDERS_MAX = 64
_MAYBE = re.compile(r"/.*(?:\.distcp|\.metadata|_states\.pt)\Z|/mp_rank_[^/]*/", re.DOTALL)
"""Most folders hold none, and are asked at each of their changes."""


def judge_nested(files: Files) -> Judgement | None:
    """By the first that is not whole; None when there is none inside."""
    found = None
    for folder, format in nested(files):
        judgement = within(format.judge(Below(files, folder)), folder)
        if judgement.structure in (Structure.INCOMPLETE, Structure.UNREADABLE):
            return judgement
        if found is None or judgement.structure is Structure.SHAPELESS:
            found = judgement
    return found


def plan_with_nested(files: Files) -> Plan:
    """What is inside by its own format, and what else there is file by file. Raises Damage and OSError."""
    inside = nested(files)
    folders = tuple(f"{folder}/" for folder, _ in inside)
    rest = (member for member in files.members if not member.name.startswith(folders))
    plans = (_plan_inside(files, folder, format) for folder, format in inside)
    return gathered(chain(plans, plans_of_members(files, rest)))


def _plan_inside(files: Files, folder: str, format: Format) -> Plan:
    try:
        return placed(format.plan(Below(files, folder)), folder)
    except Damage as damage:
        raise Damage(f"{folder}: {damage}") from None


def nested(files: Files) -> list[tuple[str, Format]]:
    """The sub-folders that are one, the outermost of each, with their formats."""
    if not any(_MAYBE.search(member.name) for member in files.members):
        return []
    inside: dict[str, tuple[list[str], set[str]]] = {}
    for member in files.members:
        folder, _, name = member.name.rpartition("/")
        if not folder:
            continue
        inside.setdefault(folder, ([], set()))[0].append(name)
        while folder:
            holder, _, last = folder.rpartition("/")
            if holder:
                known = inside.setdefault(holder, ([], set()))[1]
                if last in known:
                    break
                known.add(last)
            folder = holder
    found: list[tuple[str, Format]] = []
    for folder in sorted(inside, key=lambda folder: (folder.count("/"), folder)):
        if any(folder.startswith(f"{outer}/") for outer, _ in found):
            continue
        names, folders = inside[folder]
        last = folder.rpartition("/")[2]
        format = next((one for one in _INSIDE if one.claims_folder(last, names, folders)), None)
        if format is not None:
            found.append((folder, format))
        if len(found) >= _FOLDERS_MAX:
            break
    return found
