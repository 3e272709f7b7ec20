"""The small interface of everything that is read beside the loop: platforms, host facts, commands.

A source is read by a thread of its own (``watcher.py``), so it may block for a second or two, never for ever. It
raises nothing that it expects: what cannot be read is a report with ``failed``, and what was not positively
identified is a failed report too, never "nothing announced".
"""

from __future__ import annotations

from typing import Protocol

from attrs import evolve

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Moment, Reading, Report

STALE_S_MIN = 30.0


class Source(Protocol):
    """One thing that is read again and again."""

    name: str
    """The word that people see as the source."""
    every_s: float
    """The time between two reads; a source may change it after each."""
    covers: tuple[Condition, ...]
    """What it can tell of."""

    def read(self, moment: Moment) -> Report:
        """What it shows now; ``moment`` is when the read began."""
        ...


def stale_s(every_s: float) -> float:
    """When a report is too old to be believed: after three reads that did not come, at least 30 s."""
    return max(3.0 * every_s, STALE_S_MIN)


def failure(source: Source, moment: Moment, why: str) -> Report:
    """The report of a read that told nothing."""
    return Report(
        source=source.name,
        read_s=moment.now_s,
        stale_s=stale_s(source.every_s),
        covers=source.covers,
        failed=why[:400],
    )


def success(source: Source, moment: Moment) -> Report:
    """The report of a read that found the source; the caller adds what it says with ``attrs.evolve``."""
    return evolve(failure(source, moment, ""), failed="")


def absent(source: Source, moment: Moment, condition: Condition, why: str) -> Reading:
    """The reading 0 of a notice condition: the platform was identified and read, and announces nothing."""
    return Reading(condition=condition, value=False, why=why, source=source.name, read_s=moment.now_s)
