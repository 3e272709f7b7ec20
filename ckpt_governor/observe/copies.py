"""The eye that finds the copies of one unit."""

from __future__ import annotations

from attrs import frozen

from ckpt_governor.facts import Sighting


@frozen(kw_only=True)
class Look:
    """What one look at a unit showed."""

    sightings: tuple[Sighting, ...] = ()
    dangling: tuple[tuple[str, str], ...] = ()
    """Links that name nothing: (name, to)."""
    truncated: bool = False
    """A bound was hit: there is more than was looked at."""
    blind: str = ""
    """Why the unit itself cannot be listed; empty when it can."""
    partial: bool = False
    """The walk ran out of its time and goes on at the next look; the sightings are those of the last whole walk.
    Whoever follows copies over time waits for a whole one."""
    copy_count: int = 0
    """All copies, including old ones that are no longer shown."""


class CopyScanner:
    """Finds the copies of one unit; remembers what it saw so that an unchanged copy costs only ``stat`` calls."""

    def __init__(self, unit: str, *, followed: frozenset[str] = frozenset(), budget_s: float = 0.5) -> None:
        """``followed``: names that the ledger knows, so that they are shown even among very many."""
        self._unit = unit

    def look(self, now_s: float, volume_offset_s: float) -> Look:
        """One look; never raises for what lies in the unit."""
        return Look()
