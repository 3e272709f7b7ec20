"""``ckpt-governor``: the process that decides when a checkpoint is written."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence

from ckpt_governor import __version__
from ckpt_governor.durations import parse_bytes, parse_duration
from ckpt_governor.files import paths_of, words_of
from ckpt_governor.loop import EXIT_BLIND, Loop
from ckpt_governor.numbers import parse_no_us, parse_with_us
from ckpt_governor.observe.clock import Clock
from ckpt_governor.observe.host import host_name
from ckpt_governor.records import RecordError
from ckpt_governor.say import Mouth, warn
from ckpt_governor.settings import BEAT_EVERY_S, POLL_S, LogForm, Settings, Shape
from ckpt_governor.signals import Signals
from ckpt_governor.unit import Unit
from ckpt_governor.wrap import Wrapped

EXIT_USAGE = 2
ENVIRONMENT_PREFIX = "CKPT_GOVERNOR_"
ONCE_BEAT_EVERY_S = 60.0
POLL_S_MIN, POLL_S_MAX = 0.05, 3600.0
EXAMPLE = """example:
  ckpt-governor run --dir /ckpt
  ckpt-governor run --dir /ckpt --with-us 30m -- python train.py
"""


def _checked(parse: Callable[[str], object]) -> Callable[[str], str]:
    """An argument type that keeps the text and refuses what cannot be parsed, with the parser's own words."""

    def check(text: str) -> str:
        try:
            parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    return check


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _poll(text: str) -> float:
    try:
        seconds = (
            float(text.removesuffix("s"))
            if text.removesuffix("s").replace(".", "", 1).isdigit()
            else parse_duration(text)
        )
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not POLL_S_MIN <= seconds <= POLL_S_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range: between {POLL_S_MIN}s and 1h is wanted")
    return seconds


def _size(text: str) -> int:
    try:
        return 0 if text.strip() == "0" else parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def make_parser() -> argparse.ArgumentParser:
    """The command line of the process."""
    parser = argparse.ArgumentParser(
        prog="ckpt-governor",
        description="Watches a training job's checkpoint directory and decides when a checkpoint is written.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ckpt-governor {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="run")
    run = commands.add_parser(
        "run",
        help="watch one checkpoint directory",
        description="Watches one checkpoint directory; with a command behind -- it starts and wraps the job.",
        epilog=EXAMPLE
        + "\nEach option can also be set as an environment variable: --with-us as CKPT_GOVERNOR_WITH_US.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("--dir", help="the checkpoint directory (default: $CKPT_DIR)")
    run.add_argument(
        "--no-us", type=_checked(parse_no_us), help="what the job does without this process: none or a period"
    )
    run.add_argument(
        "--with-us",
        type=_checked(parse_with_us),
        help="how stale the newest copy may become: none, auto or a duration",
    )
    run.add_argument(
        "--duration", type=_checked(parse_duration), help="the job's allotted time, from its start"
    )
    run.add_argument("--grace", type=_duration, help="time between SIGTERM and the end (default 30s)")
    run.add_argument(
        "--reserve",
        type=_size,
        help="free space that is never used (default 1%% of the volume, at most 1GiB)",
    )
    run.add_argument(
        "--settle",
        type=_duration,
        help="quiet time after which an incomplete copy is broken (default: learned)",
    )
    run.add_argument(
        "--control-dir", help="where .ckpt-governor/ lives, when not in the checkpoint directory"
    )
    run.add_argument("--poll", type=_poll, default=None, help=f"time between two looks (default {POLL_S:g}s)")
    run.add_argument(
        "--log",
        choices=[form.value for form in LogForm],
        default=LogForm.TEXT.value,
        help="form of the lines",
    )
    run.add_argument(
        "--shape",
        choices=[shape.value for shape in Shape],
        default=Shape.PLAIN.value,
        help="what SIGTERM means: plain, the notice; native, the job is gone already",
    )
    run.add_argument("--once", action="store_true", help="decide once and exit, for cron")
    run.add_argument("--stay", action="store_true", help="go on after training's end")
    _defaults_from_environment(run)
    return parser


def _defaults_from_environment(parser: argparse.ArgumentParser) -> None:
    """Each option's environment variable becomes its default; argparse checks it like a flag."""
    for action in parser._actions:
        option = next((name for name in action.option_strings if name.startswith("--")), None)
        if option is None or option == "--help":
            continue
        name = ENVIRONMENT_PREFIX + option[2:].upper().replace("-", "_")
        value = os.environ.get(name)
        if value is None or value == "":
            continue
        if isinstance(action, argparse._StoreTrueAction):
            action.default = value.lower() not in ("0", "false", "no")
        elif action.choices is not None and value not in action.choices:
            parser.error(f"{name}: {value!r} is none of {', '.join(map(str, action.choices))}")
        else:
            action.default = value


def _settings(given: argparse.Namespace) -> Settings:
    directory = given.dir or os.environ.get("CKPT_DIR")
    if not directory:
        raise ValueError("--dir: the checkpoint directory is missing; give --dir DIR or set CKPT_DIR")
    poll_s = POLL_S if given.poll is None else given.poll
    return Settings(
        unit=os.path.abspath(directory),
        control_dir=os.path.abspath(given.control_dir) if given.control_dir else None,
        no_us=given.no_us,
        with_us=given.with_us,
        duration=given.duration,
        grace_s=given.grace,
        reserve_bytes=given.reserve,
        settle_s=given.settle,
        poll_s=poll_s,
        log=LogForm(given.log),
        shape=Shape(given.shape),
        once=given.once,
        stay=given.stay,
        beat_every_s=_beat_every_s(given.once, given.poll),
    )


def _beat_every_s(once: bool, poll_s: float | None) -> float:
    """A governor that is started again and again beats as often as it is started."""
    if once:
        return ONCE_BEAT_EVERY_S if poll_s is None else poll_s
    return max(BEAT_EVERY_S, poll_s or 0.0)


def run(settings: Settings, command: list[str]) -> int:
    """Runs the process until its end; returns the exit code."""
    if not os.path.isdir(settings.unit):
        warn(f"--dir: {settings.unit} is not a directory; make it first or name the right one")
        return EXIT_BLIND
    clock = Clock()
    governor_id = f"{host_name()}-{os.getpid()}-{int(clock.moment().wall_s)}"
    unit = Unit(paths_of(settings.unit, settings.control_dir), settings, governor_id)
    wrapped = Wrapped(command, settings.unit) if command else None
    signals = Signals()
    signals.install()
    try:
        loop = Loop(unit, settings, clock, signals, Mouth(settings.log), wrapped)
        return loop.once() if settings.once else loop.run()
    finally:
        signals.restore()


def _fill_closed_handles() -> None:
    """A closed stdin, stdout or stderr becomes nothing: else the next opened file gets its number, and the lines."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)


def _unknown(words: list[str]) -> str:
    """What is wrong with words that are no option; a command without its -- is the likely mistake."""
    if words[0].startswith("-"):
        return f"unrecognized arguments: {' '.join(words)}"
    return f"a command stands behind --: ckpt-governor run --dir DIR -- {shlex.join(words)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. Exit codes: 0 done, 1 unexpected, 2 wrong usage or settings, 3 blind, else the command's own."""
    _fill_closed_handles()
    given_all = list(sys.argv[1:] if arguments is None else arguments)
    command: list[str] = []
    if "--" in given_all:
        cut = given_all.index("--")
        given_all, command = given_all[:cut], given_all[cut + 1 :]
        if not command:
            warn("a command is wanted behind --, such as: ckpt-governor run --dir DIR -- python train.py")
            return EXIT_USAGE
    parser = make_parser()
    given, stray = parser.parse_known_args(given_all)
    if stray:
        parser.error(_unknown(stray))
    if given.command is None:
        parser.print_usage(sys.stderr)
        warn("say what to do: ckpt-governor run --dir DIR")
        return EXIT_USAGE
    try:
        return run(_settings(given), command)
    except RecordError as error:
        warn(str(error))
        return EXIT_USAGE
    except ValueError as error:
        warn(str(error))
        return EXIT_USAGE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        warn(f"{where}{words_of(error)}")
        return EXIT_BLIND


if __name__ == "__main__":
    sys.exit(main())
