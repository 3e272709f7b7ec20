"""``ckptctl replay``: recorded inputs through the same decision function, and whether it decides the same."""

from __future__ import annotations

import argparse
import os
from typing import Any

from attrs import frozen

from ckpt_governor.cli.entries import LOG_BYTES_MAX, Entry, parse_entries
from ckpt_governor.cli.view import (
    EXIT_BAD,
    EXIT_DONE,
    EXIT_USAGE,
    VERSION,
    Commands,
    Failure,
    add_command,
    add_json,
    complain,
    print_json,
)
from ckpt_governor.decide import decide
from ckpt_governor.files import read_bounded, words_of
from ckpt_governor.ledger import Decision
from ckpt_governor.memory import parse_facts
from ckpt_governor.records import RecordError
from ckpt_governor.wording import printable


def add_replay(commands: Commands) -> None:
    """``ckptctl replay``."""
    parser = add_command(
        commands,
        "replay",
        "Runs recorded inputs, lines of decisions.jsonl, through the decision function of this version, prints what it"
        " decides and why, and marks each line whether that is what was recorded. Exit 1 when one differs.",
        "ckptctl replay /ckpt/.ckpt-governor/decisions.jsonl",
    )
    parser.add_argument(
        "file", metavar="FILE", help="lines of decisions.jsonl, or of `ckptctl log --json --facts`"
    )
    add_json(parser)


@frozen(kw_only=True)
class Replayed:
    """One recorded decision beside what is decided from its inputs."""

    entry: Entry
    decided: tuple[Decision, ...]
    """All decisions of that moment; the recorded one is one of them when nothing has changed."""

    @property
    def same(self) -> bool:
        """Whether the recorded decision is among them."""
        return _words(self.entry.decision) in [_words(decision) for decision in self.decided]


def _words(decision: Decision) -> tuple[str, str, str]:
    return (decision.verdict.value, decision.reason, decision.text)


def replay(given: argparse.Namespace) -> int:
    """Replays a file; exit 1 when a decision differs, or none could be replayed."""
    path = os.path.abspath(given.file)
    try:
        entries, damaged = parse_entries(read_bounded(path, LOG_BYTES_MAX), os.path.basename(path))
    except OSError as error:
        raise Failure(
            f"{path} cannot be read: {words_of(error)}; name a decisions.jsonl, as in .ckpt-governor/",
            EXIT_USAGE,
        ) from None
    results: list[Replayed] = []
    for entry in entries:
        try:
            results.append(_replayed(entry))
        except RecordError as error:
            damaged.append(error)
    if damaged:
        complain(
            f"{len(damaged)} of {len(damaged) + len(results)} lines cannot be replayed; one: {damaged[0]}"
        )
    if not results:
        raise Failure(f"{path} holds no recorded inputs; `ckptctl log --json --facts` gives some", EXIT_BAD)
    if given.json:
        print_json(_record(results, len(damaged)))
    else:
        _print(results)
    return EXIT_DONE if all(result.same for result in results) else EXIT_BAD


def _replayed(entry: Entry) -> Replayed:
    """Decides again. Raises RecordError when the inputs are not there, or not such inputs."""
    world, numbers, ledger = parse_facts(entry.facts, f"the line of {entry.at:.3f}")
    try:
        outcome = decide(world, numbers, ledger)
    except (ArithmeticError, ValueError, LookupError, AssertionError) as error:
        # The right types can still hold what no governor records, such as a date beyond the calendar.
        raise RecordError(
            f"the line of {entry.at:.3f}", "facts", f"no such inputs can be ({error})"
        ) from None
    return Replayed(entry=entry, decided=outcome.decisions)


def _print(results: list[Replayed]) -> None:
    for result in results:
        print(f"{'same' if result.same else 'differs':<7}  {result.entry.line()}")
        if not result.same:
            for decision in result.decided:
                print(f"{'':<7}  now: {'  '.join(map(printable, _words(decision)))}")
            if not result.decided:
                print(f"{'':<7}  now: nothing")
    differ = sum(not result.same for result in results)
    decisions = "1 decision" if len(results) == 1 else f"{len(results)} decisions"
    print(f"{decisions} replayed · {differ} {'differs' if differ == 1 else 'differ'}")


def _record(results: list[Replayed], damaged: int) -> dict[str, Any]:
    return {
        "v": VERSION,
        "decisions": [
            {
                "at": result.entry.at,
                "same": result.same,
                "recorded": _decision_record(result.entry.decision),
                "decided": [_decision_record(decision) for decision in result.decided],
            }
            for result in results
        ],
        "same": sum(result.same for result in results),
        "differ": sum(not result.same for result in results),
        "damaged": damaged,
    }


def _decision_record(decision: Decision) -> dict[str, Any]:
    return {
        "verdict": decision.verdict.value,
        "reason": decision.reason,
        "text": decision.text,
        "request": decision.request_id,
    }
