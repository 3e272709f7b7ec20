"""Walks a pickle without making anything of it: nothing is imported, nothing is called, no class is ever built.

``walk(file, at)`` goes from the byte ``at`` to the STOP of one pickle of protocol 0 to 5 and gives what it holds as
plain values; ``end`` is the offset behind it, where the next pickle or raw data may begin. What cannot be walked raises
a ``Failure``: ``Cut`` (the file ends before the pickle does), ``Damaged`` (no pickle has such bytes), ``TooBig`` (the
``Budget`` is spent), ``Unsupported`` (newer than what is known here). Nothing else is raised but the file's OSError.

What the values are:
- None, bool, int, float, str, bytes, tuple, list, dict and set are themselves; a frozenset is a set, a bytearray is
  bytes, and the text of Python 2 is latin-1. An ``OrderedDict`` or ``defaultdict`` is a dict.
- A text or bytes of more than 4 KiB is jumped over, and so is never read: a ``Skipped`` with its length.
- Every global is an ``Inert`` with a module and a name, and so is whatever would have been made of one by a call: then
  ``args`` is what would have been given to it (None for the global itself), ``state`` what it would have been set to,
  and ``items`` what would have been put into it, as elements or as pairs. ``fields()`` are its attributes by name.
- A persistent id is a ``Persistent``; ``Walked.persistent_ids`` has all of them in their order.
- A key of a dict or an element of a set is itself when it is text, bytes or a common number. An ``Inert`` is a key by
  identity, so that two equal ones are two keys; any other key, tuples too, is wrapped as the ``args`` of an ``Inert``
  that is named ``"key"``. This way no file can choose keys that are slow to hash.

The values may be as deep as the file is long, may contain themselves, and may have one part in very many places: who
goes through them goes by names, or counts the steps, and never prints, compares, hashes or copies them as a whole.

``after_build`` is for joblib, which has raw bytes between the opcodes: it is called after each BUILD of an ``Inert``
with it and the offset behind the opcode, and answers where the pickle goes on. It may raise a Failure of its own.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from ckpt_governor.formats.inert_bytes import (
    Budget,
    Cut,
    Damaged,
    Failure,
    Skipped,
    TooBig,
    Unsupported,
    Window,
)
from ckpt_governor.formats.inert_machine import AfterBuild, Inert, Machine, Persistent
from ckpt_governor.formats.inert_opcodes import OPCODES
from ckpt_governor.formats.interface import OpenFile

__all__ = [
    "AfterBuild", "Budget", "Cut", "Damaged", "Failure", "Inert", "Persistent", "Skipped", "TooBig", "Unsupported",
    "Walked", "walk",
]  # fmt: skip


class Walked(NamedTuple):
    """One pickle that was walked to its end."""

    value: object
    end: int
    """The offset behind its last byte."""
    persistent_ids: list[object]


def walk(
    file: OpenFile, at: int = 0, budget: Budget | None = None, after_build: AfterBuild | None = None
) -> Walked:
    """The pickle that begins at this offset. Raises Failure and OSError."""
    machine = Machine(Window(file, at, budget or Budget()), after_build)
    while not machine.go_on(OPCODES, sys.maxsize):
        pass  # there is an end to what the budget allows
    return Walked(machine.value, machine.window.position(), machine.persistent_ids)
