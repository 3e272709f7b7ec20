"""A manifest that the job leaves after its save: ``ckpt_reader.manifest`` writes it, any format's copies may have one.

It is believed only as long as it is younger than every file that it names: a job that saves in place again and leaves
no new one has made it say nothing, which is told and is no fault of the copy.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import (
    TOO_MANY,
    Files,
    Format,
    Judgement,
    Member,
    OpenFile,
    Piece,
    Plan,
)
from ckpt_governor.formats.naming import is_ignored, is_log, is_temporary

MANIFEST = "manifest.json"
"""In a folder; of a file its name comes before."""
_BYTES_MAX = 4 << 20
_MEMBERS_MAX = 50_000
"""Of a folder with as many files not all are looked at."""
_VALUE_MARKS = (b",", b":", b"[", b"{")
_VALUES_MAX = 8 * _MEMBERS_MAX
"""A manifest of as many files has fewer of these marks; what has more would take memory for nothing."""
_DEPTH_MAX = 8
_CHECKSUM = re.compile(r"[0-9a-fA-F]{8}", re.ASCII)


class Listed(NamedTuple):
    """What a manifest says of one file; None where it says nothing that can be used."""

    size: int | None
    crc32: int | None


class Manifest(NamedTuple):
    """A manifest of ours."""

    files: dict[str, Listed]
    """By the names of the copy's members."""
    older_than: str
    """The file that was written after it; empty when there is none, and only then it counts."""


def manifest_beside(name: str) -> str:
    """The name of the manifest of a copy that is one file."""
    return f"{name}.{MANIFEST}"


def judge_by_manifest(format: Format, files: Files) -> Judgement:
    """What the copy's own format says, and what its manifest adds. Raises OSError."""
    judgement = format.judge(files)
    if judgement.structure in (Structure.INCOMPLETE, Structure.UNREADABLE):
        return judgement
    manifest = read_manifest(files)
    if manifest is None:
        return judgement
    wrong = _misfit(manifest, files)
    if manifest.older_than and wrong:
        # Whoever leaves manifests leaves one after each save: this save has begun, and not come to its end.
        return Judgement(Structure.INCOMPLETE, f"{manifest.older_than} is newer than its manifest: {wrong}")
    if manifest.older_than:
        return judgement._replace(why=judgement.why or _says_nothing(manifest))
    if wrong:
        return Judgement(Structure.INCOMPLETE, wrong)
    if judgement.structure is Structure.COMPLETE:
        return judgement
    return judgement._replace(structure=Structure.COMPLETE, why="")


def plan_by_manifest(format: Format, files: Files) -> Plan:
    """The files that the manifest has checksums of, each as a whole; of the others what their format knows.

    Raises Damage and OSError.
    """
    manifest = read_manifest(files)
    if manifest is None:
        return format.plan(files)
    if manifest.older_than:
        plan = format.plan(files)
        return plan._replace(why=_says_nothing(manifest) if not plan.pieces or not plan.why else plan.why)
    pieces = [
        Piece(member.name, 0, member.bytes, member.name or files.name, listed.crc32)
        for member in files.members
        if (listed := manifest.files.get(member.name)) is not None and listed.crc32 is not None
    ]
    whole = {piece.member for piece in pieces}
    if all(member.name in whole or _is_no_part(member.name) for member in files.members):
        return Plan(tuple(pieces))
    plan = format.plan(files)
    pieces += [piece for piece in plan.pieces if piece.member not in whole]
    tells = plan.why == TOO_MANY or len(pieces) == len(plan.pieces)
    return Plan(tuple(pieces), plan.why if tells else "")


def read_manifest(files: Files) -> Manifest | None:
    """None when there is none, or none of ours. Raises OSError."""
    if any(member.name == MANIFEST for member in files.members):
        with files.open(MANIFEST) as file:
            listed, written_ns = _parsed(file), file.mtime_ns
    elif (
        len(files.members) == 1 and not files.members[0].name and manifest_beside(files.name) in files.beside
    ):
        with files.open_beside(manifest_beside(files.name)) as file:
            listed, written_ns = _parsed(file), file.mtime_ns
        listed = {"": listed[files.name]} if listed is not None and files.name in listed else None
    else:
        return None
    if not listed or len(files.members) >= _MEMBERS_MAX:
        return None
    newer = [member for member in files.members if member.name in listed and _written_ns(member) > written_ns]
    return Manifest(listed, (min(newer).name or files.name) if newer else "")


def _written_ns(member: Member) -> int:
    """A file can be replaced by an older one, which only its ctime shows. Not asked in a folder: to copy one sets
    the ctimes of its files in any order."""
    return member.mtime_ns if member.name else max(member.mtime_ns, member.ctime_ns)


def _says_nothing(manifest: Manifest) -> str:
    return f"its manifest is older than {manifest.older_than} and says nothing of it"


def _misfit(manifest: Manifest, files: Files) -> str:
    """The first file that is not as the manifest says, in a clause; empty when there is none."""
    sizes = {member.name: member.bytes for member in files.members}
    for name, listed in manifest.files.items():
        there = sizes.get(name)
        if there is None and not _is_no_part(name):
            return f"{name} is missing"
        if there is not None and listed.size is not None and there != listed.size:
            return f"{name or files.name} has {there} of {listed.size} bytes"
    return ""


def _is_no_part(name: str) -> bool:
    """Whether a file of a copy's folder is not looked at, or comes and goes without harm."""
    last = name.rpartition("/")[2]
    return (
        last == MANIFEST
        or is_log(last)
        or is_ignored(last)
        or is_temporary(last)
        or name.count("/") > _DEPTH_MAX
    )


def _parsed(file: OpenFile) -> dict[str, Listed] | None:
    text = file.read_at(0, _BYTES_MAX) if file.size <= _BYTES_MAX else b""
    if sum(map(text.count, _VALUE_MARKS)) > _VALUES_MAX:
        return None
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return None
    listed = manifest.get("files") if isinstance(manifest, dict) and manifest.get("v") == 1 else None
    if not isinstance(listed, dict):
        return None
    return {name: _listed(entry) for name, entry in listed.items() if name}


def _listed(entry: object) -> Listed:
    size, crc32 = (entry.get("size"), entry.get("crc32")) if isinstance(entry, dict) else (None, None)
    return Listed(
        size if isinstance(size, int) and not isinstance(size, bool) else None,
        int(crc32, 16) if isinstance(crc32, str) and _CHECKSUM.fullmatch(crc32) else None,
    )
