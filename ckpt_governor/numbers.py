"""The two numbers, and what else a person may set for one unit. Pure."""

from __future__ import annotations

from enum import Enum

from attrs import evolve, frozen

from ckpt_governor.durations import format_period, parse_duration


class Window(str, Enum):
    """The two windows that are no duration."""

    NONE = "none"
    AUTO = "auto"


@frozen(kw_only=True)
class Numbers:
    """What the user set; None means unset, for which the contract says what holds."""

    no_us_s: float | None = None
    """What the job does without a live governor: a period, or None for nothing."""
    with_us_s: float | None = None
    """How stale the newest sound copy may become; None for exceptions only (or see ``auto``)."""
    auto: bool = False
    """The window is computed from cost and deaths."""
    duration_s: float | None = None
    """The job's allotted time, counted from its start."""
    write_s: float | None = None
    """What a write takes, where the user said so; observation replaces it."""
    bytes: int | None = None
    mtbf_s: float | None = None
    chosen: str = ""
    """The name of the window that ``ckptctl init`` wrote: none, middle, periodic, auto or a duration."""
    grace_s: float = 30.0
    """Dates a termination that comes without a deadline."""
    grace_given: bool = False
    """Whether the user set the grace: then it also caps a termination's own deadline."""
    reserve_bytes: int | None = None
    """Free space that is never used; None: 1 % of the volume, at most 1 GiB."""
    settle_s: float | None = None
    """How long an incomplete copy must be quiet before it counts as broken; None: learned."""


def parse_no_us(value: object) -> float | None:
    """Seconds of a ``no_us`` setting; None for ``none`` or unset. Raises ValueError saying what would be right."""
    if value is None or value == Window.NONE.value:
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or none") from None


def parse_with_us(value: object) -> tuple[float | None, bool]:
    """Seconds of a ``with_us`` setting and whether it is ``auto``. Raises ValueError saying what would be right."""
    if value == Window.AUTO.value:
        return None, True
    try:
        return parse_no_us(value), False
    except ValueError as error:
        raise ValueError(f"{error} or auto") from None


def override(
    base: Numbers, *, no_us: str | None = None, with_us: str | None = None, duration: str | None = None
) -> Numbers:
    """The numbers of the file with those given for this run on top; None leaves a number as it is."""
    numbers = base
    if no_us is not None:
        numbers = evolve(numbers, no_us_s=parse_no_us(no_us))
    if with_us is not None:
        window_s, auto = parse_with_us(with_us)
        numbers = evolve(numbers, with_us_s=window_s, auto=auto)
    if duration is not None:
        numbers = evolve(numbers, duration_s=parse_duration(duration))
    return numbers


def shown_window(numbers: Numbers) -> str:
    """``with_us`` as it is typed."""
    if numbers.auto:
        return Window.AUTO.value
    return Window.NONE.value if numbers.with_us_s is None else format_period(numbers.with_us_s)
