"""``ckptctl log`` and ``receipt``: what was decided, and what came of it."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from attrs import define

from ckpt_governor.cli.alive import read_state
from ckpt_governor.cli.entries import LOG_BYTES_MAX, Entry, parse_entries
from ckpt_governor.cli.table import coloured
from ckpt_governor.cli.view import (
    EXIT_BAD,
    EXIT_DONE,
    Commands,
    Failure,
    add_command,
    add_json,
    add_unit,
    checked,
    complain,
    print_json,
    unit_of,
)
from ckpt_governor.facts import CopyStatus, Leftover
from ckpt_governor.files import Paths, read_bounded, words_of
from ckpt_governor.ledger import Write
from ckpt_governor.receipt import Compared, Receipt
from ckpt_governor.records import UNIX_TIME_MAX, RecordError, parse_object, shown
from ckpt_governor.say import time_of_day
from ckpt_governor.wording import printable, receipt_text

FOLLOW_EVERY_S = 0.5
RECEIPT_BYTES_MAX = 4 * 1024 * 1024


def add_log(commands: Commands) -> None:
    """``ckptctl log``."""
    parser = add_command(
        commands,
        "log",
        "Shows the past decisions, oldest first, each with its reason.",
        "ckptctl log /ckpt -n 20 --follow",
        "ckptctl log /ckpt --json --facts > decisions.jsonl",
    )
    add_unit(parser)
    add_json(parser)
    parser.add_argument("--follow", "-f", action="store_true", help="and those that come, until interrupted")
    parser.add_argument("-n", type=checked(_count), default=None, metavar="N", help="only the last N")
    parser.add_argument(
        "--facts", action="store_true", help="with --json: the inputs of each, as replay needs them"
    )


def add_receipt(commands: Commands) -> None:
    """``ckptctl receipt``."""
    parser = add_command(
        commands,
        "receipt",
        "Shows the account of the last run: what was written and why, what was refused, what a silent death costs.",
        "ckptctl receipt /ckpt",
    )
    add_unit(parser)
    add_json(parser)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a whole number such as 20")
    return int(text)


# ---- log -------------------------------------------------------------------------------------------------------


def log(given: argparse.Namespace) -> int:
    """Prints the decisions; lines that are none are counted on stderr."""
    tail = Tail(unit_of(given))
    entries, damaged = tail.read()
    shown_entries = entries if given.n is None else entries[len(entries) - min(given.n, len(entries)) :]
    _print(shown_entries, given)
    _complain_of(damaged)
    if not entries and not damaged and not given.follow:
        complain(f"nothing was decided here yet: there is no {tail.path}")
    while given.follow:
        try:
            time.sleep(FOLLOW_EVERY_S)
        except KeyboardInterrupt:
            break  # the way in which following ends
        entries, damaged = tail.read()
        _print(entries, given)
        _complain_of(damaged)
    return EXIT_DONE


def _print(entries: list[Entry], given: argparse.Namespace) -> None:
    colour = coloured()
    for entry in entries:
        if given.json:
            print_json(entry.record(facts=given.facts))
        else:
            print(entry.line(colour=colour), flush=True)


def _complain_of(damaged: list[RecordError]) -> None:
    if damaged:
        count = len(damaged)
        complain(
            f"{count} damaged {'line is' if count == 1 else 'lines are'} left out; the first: {damaged[0]}"
        )


@define
class Tail:
    """Reads decisions.jsonl from where it stopped; the file before the last rotation first."""

    paths: Paths
    inode: int | None = None
    offset: int = 0

    @property
    def path(self) -> str:
        """The file that grows."""
        return self.paths.of("decisions.jsonl")

    def read(self) -> tuple[list[Entry], list[RecordError]]:
        """The decisions that came since the last call, and the lines that are none."""
        entries: list[Entry] = []
        damaged: list[RecordError] = []
        first, former = self.inode is None, _inode(self.path + ".1")
        present = _inode(self.path)
        if former is not None and (first or (former == self.inode != present)):
            _extend(entries, damaged, self._rest(self.path + ".1", self.offset))
        if present is None:
            return entries, damaged
        if present != self.inode:
            self.inode, self.offset = present, 0
        text = self._rest(self.path, self.offset)
        if not first:
            text = text[: text.rfind(b"\n") + 1]  # a line that is just being written is read when it is whole
        self.offset += len(text)
        _extend(entries, damaged, text)
        return entries, damaged

    def _rest(self, path: str, offset: int) -> bytes:
        try:
            return read_bounded(path, LOG_BYTES_MAX)[offset:]
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise Failure(
                f"{path} cannot be read: {words_of(error)}; look at what lies there", EXIT_BAD
            ) from None


def _extend(entries: list[Entry], damaged: list[RecordError], text: bytes) -> None:
    more, wrong = parse_entries(text, "decisions.jsonl")
    entries += more
    damaged += wrong


def _inode(path: str) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


# ---- receipt ---------------------------------------------------------------------------------------------------


def receipt(given: argparse.Namespace) -> int:
    """Prints the last run's receipt."""
    paths = unit_of(given)
    try:
        record = parse_object(read_bounded(paths.of("receipt.json"), RECEIPT_BYTES_MAX), "receipt.json")
        account = parse_receipt(record)
    except FileNotFoundError:
        raise Failure(
            f"no run of a governor has ended in {paths.unit} yet; `ckptctl log` shows what was decided so far",
            EXIT_BAD,
        ) from None
    except RecordError as error:
        raise Failure(f"{paths.unit}: {error}; the next run's end replaces it", EXIT_BAD) from None
    except OSError as error:
        raise Failure(f"{paths.of('receipt.json')} cannot be read: {words_of(error)}", EXIT_BAD) from None
    if given.json:
        print_json(record)
    else:
        print(receipt_text(account, time_of_day))
    state = read_state(paths)
    if state is not None and state.lives(time.time()):
        complain("a run is going on; this is the receipt of the one before")
    return EXIT_DONE


def parse_receipt(record: dict[str, Any], file: str = "receipt.json") -> Receipt:
    """The receipt of this record. Raises RecordError naming the field."""
    fields = _Fields(record, file)
    compared = _Fields(fields.part("compared_with_no_us"), file, "compared_with_no_us.")
    refused = _Fields(fields.part("refused"), file, "refused.")
    window_s, usual = fields.number("silent_death_costs_s"), compared.number("writes")
    writes = record.get("writes")
    if not isinstance(writes, list):
        raise RecordError(file, "writes", f"{shown(writes)} is not a list")
    left = record.get("leftovers", [])
    if not isinstance(left, list):
        raise RecordError(file, "leftovers", f"{shown(left)} is not a list")
    return Receipt(
        run_s=fields.number("run_s") or 0.0,
        writes=tuple(_write(item, f"writes[{index}].", file) for index, item in enumerate(writes)),
        refused={printable(name): int(refused.number(name) or 0) for name in refused.record},
        asked=int(fields.number("asked") or 0),
        unheard=int(fields.number("unheard") or 0),
        unserved=int(fields.number("unserved") or 0),
        stalest_s=fields.number("stalest_s") or 0.0,
        with_us_s=window_s,
        silent_death_costs_s=window_s,
        end_sound=fields.flag("end_sound"),
        end_copy=fields.text("newest_sound"),
        leftovers=tuple(_leftover(item, f"leftovers[{index}].", file) for index, item in enumerate(left)),
        compared=Compared(
            writes=None if usual is None else int(usual),
            write_s=compared.number("write_s"),
            silent_death_costs_s=compared.number("silent_death_costs_s"),
        ),
    )


def _leftover(item: object, prefix: str, file: str) -> Leftover:
    if not isinstance(item, dict):
        raise RecordError(file, prefix.rstrip("."), f"{shown(item)} is not an object")
    fields = _Fields(item, file, prefix)
    return Leftover(name=fields.text("name"), bytes=int(fields.number("bytes") or 0))


def _write(item: object, prefix: str, file: str) -> Write:
    if not isinstance(item, dict):
        raise RecordError(file, prefix.rstrip("."), f"{shown(item)} is not an object")
    fields = _Fields(item, file, prefix)
    try:
        status = CopyStatus(fields.text("status"))
    except ValueError:
        raise RecordError(file, f"{prefix}status", f"{shown(item.get('status'))} is no status") from None
    return Write(
        at_s=fields.number("at") or 0.0,
        reason=printable(fields.text("reason")),
        write_s=fields.number("write_s"),
        name=fields.text("name"),
        status=status,
    )


@define
class _Fields:
    """The fields of one object, each of the type that is wanted or absent. All raise RecordError."""

    record: dict[str, Any]
    file: str
    prefix: str = ""

    def number(self, name: str) -> float | None:
        """A number of zero or more, below every date; None when absent."""
        value = self.record.get(name)
        if value is None:
            return None
        if type(value) not in (int, float) or not 0 <= value < UNIX_TIME_MAX:
            raise RecordError(
                self.file, self.prefix + name, f"{shown(value)} is not a number of zero or more"
            )
        return float(value)

    def text(self, name: str) -> str:
        """A text; empty when absent."""
        value = self.record.get(name)
        if value is not None and not isinstance(value, str):
            raise RecordError(self.file, self.prefix + name, f"{shown(value)} is not a text")
        return value or ""

    def flag(self, name: str) -> bool | None:
        """True, false, or None when absent."""
        value = self.record.get(name)
        if value is not None and not isinstance(value, bool):
            raise RecordError(self.file, self.prefix + name, f"{shown(value)} is neither true nor false")
        return value

    def part(self, name: str) -> dict[str, Any]:
        """An object; empty when absent."""
        value = self.record.get(name, {})
        if not isinstance(value, dict):
            raise RecordError(self.file, self.prefix + name, f"{shown(value)} is not an object")
        return value
