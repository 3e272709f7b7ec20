"""What the commands of ``ckptctl`` share: the unit they mean, how a failure is told, JSON, options.

``ckptctl notice`` is what a preStop hook calls while its time runs: only what is cheap is imported here.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from ckpt_governor.durations import parse_duration
from ckpt_governor.files import Paths, paths_of

EXIT_DONE, EXIT_BAD, EXIT_USAGE, EXIT_BLIND = 0, 1, 2, 3
"""Done; the answer is bad; wrong usage; no governor is alive, or the unit cannot be read."""
VERSION = 1
COMPLAINT_LENGTH_MAX = 2000

Commands = Any
"""What ``add_subparsers`` returns; argparse has no public name for it."""
Parsed = TypeVar("Parsed")


class Failure(Exception):
    """Something that ends a command: a sentence that says what to do next, and the exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def add_command(commands: Commands, word: str, description: str, *examples: str) -> argparse.ArgumentParser:
    """A command's own parser, with its examples below the options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        word,
        description=textwrap.fill(description, 80),
        epilog="example:\n" + "\n".join(f"  {example}" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # an abbreviation that works today would be broken by tomorrow's option
    )
    return parser


def add_unit(parser: argparse.ArgumentParser, *, many: bool = False) -> None:
    """The unit: DIR, or several, and where its control directory lies."""
    parser.add_argument(
        "dir",
        metavar="DIR",
        nargs="*" if many else "?",
        help="the checkpoint directory (default: $CKPT_DIR, then the current directory)",
    )
    parser.add_argument(
        "--control-dir",
        default=os.environ.get("CKPT_GOVERNOR_CONTROL_DIR") or None,
        help="where .ckpt-governor/ lives, when not in the checkpoint directory",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def checked(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """An argument type whose refusal is the parser's own sentence."""

    def check(text: str) -> Parsed:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return check


def parse_seconds(text: str) -> float:
    """A duration; also less than a second, as in ``0.2`` or ``0.2s``. Raises ValueError."""
    try:
        return parse_duration(text)
    except ValueError:
        number = text.strip().lower().removesuffix("s")
        if number.replace(".", "", 1).isdecimal() and 0 <= float(number) < 1:
            return float(number)
        raise


def unit_of(given: argparse.Namespace) -> Paths:
    """The paths of the one unit that is meant. Raises Failure where there is no such directory."""
    paths = paths_named(given.dir, given.control_dir)
    if not os.path.isdir(paths.unit):
        raise Failure(
            f"{paths.unit} is not a directory; name the checkpoint directory or set CKPT_DIR", EXIT_USAGE
        )
    return paths


def paths_named(directory: str | None, control_dir: str | None) -> Paths:
    """The paths of a unit by the rule for DIR: what is named, else ``$CKPT_DIR``, else the current directory."""
    unit = os.path.abspath(directory or os.environ.get("CKPT_DIR") or os.curdir)
    return paths_of(unit, os.path.abspath(control_dir) if control_dir else None)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on one line. What others wrote may hold an infinity, as 1e999: that is no JSON, so null."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    print(text, flush=True)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def complain(text: str) -> None:
    """What is no answer goes to stderr, as one line without control characters."""
    from ckpt_governor.wording import printable  # imported late: a hook that is served needs none of it

    print(f"ckptctl: {printable(text, COMPLAINT_LENGTH_MAX)}", file=sys.stderr, flush=True)
