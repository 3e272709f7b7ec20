"""``ckptctl``: the person's tool. It reads the files of a unit and drops glue; the governor alone decides.

The commands lie in modules of their own, and only the one that is called is imported: a preStop hook that calls
``ckptctl notice`` waits for nothing that it does not need.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from ckpt_governor import __version__
from ckpt_governor.cli.view import EXIT_BLIND, EXIT_USAGE, Failure, complain

EXIT_INTERRUPTED, EXIT_PIPE_CLOSED = 130, 141
"""As shells count them: 128 and the number of the signal."""

COMMANDS = {
    "init": ("ctl_init", "price the windows and write the two numbers"),
    "status": ("ctl_status", "who decides, the newest sound copy, what is asked for, what is at risk"),
    "conditions": ("ctl_look", "all 14 conditions: value, reason, source, age"),
    "copies": ("ctl_look", "every copy and whether it is sound; exit 1 when the newest is broken"),
    "notice": ("ctl_tell", "announce a risk; with --wait until it is served, as a preStop hook does"),
    "save": ("ctl_tell", "ask for one write now"),
    "end": ("ctl_tell", "mark the end of training"),
    "log": ("ctl_past", "the past decisions"),
    "receipt": ("ctl_past", "the account of the last run"),
    "replay": ("ctl_replay", "run recorded inputs through the same decision function"),
    "demo": ("ctl_demo", "a real small training job, a governor, and a staged preemption"),
}
"""Word: its module, which holds ``add_<word>(commands)`` and ``<word>(arguments)``, and what it does."""


def make_parser() -> tuple[argparse.ArgumentParser, Any]:
    """The command line without the commands' own options, and the place where commands are added."""
    parser = argparse.ArgumentParser(
        prog="ckptctl",
        description="Looks at a checkpoint directory that a governor watches, and tells the governor what is coming.",
        epilog="example:\n  ckptctl init --duration 4h /ckpt\n  ckptctl status /ckpt\n\n"
        "ckptctl COMMAND --help tells more. exit codes: 0 done, 1 the answer is bad, 2 wrong usage,\n"
        "3 no governor is alive or the unit cannot be read",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ckptctl {__version__}")
    return parser, parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")


def _call(arguments: list[str]) -> int:
    """Runs the command that is named first; without one, says what there is."""
    parser, commands = make_parser()
    word = arguments[0] if arguments else ""
    if word not in COMMANDS:
        return _no_command(parser, commands, arguments)
    module = importlib.import_module(f"ckpt_governor.cli.{COMMANDS[word][0]}")
    getattr(module, f"add_{word}")(commands)
    # Intermixed: older argparse takes DIR for left out when an option stands between it and what comes before.
    given = commands.choices[word].parse_intermixed_args(arguments[1:])
    code: int = getattr(module, word)(given)
    return code


def _no_command(parser: argparse.ArgumentParser, commands: Any, arguments: list[str]) -> int:
    for word, (_, summary) in COMMANDS.items():
        commands.add_parser(word, help=summary)
    parser.parse_args(arguments)  # --help, --version and what is wrong end here
    parser.print_help(sys.stderr)
    return EXIT_USAGE


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. Exit codes: 0 done, 1 the answer is bad, 2 wrong usage, 3 no governor alive or unit blind."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that has no such character
    try:
        code = _call(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except Failure as failure:
        complain(str(failure))
        return failure.code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # What reads us, such as `head`, has enough; a new stdout keeps the interpreter from saying so at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_PIPE_CLOSED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror or error}")
        return EXIT_BLIND


if __name__ == "__main__":
    sys.exit(main())
