"""A whole governor over a real folder, without its loop: it looks once a second of a clock that is set by hand."""

from __future__ import annotations

import time
from pathlib import Path

from ckpt_governor.copies import newest, newest_sound
from ckpt_governor.facts import CopyStatus
from ckpt_governor.files import paths_of
from ckpt_governor.ledger import Decision
from ckpt_governor.observe.clock import Clock
from ckpt_governor.settings import Settings
from ckpt_governor.unit import Unit


class Governed:
    """Observes, judges, decides and announces at every second that passes."""

    def __init__(self, path: Path, **settings: object) -> None:
        """``settings``: of the run, such as ``with_us="10m"``."""
        self.path, self.now_s = path, 0.0
        begin_s = time.time()  # files get their times from the system
        self.clock = Clock(
            wall=lambda: begin_s + self.now_s, monotonic=lambda: self.now_s, boot=lambda: self.now_s
        )
        self.unit = Unit(paths_of(str(path)), Settings(unit=str(path), **settings), "governed")  # type: ignore[arg-type]
        self.unit.open(self.clock.moment())
        self.said: list[Decision] = []
        """All decisions so far."""

    def pass_s(self, seconds: int) -> list[tuple[str, str]]:
        """So many seconds; verdict and reason of what was decided in them."""
        before = len(self.said)
        for _ in range(seconds):
            self.now_s += 1.0
            self.said += self.unit.tick(self.clock.moment()).decisions
        return [(line.verdict.value, line.reason) for line in self.said[before:]]

    def texts(self, verdict: str) -> list[str]:
        """The sentences of this verdict."""
        return [line.text for line in self.said if line.verdict.value == verdict]

    def drop(self, name: str) -> None:
        """A notice."""
        (self.path / ".ckpt-governor" / "glue" / name).touch()

    def ack(self, name: str) -> str:
        """What was answered to it."""
        path = self.path / ".ckpt-governor" / "acks" / name
        return path.read_text().strip() if path.exists() else ""

    def statuses(self) -> dict[str, CopyStatus]:
        """Of all copies."""
        return {copy.name: copy.status for copy in self.unit.ledger.copies}

    def newest(self) -> tuple[str, str]:
        """The newest copy, and the newest sound one."""
        copies = (newest(self.unit.ledger.copies), newest_sound(self.unit.ledger.copies))
        return tuple("" if copy is None else copy.name for copy in copies)  # type: ignore[return-value]
