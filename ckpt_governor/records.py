"""The files that others write, as values: numbers, glue, job.json; nothing is read or written here. Pure.

Whatever stands in a file was written by somebody else: it is bounded, checked field by field and never coerced
quietly. Errors name the file, the field, what is wrong and what would be right.
"""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from typing import Any, TypeVar

from attrs import frozen

from ckpt_governor.durations import DURATION_S_MAX, parse_bytes, parse_duration
from ckpt_governor.numbers import Numbers, parse_no_us, parse_with_us

VERSION = 1
FILE_BYTES_MAX = 64 * 1024
"""No glue, numbers or job file may be larger."""
TEXT_LENGTH_MAX = 400
UNIX_TIME_MAX = 253402300800.0
"""The year 10000: no deadline lies behind it."""


class RecordError(ValueError):
    """A file that does not say what the contract asks for."""

    def __init__(self, file: str, field: str, wrong: str) -> None:
        self.file, self.field, self.wrong = file, field, wrong
        where = f"{file}: {field}" if field else file
        super().__init__(f"{where}: {wrong}")


def parse_object(text: str | bytes, file: str) -> dict[str, Any]:
    """The JSON object in this text. Raises RecordError; NaN, infinity and deep nesting are damage."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise RecordError(file, "", "nested too deeply") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise RecordError(file, "", f"not JSON ({short(error)})") from None
    if not isinstance(value, dict):
        raise RecordError(file, "", f"a JSON object is wanted, this is a {type(value).__name__}")
    version = value.get("v", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise RecordError(file, "v", f"version {shown(version)} is not known; {VERSION} is")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def short(error: Exception) -> str:
    """An error's own words, bounded."""
    text = str(error)
    return text if len(text) <= 120 else text[:117] + "..."


def shown(value: object) -> str:
    """A foreign value as it may stand in an error: short, escaped, on one line."""
    text = (
        ascii(value)
        if isinstance(value, (str, int, float, bool, type(None)))
        else f"a {type(value).__name__}"
    )
    return text if len(text) <= 64 else text[:61] + "..."


# ---- numbers.json ----------------------------------------------------------------------------------------------


def parse_numbers(text: str | bytes, file: str = "numbers.json") -> Numbers:
    """The numbers in this text. Raises RecordError naming the field."""
    record = parse_object(text, file)
    window_s, auto = _field(record, "with_us", file, parse_with_us, (None, False))
    chosen = record.get("chosen", "")
    if not isinstance(chosen, str):
        raise RecordError(file, "chosen", f"{shown(chosen)} is not a word")
    return Numbers(
        no_us_s=_field(record, "no_us", file, parse_no_us, None),
        with_us_s=window_s,
        auto=auto,
        duration_s=_field(record, "duration", file, parse_duration, None),
        write_s=_field(record, "write_time", file, parse_positive_s, None),
        bytes=_field(record, "bytes", file, parse_bytes, None),
        mtbf_s=_field(record, "mtbf", file, parse_duration, None),
        chosen=chosen[:64],
    )


Parsed = TypeVar("Parsed")


def _field(record: dict[str, Any], name: str, file: str, parse: Any, unset: Parsed) -> Parsed:
    value = record.get(name)
    if value is None:
        return unset
    try:
        parsed: Parsed = parse(value)
    except ValueError as error:
        raise RecordError(file, name, str(error)) from None
    return parsed


def parse_positive_s(value: object) -> float:
    """A write time: a duration, or seconds above zero with fractions. Raises ValueError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1:
        return float(value)
    return parse_duration(value)


# ---- glue, job.json, seen ---------------------------------------------------------------------------------------


@frozen(kw_only=True)
class GlueRecord:
    """What a glue file says; an empty file says nothing but its name."""

    id: str = ""
    deadline_at: float | None = None
    in_s: float | None = None
    text: str = ""
    source: str = "glue"
    cancel: bool = False


def parse_glue(text: str | bytes, file: str) -> GlueRecord:
    """The announcement in this text; an empty text is a bare one. Raises RecordError naming the field."""
    if not text.strip():
        return GlueRecord()
    record = parse_object(text, file)
    in_s = record.get("in")
    if in_s is not None:
        in_s = _seconds_from_now(in_s, file)
    return GlueRecord(
        id=_word(record, "id", file),
        deadline_at=_time(record, "deadline", file),
        in_s=in_s,
        text=_word(record, "text", file),
        source=_word(record, "source", file) or "glue",
        cancel=_flag(record, "cancel", file),
    )


def _seconds_from_now(value: object, file: str) -> float:
    try:
        seconds = _number(value, "in", file)
    except RecordError:
        return _field({"in": value}, "in", file, parse_duration, 0.0)
    if not -DURATION_S_MAX <= seconds <= DURATION_S_MAX:
        raise RecordError(file, "in", f"{shown(value)} is out of range: seconds from now, such as 30")
    return seconds


def _word(record: dict[str, Any], name: str, file: str) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and name == "id":
        value = shown(value)
    if not isinstance(value, str):
        raise RecordError(file, name, f"{shown(value)} is not a text")
    return value[:TEXT_LENGTH_MAX]


def _flag(record: dict[str, Any], name: str, file: str) -> bool:
    value = record.get(name, False)
    if not isinstance(value, bool):
        raise RecordError(file, name, f"{shown(value)} is neither true nor false")
    return value


def _number(value: object, name: str, file: str) -> float:
    wanted = "is not a finite number"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RecordError(file, name, f"{shown(value)} {wanted}")
    try:
        number = float(value)
    except OverflowError:
        raise RecordError(file, name, f"{shown(value)} {wanted}") from None
    if not math.isfinite(number):
        raise RecordError(file, name, f"{shown(value)} {wanted}")
    return number


def _time(record: dict[str, Any], name: str, file: str) -> float | None:
    """Unix seconds, or an ISO 8601 date; one without a zone is UTC."""
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value[:64].strip().replace("Z", "+00:00").replace("z", "+00:00"))
            return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
        except (ValueError, OverflowError):
            wanted = "is neither Unix seconds nor a date such as 2026-01-01T00:00:00Z"
            raise RecordError(file, name, f"{shown(value)} {wanted}") from None
    number = _number(value, name, file)
    if abs(number) > UNIX_TIME_MAX:
        raise RecordError(file, name, f"{shown(value)} is no date: Unix seconds are wanted")
    return number


@frozen(kw_only=True)
class JobRecord:
    """What job.json says; every field is optional."""

    pid: int | None = None
    started_at: float | None = None
    write_s: float | None = None
    bytes: int | None = None
    ranks: int | None = None
    ends_at: float | None = None
    restarts: int | None = None
    memory_current: int | None = None
    memory_max: int | None = None
    failed_bytes: int | None = None
    failed_errno: int | None = None


def parse_job(text: str | bytes, file: str = "job.json") -> JobRecord:
    """The facts in this text. Raises RecordError naming the field."""
    record = parse_object(text, file)
    memory = _part(record, "memory", file)
    failed = _part(record, "failed", file)
    write_s = record.get("write_s")
    if write_s is not None:
        write_s = _number(write_s, "write_s", file)
        if not 0 < write_s <= DURATION_S_MAX:
            raise RecordError(
                file, "write_s", f"{shown(write_s)} is out of range: seconds above zero are wanted"
            )
    return JobRecord(
        pid=_count(record, "pid", file),
        started_at=_time(record, "started_at", file),
        write_s=write_s,
        bytes=_count(record, "bytes", file),
        ranks=_count(record, "ranks", file),
        ends_at=_time(record, "ends_at", file),
        restarts=_count(record, "restarts", file),
        memory_current=_count(memory, "current", file, "memory."),
        memory_max=_count(memory, "max", file, "memory."),
        failed_bytes=_count(failed, "bytes", file, "failed."),
        failed_errno=_count(failed, "errno", file, "failed."),
    )


def _part(record: dict[str, Any], name: str, file: str) -> dict[str, Any]:
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RecordError(file, name, f"{shown(value)} is not an object")
    return value


def _count(record: dict[str, Any], name: str, file: str, prefix: str = "") -> int | None:
    value = record.get(name)
    if value is None:
        return None
    number = _number(value, prefix + name, file)
    if number < 0 or number >= 2**63 or number != int(number):
        raise RecordError(file, prefix + name, f"{shown(value)} is not a whole number of zero or more")
    return int(number)


def parse_seen(text: str | bytes, file: str = "glue/seen") -> int | None:
    """The request id that the job says it has read. Raises RecordError."""
    return _count(parse_object(text, file), "id", file)


def dump(value: object) -> str:
    """Compact JSON on one line; a NaN is an error here, never a file."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
