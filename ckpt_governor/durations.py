"""Durations and sizes as people type and read them. Pure."""

from __future__ import annotations

import math
import re

DURATION_S_MIN = 1.0
DURATION_S_MAX = 10 * 365 * 86400.0
"""From one second to ten years; anything else is refused."""

DURATION_WANTED = "a duration such as 90s, 30m, 1h30m or 4h, or a number of seconds, from 1s to 10 years"

_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TEXT_LENGTH_MAX = 64

_BYTE_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?")


def parse_duration(value: object) -> float:
    """Seconds from ``90s``, ``1h30m`` or a number of seconds.

    Raises ValueError, whose text says what would be right, for anything outside 1 s to 10 years.
    """
    return _in_range(_seconds(value), value)


def _seconds(value: object) -> float:
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not {DURATION_WANTED}")
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if isinstance(value, str) and len(value) <= _TEXT_LENGTH_MAX:
        text = value.strip().lower()
        if text.isascii() and _WHOLE.fullmatch(text):
            parts = _PART.findall(text)
            units = [_UNIT_S[unit] for _, unit in parts]
            if units == sorted(set(units), reverse=True):
                return sum(float(number) * _UNIT_S[unit] for number, unit in parts)
        if text.isascii() and _NUMBER.fullmatch(text):
            return float(text)
    raise ValueError(f"{_shown(value)} is not {DURATION_WANTED}")


def _in_range(seconds: float, value: object) -> float:
    if not math.isfinite(seconds) or not DURATION_S_MIN <= seconds <= DURATION_S_MAX:
        raise ValueError(f"{_shown(value)} is out of range: it must be {DURATION_WANTED}")
    return seconds


def _shown(value: object) -> str:
    """A foreign value as it may stand in an error: short and on one line."""
    text = (
        ascii(value)
        if isinstance(value, (str, int, float, bool, type(None)))
        else f"a {type(value).__name__}"
    )
    return text if len(text) <= _TEXT_LENGTH_MAX else text[: _TEXT_LENGTH_MAX - 3] + "..."


def format_duration(seconds: float) -> str:
    """``41s``, ``1m 21s``, ``3h 58m``, ``2d 4h``: at most two units, rounded to the smaller."""
    if not math.isfinite(seconds):
        return "for ever"
    whole = max(0, round(seconds))
    for large, small, large_s, small_s in (("d", "h", 86400, 3600), ("h", "m", 3600, 60), ("m", "s", 60, 1)):
        count, rest = divmod(round(whole / small_s), large_s // small_s)
        if count:
            return f"{count}{large} {rest}{small}" if rest else f"{count}{large}"
    return f"{whole}s"


def format_period(seconds: float) -> str:
    """A set period in the form that is typed: ``30m``, ``1h30m``, ``90s``, ``2.5s``."""
    if seconds != int(seconds):
        return f"{seconds:.6f}".rstrip("0") + "s"  # not :g, which writes a million seconds as 1e+06
    whole, parts = int(seconds), []
    for unit, unit_s in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, unit_s)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_precise(seconds: float) -> str:
    """Like format_duration, with one decimal under ten seconds: ``1.0s``, ``9.0s``, ``41s``."""
    return f"{seconds:.1f}s" if 0 <= seconds < 9.95 else format_duration(seconds)


def parse_bytes(value: object) -> int:
    """Bytes from ``14GB``, ``512MiB``, ``1.5T`` or a whole number. Raises ValueError with what would be right."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63:
        return value
    if isinstance(value, str) and len(value) <= _TEXT_LENGTH_MAX:
        match = _BYTES.fullmatch(value.strip().lower())
        if match:
            number, letter, binary = match.groups()
            power = "kmgtp".index(letter) + 1 if letter else 0
            unit = 1024**power if binary else _BYTE_UNITS[letter]
            count = int(float(number) * unit)
            if 0 < count < 2**63:
                return count
    raise ValueError(f"{_shown(value)} is not a size such as 14GB, 512MiB or a number of bytes")


def format_bytes(count: float) -> str:
    """``812 B``, ``4.2 MB``, ``14.0 GB``: decimal units, as disks are sold."""
    size = float(count)
    if abs(size) < 1000:
        return f"{int(size)} B"
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        size /= 1000.0
        if abs(size) < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size:.1f} PB"
