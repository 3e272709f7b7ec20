"""Checkpoint formats: which bytes are a copy, and whether its structure is whole.

The first format of the registry that claims a file or folder has it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from ckpt_governor.formats.interface import HEAD_BYTES, TAIL_BYTES, Format, OpenFile


@cache
def _registry() -> tuple[Format, ...]:
    """All formats; imported with the first file that is looked at, as a job that begins has none."""
    from ckpt_governor.formats.registry import FORMATS

    return FORMATS


def format_of_file(name: str, head: bytes) -> Format | None:
    """The format of a single file by its name and first bytes; None when it is no copy."""
    return next((format for format in _registry() if format.claims_file(name, head)), None)


def format_of_open(name: str, file: OpenFile) -> Format | None:
    """The same of an open file; where its beginning was never written its end may tell. Raises OSError."""
    head = file.read_at(0, HEAD_BYTES)
    if len(head) == HEAD_BYTES and not any(head):

        def tail() -> bytes:
            return file.read_at(max(HEAD_BYTES, file.size - TAIL_BYTES), TAIL_BYTES)

        found = next((format for format in _registry() if format.claims_tail(name, tail)), None)
        if found is not None:
            return found
    return format_of_file(name, head)


def format_of_folder(name: str, files: Collection[str], folders: Collection[str]) -> Format | None:
    """The format of a folder that as a whole is one copy; None when it is to be looked into."""
    return next((format for format in _registry() if format.claims_folder(name, files, folders)), None)


def group_of(name: str) -> tuple[Format, str] | None:
    """The copy that a loose file is a part of, with its format; None when the file stands for itself."""
    for format in _registry():
        group = format.group_of(name)
        if group is not None:
            return format, group
    return None


def format_named(word: str) -> Format | None:
    """The format with this word."""
    return next((format for format in _registry() if format.word == word), None)


def stages_beside(word: str) -> bool:
    """Whether a write of this format needs the space of two copies; an unknown format does not."""
    format = format_named(word)
    return format is not None and format.stages_beside
