"""The lines of decisions.jsonl, read by somebody who did not write them: checked field by field, damage counted."""

from __future__ import annotations

import time
from typing import Any

from attrs import evolve, frozen

from ckpt_governor.ledger import Decision, Verdict
from ckpt_governor.records import UNIX_TIME_MAX, VERSION, RecordError, parse_object, shown
from ckpt_governor.say import time_of_day
from ckpt_governor.wording import decision_line, printable

LOG_BYTES_MAX = 64 * 1024 * 1024
"""Far more than the governor writes before it rotates."""


@frozen(kw_only=True)
class Entry:
    """One recorded decision."""

    at: float
    """Unix time."""
    unit: str
    decision: Decision
    facts: object
    """The inputs of the decision, not looked at yet; None where they were left out."""

    def line(self, *, colour: bool = False) -> str:
        """As the governor printed it; with the date when that is not today's."""
        told = evolve(self.decision, reason=printable(self.decision.reason))
        return decision_line(told, _moment(self.at), colour=colour)

    def record(self, *, facts: bool) -> dict[str, Any]:
        """As ``--json`` gives it."""
        record = {
            "v": VERSION,
            "at": self.at,
            "unit": self.unit,
            "verdict": self.decision.verdict.value,
            "reason": self.decision.reason,
            "text": self.decision.text,
            "request": self.decision.request_id,
        }
        return {**record, "facts": self.facts} if facts else record


def _moment(at: float) -> str:
    there, now = time.localtime(at), time.localtime()
    if there[:3] == now[:3]:
        return time_of_day(at)
    return time.strftime("%Y-%m-%d ", there) + time_of_day(at)


def parse_entry(line: bytes, file: str) -> Entry:
    """The decision in this line. Raises RecordError."""
    record = parse_object(line, file)
    for field in ("unit", "verdict", "reason", "text"):
        if not isinstance(record.get(field), str):
            raise RecordError(file, field, f"{shown(record.get(field))} is not a text")
    at, request = record.get("at"), record.get("request")
    if not isinstance(at, (int, float)) or isinstance(at, bool) or not 0 <= at < UNIX_TIME_MAX:
        raise RecordError(file, "at", f"{shown(at)} is no Unix time")
    if request is not None and type(request) is not int:
        raise RecordError(file, "request", f"{shown(request)} is no request id")
    try:
        verdict = Verdict(record["verdict"])
    except ValueError:
        raise RecordError(file, "verdict", f"{shown(record['verdict'])} is no verdict") from None
    decision = Decision(
        verdict=verdict, reason=record["reason"], text=record["text"], at_s=float(at), request_id=request
    )
    return Entry(at=float(at), unit=record["unit"], decision=decision, facts=record.get("facts"))


def parse_entries(data: bytes, file: str) -> tuple[list[Entry], list[RecordError]]:
    """The decisions in a file, and what is wrong with the lines that hold none; their numbers count from 1."""
    entries: list[Entry] = []
    damaged: list[RecordError] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            entries.append(parse_entry(line, f"{file} line {number}"))
        except RecordError as error:
            damaged.append(error)
    return entries, damaged
