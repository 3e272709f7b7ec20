"""The temperatures of this host that have a critical value.

The tree is read here and not through psutil: that fills in a critical value that a sensor does not have with its
high one, and 3 degrees below "high" is no emergency.
"""

from __future__ import annotations

import re

from attrs import evolve

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Moment, Report
from ckpt_governor.observe.hostfacts.sysroot import Damage, SysRoot
from ckpt_governor.observe.source import failure, success
from ckpt_governor.signs import Heat, Sensor

CRITICAL_C_MAX = 200.0
"""Higher ones are not meant: some drives say 65261 where they have none."""
CURRENT_C_MIN = -60.0
CURRENT_C_MAX = 250.0
"""Outside of these a sensor is not connected."""
_HWMON = "/sys/class/hwmon"
_ZONES = "/sys/class/thermal"
_MILLIDEGREES = re.compile(r"-?[0-9]{1,9}")


class HeatSource:
    """The sensors of hwmon; where it has none at all, the thermal zones."""

    name = "sensors"
    covers: tuple[Condition, ...] = (Condition.THERMAL,)

    def __init__(self, *, sysroot: str = "/") -> None:
        self.every_s = 10.0
        self._root = SysRoot(sysroot)

    def read(self, moment: Moment) -> Report:
        """The sensors; failed when there is none whose critical value is known."""
        sensors = self._chips() or self._zones()
        if not sensors:
            return failure(self, moment, "no temperature sensors with a critical value on this host")
        return evolve(success(self, moment), heat=Heat(sensors=tuple(sensors)))

    def _chips(self) -> list[Sensor]:
        found = []
        for chip in self._root.names(_HWMON, r"hwmon[0-9]+"):
            for folder in (f"{_HWMON}/{chip}", f"{_HWMON}/{chip}/device"):  # old kernels have one folder more
                for file in self._root.names(folder, r"temp[0-9]+_input"):
                    sensor = file.removesuffix("_input")
                    label = self._word(f"{folder}/{sensor}_label", sensor)
                    name = f"{self._word(f'{folder}/name', chip)} {label}"
                    found += self._sensor(name, f"{folder}/{file}", f"{folder}/{sensor}_crit")
        return found

    def _zones(self) -> list[Sensor]:
        found = []
        for zone in self._root.names(_ZONES, r"thermal_zone[0-9]+"):
            folder = f"{_ZONES}/{zone}"
            for trip in self._root.names(folder, r"trip_point_[0-9]+_type"):
                if self._word(f"{folder}/{trip}", "") == "critical":
                    critical = f"{folder}/{trip.removesuffix('_type')}_temp"
                    found += self._sensor(self._word(f"{folder}/type", zone), f"{folder}/temp", critical)
        return found

    def _sensor(self, name: str, current: str, critical: str) -> list[Sensor]:
        """One sensor; none when one of its two values is missing or cannot be."""
        try:
            current_c, critical_c = self._degrees(current), self._degrees(critical)
        except (OSError, Damage):
            return []
        if not (0.0 < critical_c <= CRITICAL_C_MAX and CURRENT_C_MIN < current_c < CURRENT_C_MAX):
            return []
        return [Sensor(name=name, current_c=current_c, critical_c=critical_c)]

    def _degrees(self, name: str) -> float:
        text = self._root.text(name).strip()
        if not _MILLIDEGREES.fullmatch(text):
            raise Damage(f"{name}: millidegrees are wanted, this is {text[:32]!a}")
        return int(text) / 1000.0

    def _word(self, name: str, otherwise: str) -> str:
        """A name that a driver gives, as it may be shown."""
        try:
            text = self._root.text(name).strip()[:64]
        except OSError:
            return otherwise
        return text if text and text.isprintable() else otherwise
