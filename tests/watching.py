"""A unit that is looked at once a second of a clock set by hand; shows its copies as a governor knows them."""

from __future__ import annotations

from pathlib import Path

from ckpt_governor.copies import Settle, follow
from ckpt_governor.facts import Copy, CopyStatus, Whole
from ckpt_governor.observe.copies import CopyScanner

NOW_S = 2_000_000_000.0
"""Long after anything in a unit was written."""
SETTLE = Settle(broken_s=30.0, sound_s=10.0)


class Watched:
    """The eye and the memory of a governor, without its decisions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.begin()

    def begin(self) -> None:
        """A governor that knows nothing of before."""
        self.scanner, self.now_s = CopyScanner(str(self.path), budget_s=60.0), NOW_S
        self.look_s: float | None = None
        self.copies: tuple[Copy, ...] = ()
        self.dangling: tuple[tuple[str, str], ...] = ()
        self.wholes: tuple[Whole, ...] = ()

    def pass_s(self, seconds: int) -> dict[str, tuple[CopyStatus, str]]:
        """A look each second; returns status and why of each copy."""
        for _ in range(seconds):
            self.now_s += 1.0
            look = self.scanner.look(self.now_s, 0.0)
            self.copies = follow(
                self.copies,
                look.sightings,
                now_s=self.now_s,
                former_look_s=self.look_s,
                asked_s=None,
                settle=SETTLE,
            )
            self.wholes = self.scanner.remember(self.copies)
            self.look_s, self.dangling = self.now_s, look.dangling
        return {copy.name: (copy.status, copy.why) for copy in self.copies}
