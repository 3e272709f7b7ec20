"""What a person set for one run of the process, from flags and environment."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from ckpt_governor.numbers import Numbers

BEAT_EVERY_S = 5.0
POLL_S = 1.0
POLL_BUSY_S = 0.25
"""While a request is open or a write goes on."""


class Shape(str, Enum):
    """What SIGTERM means to the process."""

    PLAIN = "plain"
    """The notice: the job was told to go as well, and this process outlives it."""
    NATIVE = "native"
    """The job is gone already: a native sidecar is told last."""


class LogForm(str, Enum):
    """The form of the lines."""

    TEXT = "text"
    JSON = "json"


@frozen(kw_only=True)
class Settings:
    """The settings of one run; a number that is None was not given."""

    unit: str
    control_dir: str | None = None
    no_us: str | None = None
    with_us: str | None = None
    duration: str | None = None
    grace_s: float | None = None
    reserve_bytes: int | None = None
    settle_s: float | None = None
    poll_s: float = POLL_S
    log: LogForm = LogForm.TEXT
    shape: Shape = Shape.PLAIN
    once: bool = False
    stay: bool = False
    beat_every_s: float = BEAT_EVERY_S
    base: Numbers = Numbers()
