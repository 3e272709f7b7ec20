"""What the governor tells, as text: state.json for the job, receipt.json for people and tools. Pure."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from ckpt_governor.copies import Settle
from ckpt_governor.facts import Copy, CopyStatus, Reading
from ckpt_governor.ledger import Decision, Ledger
from ckpt_governor.receipt import Receipt
from ckpt_governor.records import TEXT_LENGTH_MAX, VERSION, dump

STATE_BYTES_MAX = 4096


@frozen(kw_only=True)
class Pulse:
    """What the process itself adds to state.json."""

    governor_id: str
    version: str
    alive: bool
    beat: int
    beat_every_s: float
    wall_minus_steady_s: float = 0.0
    """Added to a moment of the steady axis it gives Unix time."""


def encode_state(
    ledger: Ledger,
    pulse: Pulse,
    *,
    now_s: float,
    no_us_s: float | None,
    with_us_s: float | None,
    newest: Copy | None,
    conditions: tuple[Reading, ...],
    settle: Settle | None = None,
) -> str:
    """The text of state.json: one line, under 4 KiB, its keys in the contract's order."""
    for text_length_max in (TEXT_LENGTH_MAX, 120):
        state = _state(ledger, pulse, now_s, no_us_s, with_us_s, newest, conditions, settle, text_length_max)
        text = dump(state)
        if len(text) < STATE_BYTES_MAX:
            return text
    return dump(_state(ledger, pulse, now_s, no_us_s, with_us_s, newest, conditions, settle, 0))


def _state(
    ledger: Ledger,
    pulse: Pulse,
    now_s: float,
    no_us_s: float | None,
    with_us_s: float | None,
    newest: Copy | None,
    conditions: tuple[Reading, ...],
    settle: Settle | None,
    text_length_max: int,
) -> dict[str, Any]:
    return {
        "v": VERSION,
        "governor": {"id": pulse.governor_id, "version": pulse.version, "alive": pulse.alive},
        "beat": pulse.beat,
        "beat_every_s": pulse.beat_every_s,
        "written_at": _wall(now_s, pulse),
        "decision": _decision(ledger.last, pulse, text_length_max),
        "request": _request(ledger, pulse),
        "leaving_at": _wall(_leaving_s(ledger, now_s), pulse),
        "no_us_s": no_us_s,
        "with_us_s": with_us_s,
        "newest": _newest(newest, pulse, text_length_max),
        "conditions": {
            reading.condition.value: None if reading.value is None else int(reading.value)
            for reading in conditions
        },
        "last_id": ledger.last_id,
        "settle": None
        if settle is None
        else {"broken_s": round(settle.broken_s, 3), "sound_s": round(settle.sound_s, 3)},
    }


def _wall(moment_s: float | None, pulse: Pulse) -> float | None:
    return None if moment_s is None else round(moment_s + pulse.wall_minus_steady_s, 3)


def _decision(decision: Decision | None, pulse: Pulse, text_length_max: int) -> dict[str, Any] | None:
    if decision is None:
        return None
    return {
        "verdict": decision.verdict.value,
        "reason": decision.reason,
        "text": decision.text[:text_length_max],
        "at": _wall(decision.at_s, pulse),
    }


def _request(ledger: Ledger, pulse: Pulse) -> dict[str, Any] | None:
    request = ledger.request
    if request is None:
        return None
    return {
        "id": request.id,
        "kind": request.kind.value,
        "reason": request.reason,
        "at": _wall(request.at_s, pulse),
        "deadline": _wall(request.deadline_s, pulse),
    }


def _leaving_s(ledger: Ledger, now_s: float) -> float | None:
    """The earliest announced end that still lies ahead."""
    ends = [
        cause.deadline_s
        for cause in ledger.causes
        if cause.key.startswith("notice:")
        and cause.live
        and cause.reason != "risk.request"
        and cause.deadline_s
    ]
    return min((end_s for end_s in ends if end_s > now_s), default=None)


_SOUND = {CopyStatus.SOUND: True, CopyStatus.BROKEN: False}


def _newest(copy: Copy | None, pulse: Pulse, name_length_max: int) -> dict[str, Any] | None:
    if copy is None:
        return None
    return {
        "name": copy.name[: max(64, name_length_max)],
        "step": copy.step,
        "sound": _SOUND.get(copy.status),
        "captured_at": _wall(copy.state_s, pulse),
    }


def receipt_record(account: Receipt, wall_minus_steady_s: float) -> dict[str, Any]:
    """The object of receipt.json."""
    compared = account.compared
    return {
        "v": VERSION,
        "run_s": round(account.run_s, 3),
        "started_at": round(account.started_s + wall_minus_steady_s, 3),
        "writes": [
            {
                "at": round(write.at_s + wall_minus_steady_s, 3),
                "reason": write.reason or None,
                "write_s": None if write.write_s is None else round(write.write_s, 3),
                "name": write.name,
                "status": write.status.value,
                "bytes": write.bytes,
            }
            for write in account.writes
        ],
        "refused": account.refused,
        "asked": account.asked,
        "unheard": account.unheard,
        "unserved": account.unserved,
        "stalest_s": round(account.stalest_s, 3),
        "with_us_s": account.with_us_s,
        "silent_death_costs_s": account.silent_death_costs_s,
        "end_sound": account.end_sound,
        "newest_sound": account.end_copy or None,
        "leftovers": [{"name": left.name, "bytes": left.bytes} for left in account.leftovers],
        "compared_with_no_us": {
            "writes": compared.writes,
            "write_s": compared.write_s,
            "silent_death_costs_s": compared.silent_death_costs_s,
        },
    }
