"""``ckptctl init``: prices the windows and writes the answer to numbers.json, so that it travels with the data."""

from __future__ import annotations

import argparse
import os
import sys

from attrs import frozen

from ckpt_governor.cli.look import read_ledger
from ckpt_governor.cli.probe import PROBE_BYTES, bytes_per_second
from ckpt_governor.cli.view import (
    EXIT_DONE,
    EXIT_USAGE,
    VERSION,
    Commands,
    Failure,
    add_command,
    add_unit,
    checked,
    complain,
    parse_seconds,
    unit_of,
)
from ckpt_governor.durations import (
    DURATION_S_MIN,
    format_bytes,
    format_duration,
    format_period,
    format_precise,
    parse_bytes,
    parse_duration,
)
from ckpt_governor.estimate import mean_time_between_deaths_s, median
from ckpt_governor.files import Paths, make_control, read_bounded, replace_file, words_of
from ckpt_governor.ledger import Ledger
from ckpt_governor.numbers import Numbers, parse_no_us, shown_window
from ckpt_governor.prices import Price, best_window_s, periodic_writes, price, price_table
from ckpt_governor.records import FILE_BYTES_MAX, RecordError, dump, parse_numbers
from ckpt_governor.wording import price_rows, printable

DEATHS_MIN = 3
"""So many observed deaths tell a mean time between them."""
ASKED_MAX = 3
WINDOW_WORDS = ("none", "middle", "periodic", "auto")


@frozen(kw_only=True)
class Costs:
    """What the table is computed from; None where nothing is known."""

    write_s: float | None
    write_source: str
    mtbf_s: float | None


@frozen(kw_only=True)
class Choice:
    """What was chosen: the name of the window, and ``with_us`` as it stands in the file; None for no window."""

    name: str
    with_us: str | None


def add_init(commands: Commands) -> None:
    """``ckptctl init``."""
    parser = add_command(
        commands,
        "init",
        "Prices the windows for a job of this length, asks which one is wanted (or takes --window), and writes it to"
        " .ckpt-governor/numbers.json. The window none writes no file.",
        "ckptctl init /ckpt --duration 4h",
        "ckptctl init /ckpt --duration 4h --window middle --no-us 30m",
        "ckptctl init /ckpt --duration 2d --write-time 40s --mtbf 8h --window auto",
    )
    add_unit(parser)
    parser.add_argument(
        "--duration", required=True, type=checked(parse_duration), metavar="DUR", help="the job's length"
    )
    parser.add_argument(
        "--window",
        type=checked(_window),
        metavar="|".join((*WINDOW_WORDS, "DUR")),
        help="how stale the newest sound copy may become",
    )
    parser.add_argument(
        "--every",
        type=checked(parse_duration),
        default=1800.0,
        metavar="DUR",
        help="the period of the window periodic (default 30m)",
    )
    parser.add_argument(
        "--no-us",
        type=checked(_no_us),
        metavar="none|DUR",
        help="what the job does while no governor is alive (default none)",
    )
    parser.add_argument("--write-time", type=checked(_write_time), metavar="DUR", help="what one write takes")
    parser.add_argument("--bytes", type=checked(parse_bytes), metavar="SIZE", help="the size of one copy")
    parser.add_argument(
        "--mtbf", type=checked(parse_duration), metavar="DUR", help="mean time between the job's deaths"
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help=f"measure the volume by writing {format_bytes(PROBE_BYTES)} to it; with --bytes that gives the write time",
    )


def _window(text: str) -> str:
    """A word of WINDOW_WORDS, or a duration in its typed form. Raises ValueError."""
    word = text.strip().lower()
    if word in WINDOW_WORDS:
        return word
    try:
        return format_period(parse_duration(word))
    except ValueError as error:
        raise ValueError(f"{error}, or one of {', '.join(WINDOW_WORDS)}") from None


def _no_us(text: str) -> str:
    period_s = parse_no_us(text)
    return "none" if period_s is None else format_period(period_s)


def _write_time(text: str) -> float:
    seconds = parse_seconds(text)
    if seconds <= 0:
        raise ValueError("a write takes more than no time")
    return seconds


# ---- the command -----------------------------------------------------------------------------------------------


def init(given: argparse.Namespace) -> int:
    """Prints the table, and writes what was chosen."""
    if given.duration < 2 * DURATION_S_MIN:
        raise Failure("--duration: a job of less than 2s has no middle", EXIT_USAGE)
    paths = unit_of(given)
    costs = _costs(given, paths)
    for line in _table(given, costs):
        print(line)
    for note in _notes(costs):
        print(f"  {note}")
    sys.stdout.flush()
    word = given.window
    if word is None and sys.stdin.isatty() and sys.stdout.isatty():
        word = _ask()
    if word is None:
        print(f"nothing was written; choose with --window {'|'.join(WINDOW_WORDS)} or a duration")
        return EXIT_DONE
    return _write(_choice(word, given), given, paths, costs)


def _costs(given: argparse.Namespace, paths: Paths) -> Costs:
    """The cost of a write and the time between deaths: as given, else as the ledger has learned them."""
    troubles: list[str] = []
    ledger = read_ledger(paths, troubles) or Ledger()
    for trouble in troubles:
        complain(trouble)
    write_s, source = given.write_time, "as given"
    if write_s is None and given.probe:
        write_s, source = _probed_s(given, ledger, paths)
    if write_s is None and ledger.write_samples_s:
        count = len(ledger.write_samples_s)
        write_s = median(ledger.write_samples_s)
        source = f"the median of {count} {'write' if count == 1 else 'writes'} seen"
    mtbf_s = given.mtbf
    if mtbf_s is None and ledger.deaths >= DEATHS_MIN:
        mtbf_s = mean_time_between_deaths_s(ledger, Numbers())
    return Costs(write_s=write_s, write_source=source, mtbf_s=mtbf_s)


def _probed_s(given: argparse.Namespace, ledger: Ledger, paths: Paths) -> tuple[float, str]:
    """What a write of one copy takes by the volume's measured throughput."""
    size = given.bytes or max(ledger.size_samples_bytes[-3:], default=None)
    if size is None:
        raise Failure("--probe: no copy was seen yet; give its size with --bytes", EXIT_USAGE)
    rate = bytes_per_second(paths.unit)
    return size / rate, f"{format_bytes(size)} at {format_bytes(rate)}/s, as the volume was measured just now"


def _table(given: argparse.Namespace, costs: Costs) -> list[str]:
    """The three windows; where deaths are known the cheapest is marked, and the window of ``auto`` stands beside."""
    horizon_s = given.duration
    rows = list(price_table(horizon_s, given.every, format_period(given.every), costs.write_s, costs.mtbf_s))
    if costs.mtbf_s is None or costs.write_s is None:
        return price_rows(rows)
    rows.append(_auto_row(horizon_s, costs.write_s, costs.mtbf_s))
    cheapest = min(rows, key=lambda row: row.expected_loss_s or 0.0)
    lines = price_rows(rows)
    width = max(map(len, lines))
    return [
        f"{line.ljust(width)}  cheapest" if row is cheapest else line
        for row, line in zip(rows, lines, strict=True)
    ]


def _auto_row(horizon_s: float, write_s: float, mtbf_s: float) -> Price:
    window_s = max(DURATION_S_MIN, float(round(best_window_s(write_s, mtbf_s))))
    return price(
        name="auto",
        what=f"every {format_duration(window_s)}",
        window_s=window_s,
        writes=periodic_writes(horizon_s, window_s),
        horizon_s=horizon_s,
        write_s=write_s,
        mtbf_s=mtbf_s,
    )


def _notes(costs: Costs) -> list[str]:
    if costs.write_s is None:
        return [
            "no write was seen yet: give its cost with --write-time 40s, or measure the volume with"
            " --bytes 14GB --probe"
        ]
    if costs.write_source == "as given":
        return []
    return [f"a write takes about {format_precise(costs.write_s)}: {costs.write_source}"]


def _ask() -> str | None:
    """Asks on the terminal; no answer is ``none``, and a wrong one is asked again."""
    for _ in range(ASKED_MAX):
        try:
            answer = input("window (none, middle, periodic, auto or a duration) [none]: ").strip()
        except EOFError:
            return None
        try:
            return _window(answer or "none")
        except ValueError as error:
            complain(str(error))
    return None


def _choice(word: str, given: argparse.Namespace) -> Choice:
    windows = {
        "none": None,
        "middle": format_period(given.duration / 2.0),
        "periodic": format_period(given.every),
        "auto": "auto",
    }
    return Choice(name=word, with_us=windows.get(word, word))


# ---- numbers.json ----------------------------------------------------------------------------------------------


def _write(choice: Choice, given: argparse.Namespace, paths: Paths, costs: Costs) -> int:
    path = paths.of("numbers.json")
    if choice.with_us is None and given.no_us in (None, "none"):
        if os.path.lexists(path):
            raise Failure(
                f"{path} is there, and none means that there is no such file: remove it with  rm {path}",
                EXIT_USAGE,
            )
        print("none: no file was written")
        return EXIT_DONE
    text = dump(_record(choice, given))
    numbers = parse_numbers(text)  # by the governor's own rules, before it is written
    former = _former(path)
    make_control(paths)
    replace_file(path, text + "\n", durable=True)
    print(f"{'replaced' if former else 'wrote'} {printable(path)}: {_told(numbers)}")
    if former:
        print(f"  before: {former}")
    if numbers.with_us_s is not None and costs.write_s is not None and numbers.with_us_s < costs.write_s:
        complain(
            f"a window of {format_period(numbers.with_us_s)} is shorter than a write of"
            f" {format_precise(costs.write_s)}: no governor can keep it"
        )
    return EXIT_DONE


def _record(choice: Choice, given: argparse.Namespace) -> dict[str, object]:
    record: dict[str, object] = {
        "v": VERSION,
        "no_us": given.no_us or "none",
        "with_us": choice.with_us or "none",
        "duration": format_period(given.duration),
        "chosen": choice.name,
    }
    if given.write_time is not None:
        # Below a second only a number says it: a duration as a text begins at one second.
        short = given.write_time < DURATION_S_MIN
        record["write_time"] = given.write_time if short else format_period(given.write_time)
    if given.bytes is not None:
        record["bytes"] = given.bytes
    if given.mtbf is not None:
        record["mtbf"] = format_period(given.mtbf)
    return record


def _former(path: str) -> str:
    """What a file that is there says, in a few words; empty when there is none."""
    try:
        return _told(parse_numbers(read_bounded(path, FILE_BYTES_MAX)))
    except FileNotFoundError:
        return ""
    except RecordError as error:
        return str(error)
    except OSError as error:
        return words_of(error)


def _told(numbers: Numbers) -> str:
    no_us = "none" if numbers.no_us_s is None else format_period(numbers.no_us_s)
    return f"no_us {no_us}, with_us {shown_window(numbers)}"
