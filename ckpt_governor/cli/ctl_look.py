"""``ckptctl conditions`` and ``copies``: a look at a unit that leaves no trace in it."""

from __future__ import annotations

import argparse
from typing import Any

from ckpt_governor.cli.deep import DeepLook, look_deeply, names_asked_for
from ckpt_governor.cli.look import View, age_text, complain_of, look_at_unit
from ckpt_governor.cli.table import print_table
from ckpt_governor.cli.view import (
    EXIT_BAD,
    EXIT_BLIND,
    EXIT_DONE,
    EXIT_USAGE,
    VERSION,
    Commands,
    Failure,
    add_command,
    add_json,
    add_unit,
    complain,
    print_json,
    unit_of,
)
from ckpt_governor.copies import newest, newest_sound
from ckpt_governor.durations import format_bytes, format_duration
from ckpt_governor.facts import CopyStatus, Reading
from ckpt_governor.wording import printable

VALUE_WORDS = {True: "1", False: "0", None: "unknown"}


def add_conditions(commands: Commands) -> None:
    """``ckptctl conditions``."""
    parser = add_command(
        commands,
        "conditions",
        "Shows all 14 conditions: 1, 0 or unknown, why, where it was read and how long ago.",
        "ckptctl conditions /ckpt",
    )
    add_unit(parser)
    add_json(parser)


def add_copies(commands: Commands) -> None:
    """``ckptctl copies``."""
    parser = add_command(
        commands,
        "copies",
        "Shows every copy: sound, writing, broken or unknown, and why; leftovers of dead writes and links that name"
        " nothing. Needs no governor: a copy that none has followed is judged by its structure, and as broken when it"
        " is incomplete and was quiet for longer than a write may be. With --deep every byte that has a checksum is"
        " read, too. Exit 1 when the newest copy is broken.",
        "ckptctl copies /ckpt",
        "ckptctl copies /ckpt --json",
        "ckptctl copies /ckpt --deep",
        "ckptctl copies /ckpt step-1200.pt --deep",
    )
    add_unit(parser)
    parser.add_argument("names", metavar="NAME", nargs="*", help="with --deep: read only these copies")
    parser.add_argument(
        "--deep",
        action="store_true",
        help="check every checksum: those of the format, and of a manifest.json",
    )
    add_json(parser)


# ---- conditions ------------------------------------------------------------------------------------------------


def conditions(given: argparse.Namespace) -> int:
    """Shows all 14."""
    view = look_at_unit(unit_of(given))
    records = [_condition_record(reading, view) for reading in view.readings]
    if given.json:
        print_json({"v": VERSION, "conditions": records})
    else:
        rows = [
            (
                reading.condition.value,
                VALUE_WORDS[reading.value],
                format_duration(max(0.0, view.moment.now_s - reading.read_s)),
                reading.source,
                reading.why + _left(reading, view),
            )
            for reading in view.readings
        ]
        print_table(("condition", "value", "age", "source", "why"), rows)
    return _end(view)


def _condition_record(reading: Reading, view: View) -> dict[str, Any]:
    return {
        "name": reading.condition.value,
        "value": None if reading.value is None else int(reading.value),
        "why": reading.why or None,
        "source": reading.source if reading.source != "none" else None,
        "age_s": round(max(0.0, view.moment.now_s - reading.read_s), 3),
        "deadline": view.unix(reading.deadline_s),
    }


def _left(reading: Reading, view: View) -> str:
    if reading.deadline_s is None:
        return ""
    left_s = reading.deadline_s - view.moment.now_s
    return f", {format_duration(left_s)} left" if left_s > 0 else f", {format_duration(-left_s)} ago"


# ---- copies ----------------------------------------------------------------------------------------------------


def copies(given: argparse.Namespace) -> int:
    """Shows every copy; exit 1 when the newest is broken."""
    if given.names and not given.deep:
        raise Failure("names of copies are for --deep; without it all are shown", EXIT_USAGE)
    view, deep = look_at_unit(unit_of(given), links=True), None
    if given.deep and not view.world.blind:
        deep = look_deeply(view, names_asked_for(given.names, view))
        view = deep.told(view)
    if given.json:
        print_json(_copies_record(view, deep))
    else:
        _print_copies(view, deep)
    hidden = view.world.copy_count - len(view.ledger.copies)
    if hidden > 0:
        complain(f"only the newest {len(view.copies)} are shown; {hidden} older ones are there, too")
    if view.truncated:
        complain("there is more in this directory than could be looked at")
    code, top = _end(view), newest(view.copies)
    broken = top is not None and top.status is CopyStatus.BROKEN
    return EXIT_BAD if broken and code == EXIT_DONE else code


def _copies_record(view: View, deep: DeepLook | None) -> dict[str, Any]:
    top = newest_sound(view.copies)
    record = {
        "v": VERSION,
        "unit": view.paths.unit,
        "copies": [
            {
                "name": copy.name,
                "format": copy.format,
                "step": copy.step,
                "bytes": copy.bytes,
                "status": copy.status.value,
                "why": copy.why or None,
                "seen_at": view.unix(copy.first_seen_s),
                "captured_at": view.unix(copy.began_s),
                **({} if deep is None else {"deep": deep.record(copy.name)}),
            }
            for copy in view.copies
        ],
        "leftovers": [{"name": left.name, "bytes": left.bytes} for left in view.leftovers],
        "leftover_bytes": sum(left.bytes for left in view.leftovers),
        "dangling": [{"name": name, "to": to} for name, to in view.dangling],
        "newest_sound": None if top is None else top.name,
    }
    speed = None if deep is None or deep.bytes_per_s is None else round(deep.bytes_per_s)
    return record if deep is None else {**record, "bytes_per_s": speed}


def _print_copies(view: View, deep: DeepLook | None) -> None:
    rows = [
        (
            copy.name,
            copy.format,
            "-" if copy.step is None else str(copy.step),
            format_bytes(copy.bytes),
            age_text(copy, view),
            copy.status.value,
            *(() if deep is None else (deep.cell(copy.name),)),
            copy.why,
        )
        for copy in view.copies
    ]
    if rows:
        checked = () if deep is None else ("checked",)
        print_table(("copy", "format", "step", "size", "age", "status", *checked, "why"), rows)
    else:
        print("no copies")
    if rows and deep is not None:
        print(deep.sentence())
    for left in view.leftovers:
        print(f"leftover  {printable(left.name)}  {format_bytes(left.bytes)}")
    if len(view.leftovers) > 1:
        total = sum(left.bytes for left in view.leftovers)
        print(f"{len(view.leftovers)} leftovers of writes that died hold {format_bytes(total)}")
    for name, to in view.dangling:
        print(f"dangling  {printable(name)} -> {printable(to)}")


# ---- the end of a look -----------------------------------------------------------------------------------------


def _end(view: View) -> int:
    """Tells what could not be read; the exit code of a look at one unit."""
    complain_of([view])
    if view.world.blind:
        complain(f"{view.paths.unit} is blind: {view.world.blind}")
        return EXIT_BLIND
    return EXIT_DONE
