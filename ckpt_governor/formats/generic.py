"""What is left: files and folders whose names say checkpoint and whose bytes say nothing that is known here."""

from __future__ import annotations

import re
from collections.abc import Collection

from ckpt_governor.facts import SmallSize, Structure
from ckpt_governor.formats.interface import COMPLETE, HEAD_BYTES, Files, Format, Judgement, Plan
from ckpt_governor.formats.keras_shards import judge_keras_indexes
from ckpt_governor.formats.manifest import MANIFEST
from ckpt_governor.formats.marks import DONE, EMPTY, MARKERS, done_name
from ckpt_governor.formats.naming import (
    CONCATENATED_SUFFIXES,
    COPY_SUFFIXES,
    certain_steps,
    is_log,
    is_no_part,
    is_temporary,
    names_a_copy,
    numbered_word,
    shard_group,
    suffix_of,
)
from ckpt_governor.formats.nested import judge_nested, plan_with_nested
from ckpt_governor.formats.parts import judge_parts

_SHAPELESS = Judgement(Structure.SHAPELESS)
_NEVER_BEGIN_WITH_ZEROS = frozenset(["pt", "pth", "ckpt", "npz", "npy", "keras", "pkl", "pickle", "joblib"])
"""What is saved under these names has words at its beginning; what lost power before it was on the disk has none."""
_RUN_FOLDERS = re.compile(r"(?:checkpoints|ckpts|snapshots|lightning_logs|version_[0-9]+|\.hydra)", re.ASCII)


class GenericFile(Format):
    """A plain file; it has no end that could be checked, so that only time and former copies tell."""

    word = "file"

    def watches_beside(self, name: str) -> tuple[str, ...]:
        return (done_name(name),)

    def claims_file(self, name: str, head: bytes) -> bool:
        if name == "checkpoint" and (not head or head.startswith(b"model_checkpoint_path")):
            return False  # TensorFlow's pointer to its newest copy
        return names_a_copy(name)

    def judge(self, files: Files) -> Judgement:
        if files.members[0].bytes == 0:
            return EMPTY
        if suffix_of(files.name) in _NEVER_BEGIN_WITH_ZEROS:
            with files.open("") as file:
                if not any(file.read_at(0, HEAD_BYTES)):
                    return Judgement(Structure.INCOMPLETE, "it begins with nothing but zeros")
        return COMPLETE if _marked_done(files) else _SHAPELESS


class Shards(Format):
    """Loose files that say ``00001-of-00003``: one copy, whole when all parts are there and none is cut."""

    word = "shards"

    def watches_beside(self, name: str) -> tuple[str, ...]:
        return (done_name(name),)

    def group_of(self, name: str) -> str | None:
        found = shard_group(name)
        return found[0] if found is not None and names_a_copy(name) else None

    def judge(self, files: Files) -> Judgement:
        wrong, all_tell = judge_parts(files)
        if wrong is not None:
            return wrong
        found = shard_group(files.members[0].name)
        wanted = found[1] if found is not None else 0
        if len(files.members) < wanted:
            return Judgement(Structure.INCOMPLETE, f"{len(files.members)} of {wanted} parts")
        return COMPLETE if all_tell or _marked_done(files) else _SHAPELESS


class GenericFolder(Format):
    """A folder that is one copy by its name or its manifest; other folders are looked into."""

    word = "folder"
    misses_by_elders = True

    def watches_beside(self, name: str) -> tuple[str, ...]:
        return (done_name(name),)

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        if holds_copies(name, files, folders):
            return False
        if numbered_word(name) or suffix_of(name) in COPY_SUFFIXES or MANIFEST in files:
            return True
        return any(suffix_of(inner) in CONCATENATED_SUFFIXES for inner in files)

    def judge(self, files: Files) -> Judgement:
        wrong, all_tell = judge_parts(files, must_tell=lambda name: not is_no_part(name))
        wrong = wrong or judge_nested(files) or judge_keras_indexes(files)
        if wrong is not None and wrong.structure in (Structure.INCOMPLETE, Structure.UNREADABLE):
            return wrong
        stale = _temporary_is_newest(files)
        if stale:
            return Judgement(Structure.INCOMPLETE, f"a temporary file is its newest: {stale}")
        if _marked_done(files):
            return COMPLETE
        return _SHAPELESS._replace(small=SmallSize.NOTHING) if all_tell else _SHAPELESS

    def plan(self, files: Files) -> Plan:
        return plan_with_nested(files)


def holds_copies(name: str, files: Collection[str], folders: Collection[str]) -> bool:
    """Whether a folder whose own name has a number is not a copy but a place for copies: ``run_1``, ``epoch_3``.

    A copy of step 100 may hold files that say 100 again, and parts that say other things; it never holds other steps.
    """
    if any(_RUN_FOLDERS.fullmatch(folder) for folder in folders):
        return True
    own = certain_steps(name)
    if not own and name.isascii() and name.isdecimal():
        own = {int(name[:18])}
    for inner in (*files, *folders):
        steps = certain_steps(inner)
        if steps and not steps & own and not is_temporary(inner):
            return True
    return False


def _temporary_is_newest(files: Files) -> str:
    """A writer that died in the middle leaves its temporary as the last thing it touched."""
    newest = max(files.members, key=lambda member: member.mtime_ns)
    temporary = any(map(is_temporary, newest.name.split("/")))
    return newest.name if temporary and not is_log(newest.name) else ""


def _marked_done(files: Files) -> bool:
    """Whether a mark says so that is not older than any member; one of the name's former write does not count."""
    written_ns = max((member.mtime_ns for member in files.members if member.name not in MARKERS), default=0)
    beside = done_name(files.name)
    if beside in files.beside:
        marked_ns = files.mtime_ns_beside(beside)
        if marked_ns is not None and marked_ns >= written_ns:
            return True
    return any(member.name in DONE and member.mtime_ns >= written_ns for member in files.members)
