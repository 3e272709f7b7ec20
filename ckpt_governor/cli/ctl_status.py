"""``ckptctl status``: who decides for a unit, what is saved and what is not, what is asked for, what is at risk."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from ckpt_governor.answers import unsaved_s
from ckpt_governor.cli.alive import number_of
from ckpt_governor.cli.look import View, age_text, complain_of, look_at_unit
from ckpt_governor.cli.view import (
    EXIT_BLIND,
    EXIT_DONE,
    EXIT_USAGE,
    VERSION,
    Commands,
    Failure,
    add_command,
    add_json,
    add_unit,
    paths_named,
    print_json,
)
from ckpt_governor.copies import newest, newest_sound
from ckpt_governor.durations import format_duration, format_period
from ckpt_governor.facts import Reading
from ckpt_governor.numbers import shown_window
from ckpt_governor.wording import leftovers_text, printable

WATCH_EVERY_S = 2.0
CLEAR = "\x1b[H\x1b[J"


def add_status(commands: Commands) -> None:
    """``ckptctl status``."""
    parser = add_command(
        commands,
        "status",
        "Shows who decides for each unit, the newest sound copy and its age, the open request, the two numbers, and"
        " the conditions that are 1 or unknown. Exit 3 when a unit has no living governor or cannot be read.",
        "ckptctl status /ckpt",
        "ckptctl status /volume/* --json",
    )
    add_unit(parser, many=True)
    add_json(parser)
    parser.add_argument(
        "--watch", action="store_true", help=f"again every {WATCH_EVERY_S:g}s, until interrupted"
    )


def status(given: argparse.Namespace) -> int:
    """Shows the units; with ``--watch`` until interrupted."""
    if given.control_dir and len(given.dir) > 1:
        raise Failure("--control-dir belongs to one unit; name one DIR", EXIT_USAGE)
    every = [paths_named(name, given.control_dir) for name in given.dir or [None]]
    while True:
        views = [look_at_unit(paths) for paths in every]
        if given.watch and sys.stdout.isatty() and not given.json:
            print(CLEAR, end="")
        if given.json:
            print_json({"v": VERSION, "units": [_status_record(view) for view in views]})
        else:
            print("\n\n".join("\n".join(_status_lines(view)) for view in views), flush=True)
        if not given.watch:
            complain_of(views)
            return EXIT_DONE if all(view.alive and not view.world.blind for view in views) else EXIT_BLIND
        try:
            time.sleep(WATCH_EVERY_S)
        except KeyboardInterrupt:
            return EXIT_DONE  # the way in which watching ends


def _status_record(view: View) -> dict[str, Any]:
    top = newest_sound(view.copies)
    unsaved = _unsaved_s(view)
    no_us_s, with_us_s = _numbers_in_force(view)
    return {
        "unit": view.paths.unit,
        "owner": _owner(view) if view.alive else None,
        "blind": view.world.blind or None,
        "newest_sound": None if top is None else top.name,
        "unsaved_s": None if unsaved is None else round(unsaved, 3),
        "request": _request(view),
        "no_us_s": no_us_s,
        "with_us_s": with_us_s,
        "leftover_bytes": sum(left.bytes for left in view.world.leftovers),
    }


def _status_lines(view: View) -> list[str]:
    rows = [("governor", _governor_text(view))]
    if view.world.blind:
        rows.append(("blind", view.world.blind))
    else:
        unsaved = _unsaved_s(view)
        rows += [
            ("newest sound", _newest_text(view)),
            ("unsaved", "not known" if unsaved is None else format_duration(unsaved)),
            ("request", _request_text(view)),
            ("numbers", _numbers_text(view)),
            *([("leftovers", leftovers_text(view.world.leftovers))] if view.world.leftovers else []),
            *_condition_rows(view.readings),
        ]
    return [printable(view.paths.unit), *(f"  {name.ljust(12)}  {printable(text)}" for name, text in rows)]


def _owner(view: View) -> str:
    return "" if view.state is None else view.state.governor_id


def _governor_text(view: View) -> str:
    state = view.state
    if state is None:
        return "none has been here"
    ago = format_duration(state.age_s(view.moment.wall_s))
    if view.alive:
        return f"{state.governor_id}, alive, last beat {ago} ago"
    return f"none alive; {state.governor_id} {'gave its last beat' if state.alive else 'stopped'} {ago} ago"


def _newest_text(view: View) -> str:
    top, last = newest_sound(view.copies), newest(view.copies)
    sound = "none" if top is None else f"{top.name}, {age_text(top, view)} old"
    if last is not None and last is not top:
        sound += f"; the newest, {last.name}, is {last.status.value}"
    return sound


def _unsaved_s(view: View) -> float | None:
    """Age of the unsaved work; None where neither a copy nor a governor tells since when the job runs."""
    run = view.ledger.run
    if (
        run.ended_s is not None
        and run.end_sound
        and not any(copy.began_s > run.ended_s for copy in view.copies)
    ):
        return 0.0
    if not view.remembered and newest_sound(view.copies) is None:
        return None
    if view.remembered:
        return unsaved_s(view.world, view.ledger)
    top = newest_sound(view.copies)
    return None if top is None else max(0.0, view.moment.now_s - top.began_s)


def _request(view: View) -> dict[str, Any] | None:
    """The open request as state.json shows it; a dead governor's word asks for nothing."""
    request = view.state.record.get("request") if view.state is not None and view.alive else None
    number = request.get("id") if isinstance(request, dict) else None
    if not isinstance(request, dict) or type(number) is not int:
        return None
    return {
        "id": number,
        "kind": str(request.get("kind")),
        "reason": str(request.get("reason")),
        "at": number_of(request.get("at")),
        "deadline": number_of(request.get("deadline")),
    }


def _request_text(view: View) -> str:
    request = _request(view)
    if request is None:
        return "none"
    text = f"{request['kind']} {request['reason']}"
    for name, before, after in (("at", "asked", "ago"), ("deadline", "", "left")):
        moment = request[name]
        if moment is not None:
            text += f", {before} {format_duration(abs(moment - view.moment.wall_s))} {after}".replace(
                "  ", " "
            )
    return text


def _numbers_in_force(view: View) -> tuple[float | None, float | None]:
    """``no_us`` and ``with_us`` in seconds: as the living governor has them, flags included, else the file's."""
    if view.alive and view.state is not None:
        return number_of(view.state.record.get("no_us_s")), number_of(view.state.record.get("with_us_s"))
    return view.numbers.no_us_s, view.numbers.with_us_s


def _numbers_text(view: View) -> str:
    no_us_s, with_us_s = _numbers_in_force(view)
    no_us = "none" if no_us_s is None else format_period(no_us_s)
    with_us = "none" if with_us_s is None else format_period(round(with_us_s))
    if view.numbers.auto and not view.alive:
        with_us = shown_window(view.numbers)
    return f"no_us {no_us}, with_us {with_us}"


def _condition_rows(readings: tuple[Reading, ...]) -> list[tuple[str, str]]:
    """One row for each condition that is 1, and one for all that are unknown."""
    rows = [(reading.condition.value, reading.why) for reading in readings if reading.value]
    unknown = [reading.condition.value for reading in readings if reading.value is None]
    return [*rows, ("unknown", ", ".join(unknown))] if unknown else rows
