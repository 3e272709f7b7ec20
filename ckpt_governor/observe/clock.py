"""The clocks, read in one place: a steady axis that no clock step moves, and the bridge to Unix time."""

from __future__ import annotations

import time
from collections.abc import Callable

from ckpt_governor.facts import Moment

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """Gives moments; tests inject the three clocks."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        boot: Callable[[], float] = lambda: time.clock_gettime(_BOOT_CLOCK),
    ) -> None:
        self._wall, self._monotonic, self._boot = wall, monotonic, boot
        self._offset_s = wall() - monotonic()

    def moment(self) -> Moment:
        """Now."""
        return Moment(now_s=self._offset_s + self._monotonic(), wall_s=self._wall(), boot_s=self._boot())


class DeadlineClock:
    """Turns announced dates into moments of the steady axis, once each, so that a clock step moves no deadline."""

    def __init__(self) -> None:
        self._boot_dates_s: dict[tuple[str, float], float] = {}

    def steady_s(self, key: str, deadline_at_s: float, moment: Moment) -> float:
        """The steady moment of this date; the wall clock is asked only when the date is new."""
        known = (key, deadline_at_s)
        if known not in self._boot_dates_s:
            if len(self._boot_dates_s) >= 1024:
                self._boot_dates_s.clear()
            self._boot_dates_s[known] = moment.boot_s + (deadline_at_s - moment.wall_s)
        return moment.now_s + (self._boot_dates_s[known] - moment.boot_s)
