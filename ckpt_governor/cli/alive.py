"""Whether a governor is alive, as far as its state.json tells somebody who may not disturb it."""

from __future__ import annotations

import os
from typing import Any

from attrs import frozen

from ckpt_governor.copies import Settle
from ckpt_governor.files import Paths, read_bounded
from ckpt_governor.records import FILE_BYTES_MAX, RecordError, parse_object

BEATS_TO_GONE = 6
BEAT_EVERY_S, BEAT_EVERY_S_MIN, BEAT_EVERY_S_MAX = 5.0, 0.05, 600.0


@frozen(kw_only=True)
class State:
    """What state.json says."""

    governor_id: str
    alive: bool
    """What the governor says of itself; a killed one says nothing any more."""
    beat: int
    beat_every_s: float
    written_at: float | None
    """Unix time by the governor's clock."""
    modified_at: float
    """The same moment by the volume's clock."""
    record: dict[str, Any]

    @property
    def gone_s(self) -> float:
        """How long a beat may fail to come until the governor counts as gone."""
        return BEATS_TO_GONE * self.beat_every_s

    @property
    def volume_offset_s(self) -> float:
        """The volume's clock minus the governor's; zero where that cannot be told."""
        if self.written_at is None:
            return 0.0
        offset_s = self.modified_at - self.written_at
        return offset_s if abs(offset_s) < 86400.0 else 0.0

    @property
    def settle(self) -> Settle | None:
        """How long it lets copies be quiet before it judges them; None where it does not say so."""
        told = self.record.get("settle")
        if not isinstance(told, dict):
            return None
        broken_s, sound_s = number_of(told.get("broken_s")), number_of(told.get("sound_s"))
        if broken_s is None or sound_s is None or min(broken_s, sound_s) < 0:
            return None
        return Settle(broken_s=broken_s, sound_s=sound_s)

    def age_s(self, wall_s: float) -> float:
        """Time since the last beat. Two clocks tell it, and either may be another machine's: the nearer one counts."""
        ages_s = [abs(wall_s - self.modified_at)]
        if self.written_at is not None:
            ages_s.append(abs(wall_s - self.written_at))
        return min(ages_s)

    def lives(self, wall_s: float) -> bool:
        """Whether it says that it is alive, and said so less than six beats ago."""
        return self.alive and self.age_s(wall_s) < self.gone_s


def read_state(paths: Paths) -> State | None:
    """The state of the unit; None where there is none, or none that can be read."""
    path = paths.of("state.json")
    try:
        text = read_bounded(path, FILE_BYTES_MAX)
        return parse_state(text, os.lstat(path).st_mtime)
    except OSError:
        return None


def parse_state(text: bytes, modified_at: float) -> State | None:
    """The state in this text; None when it is damaged."""
    try:
        record = parse_object(text, "state.json")
        governor, beat = record["governor"], record["beat"]
        if not isinstance(governor["alive"], bool) or type(beat) is not int:
            return None
    except (RecordError, TypeError, KeyError):
        return None
    every_s = number_of(record.get("beat_every_s"))
    return State(
        governor_id=str(governor.get("id"))[:128],
        alive=governor["alive"],
        beat=beat,
        beat_every_s=min(max(every_s or BEAT_EVERY_S, BEAT_EVERY_S_MIN), BEAT_EVERY_S_MAX),
        written_at=number_of(record.get("written_at")),
        modified_at=modified_at,
        record=record,
    )


def number_of(value: object) -> float | None:
    """This as a number that a clock or a period may show; None when it is none."""
    if type(value) not in (int, float):
        return None
    number: Any = value
    return float(number) if abs(number) < 2**53 else None
