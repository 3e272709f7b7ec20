"""From decisions and receipts to the lines that people read: an interface, held by golden files. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ckpt_governor.durations import format_bytes, format_duration, format_period, format_precise
from ckpt_governor.facts import CopyStatus, Leftover
from ckpt_governor.ledger import Decision, Verdict, Write
from ckpt_governor.receipt import Receipt

if TYPE_CHECKING:
    from ckpt_governor.prices import Price

TEXT_LENGTH_MAX = 400
LEFTOVERS_NAMED_MAX = 5
VERDICT_WIDTH = max(len(verdict.value) for verdict in (Verdict.SAVE, Verdict.SKIP))
REASON_WIDTH = 12
COLOURS = {
    Verdict.SAVE: "32",
    Verdict.REPAIR: "33",
    Verdict.SKIP: "33",
    Verdict.INFEASIBLE: "31",
    Verdict.UNKNOWN: "31",
}


def printable(text: str, length_max: int = TEXT_LENGTH_MAX) -> str:
    """Foreign text as it may reach a terminal: one line, no control or direction characters, bounded."""
    shown = "".join(_shown(char) for char in text[: length_max + 1])
    return shown if len(shown) <= length_max else shown[: length_max - 1] + "…"


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte of a name that is no UTF-8
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def watching_line(units: int, blind: int) -> str:
    """The first line of a run."""
    return f"watching {units} {'unit' if units == 1 else 'units'} · {blind} blind"


def waiting_line(owner: str) -> str:
    """What a second governor says."""
    return f"waiting · {printable(owner)} decides for this unit; this one takes over when it is gone"


def taking_over_line(owner: str) -> str:
    """What a second governor says when the first is gone."""
    return f"taking over · {printable(owner)} is gone" if owner else "taking over"


def decision_line(decision: Decision, clock: str, unit: str = "", colour: bool = False) -> str:
    """``14:41:03  save  risk.preempt  sentence``; a unit column after the time when more than one is watched."""
    verdict = decision.verdict.value.ljust(VERDICT_WIDTH)
    if colour:
        verdict = f"\x1b[{COLOURS[decision.verdict]}m{verdict}\x1b[0m"
    columns = [clock, verdict, printable(decision.reason).ljust(REASON_WIDTH), printable(decision.text)]
    if unit:
        columns.insert(1, printable(unit))
    return "  ".join(columns)


def receipt_text(account: Receipt, clock: Callable[[float], str]) -> str:
    """The receipt as printed at the end of a run; ``clock`` gives a moment's time of day."""
    lines = [_headline(account)]
    rows = [_write_row(write, clock) for write in account.writes]
    lines += ["  " + row for row in columns(rows)]
    lines += ["  " + line for line in _footnotes(account)]
    return "\n".join(lines)


def _headline(account: Receipt) -> str:
    ran = format_duration(account.run_s)
    if not account.writes:
        return f"run {ran} · no writes"
    count = len(account.writes)
    known_s = [write.write_s for write in account.writes if write.write_s is not None]
    took = f", {format_precise(sum(known_s))}" if known_s else ""
    return f"run {ran} · {count} {'write' if count == 1 else 'writes'}{took}"


def _write_row(write: Write, clock: Callable[[float], str]) -> tuple[str, ...]:
    took = "-" if write.write_s is None else format_precise(write.write_s)
    return (
        clock(write.at_s),
        printable(write.reason) or "by itself",
        took,
        write.status.value,
        printable(write.name),
    )


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their columns aligned, two spaces between them, nothing trailing."""
    if not rows:
        return []
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _footnotes(account: Receipt) -> list[str]:
    notes = []
    answered = sum(bool(write.reason) for write in account.writes)
    asked = answered > 0
    if account.refused:
        refusals = ", ".join(f"{count} {name}" for name, count in sorted(account.refused.items()))
        notes.append(f"refused   {refusals}")
    elif not asked and not account.asked:
        notes.append("nothing said the work was at risk")
    if account.asked and not asked:
        times = "once" if account.asked == 1 else f"{account.asked} times"
        notes.append(f"asked {times}, and no write came: does the job read state.json in this directory?")
    elif account.asked > answered:
        notes.append(f"{account.asked - answered} of {account.asked} requests got no write")
    if account.unserved:
        notes.append(f"unserved  {account.unserved} asked and not answered before the deadline")
    broken = [write for write in account.writes if write.status is not CopyStatus.SOUND]
    if broken:
        notes.append(f"not sound {', '.join(printable(write.name) for write in broken)}")
    if account.leftovers:
        notes.append(f"leftover  {printable(leftovers_text(account.leftovers))}")
    if account.end_sound is True:
        notes.append("the end has a sound copy")
    elif account.end_sound is False:
        last = f"the last sound one is {printable(account.end_copy)}" if account.end_copy else "there is none"
        notes.append(f"the end has no sound copy of its own; {last}")
    notes.append(_staleness(account))
    compared = _compared(account)
    return [note for note in (*notes, compared) if note]


def _staleness(account: Receipt) -> str:
    if account.silent_death_costs_s is None:
        return "a silent death costs everything: no window was set"
    promised_s = account.silent_death_costs_s
    if account.stalest_s > promised_s + 0.5:
        return (
            f"a silent death would have cost up to {format_duration(account.stalest_s)}:"
            f" more than the {format_period(promised_s)} of the window"
        )
    return f"a silent death would have cost at most {format_period(promised_s)}"


def _compared(account: Receipt) -> str:
    usual = account.compared
    if usual.silent_death_costs_s is None or usual.writes is None:
        return ""
    took = "" if usual.write_s is None else f", about {format_precise(usual.write_s)}"
    period = format_period(usual.silent_death_costs_s)
    return f"without this process: {usual.writes} writes{took}, a silent death costs at most {period}"


def leftovers_text(left: Sequence[Leftover]) -> str:
    """What dead writes have left: the first few by name, each with its bytes, and the bytes of all."""
    told = ", ".join(f"{one.name} ({format_bytes(one.bytes)})" for one in left[:LEFTOVERS_NAMED_MAX])
    more = f" and {len(left) - LEFTOVERS_NAMED_MAX} more" if len(left) > LEFTOVERS_NAMED_MAX else ""
    total = f", {format_bytes(sum(one.bytes for one in left))} in all" if len(left) > 1 else ""
    return f"{told}{more}{total}"


def price_rows(prices: Sequence[Price]) -> list[str]:
    """The price table: name, what is done, writes and their cost, what a silent death costs."""
    rows = [(price.name, price.what, _cost(price), _death(price), _loss(price)) for price in prices]
    if all(row[4] == "" for row in rows):
        return ["  " + line for line in columns([row[:4] for row in rows])]
    return ["  " + line for line in columns(rows)]


def _cost(price: Price) -> str:
    count = f"{price.writes} {'write' if price.writes == 1 else 'writes'}"
    if price.writes == 0:
        return count
    return (
        f"{count}, cost not known"
        if price.cost_s is None
        else f"{count}, about {format_precise(price.cost_s)}"
    )


def _death(price: Price) -> str:
    if price.silent_death_costs_s is None:
        return "a silent death costs everything"
    return f"a silent death costs at most {format_period(round(price.silent_death_costs_s))}"


def _loss(price: Price) -> str:
    return "" if price.expected_loss_s is None else f"expected loss {format_duration(price.expected_loss_s)}"


def size_text(count: int | None) -> str:
    """Bytes, or that they are not known."""
    return "size not known" if count is None else format_bytes(count)
