"""``ckptctl notice``, ``save`` and ``end``: drop glue, and wait for the governor's answer where somebody must wait."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import time
from typing import Any

from ckpt_governor.cli.alive import read_state
from ckpt_governor.cli.view import (
    EXIT_BAD,
    EXIT_BLIND,
    EXIT_DONE,
    EXIT_USAGE,
    Commands,
    Failure,
    add_command,
    add_unit,
    checked,
    complain,
    parse_seconds,
    unit_of,
)
from ckpt_governor.cli.waiting import LATE_S, Answer, Waiting, ack, wait_for
from ckpt_governor.conditions import Condition, condition_named
from ckpt_governor.durations import format_precise
from ckpt_governor.files import Paths, make_control, read_bounded, replace_file
from ckpt_governor.observe.host import host_name
from ckpt_governor.records import RecordError, parse_glue

STAYS_TRUE = (Condition.TERMINATE, Condition.PREEMPT, Condition.MAINTENANCE, Condition.WALLTIME)
"""An announcement of these is as true after its write as before; the others are over when they are answered."""


def add_notice(commands: Commands) -> None:
    """``ckptctl notice``."""
    parser = add_command(
        commands,
        "notice",
        "Announces a condition to the governor by a file in .ckpt-governor/glue/. With --wait it returns when a"
        " write has served it (exit 0), when none came or fits before the deadline (1), or when no governor is"
        " alive (3): what a preStop hook calls. After the answer --wait takes its file back, unless the"
        " announcement stays true (terminate, preempt, maintenance, walltime).",
        "ckptctl notice risk.terminate /ckpt --in 30s --wait",
        "ckptctl notice risk.maintenance /ckpt --deadline 2026-01-01T00:00:00Z --id event-7",
        "ckptctl notice risk.maintenance /ckpt --id event-7 --cancel",
    )
    parser.add_argument(
        "condition", metavar="CONDITION", type=checked(_condition), help=f"one of {_words(Condition)}"
    )
    add_unit(parser)
    dated = parser.add_mutually_exclusive_group()
    dated.add_argument(
        "--in", dest="in_s", metavar="DUR", type=checked(parse_seconds), help="time until then"
    )
    dated.add_argument("--deadline", metavar="T", help="Unix seconds, or a date such as 2026-01-01T00:00:00Z")
    parser.add_argument(
        "--id", default="", help="the announcement's own identity: the same id is the same notice"
    )
    parser.add_argument("--text", default="", help="the sentence of its line")
    parser.add_argument("--source", default="ckptctl", help="who says so (default: ckptctl)")
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--wait", action="store_true", help="return when it is answered")
    doing.add_argument(
        "--cancel", action="store_true", help="withdraw what ckptctl announced before (with --id: that one)"
    )


def add_save(commands: Commands) -> None:
    """``ckptctl save``."""
    parser = add_command(
        commands, "save", "Asks for one write now: notice risk.request.", "ckptctl save /ckpt --wait"
    )
    add_unit(parser)
    parser.add_argument("--wait", action="store_true", help="return when the copy is there and judged")


def add_end(commands: Commands) -> None:
    """``ckptctl end``."""
    parser = add_command(
        commands,
        "end",
        "Marks the end of training: call it before the last copy is written. The governor judges that copy.",
        "ckptctl end /ckpt",
    )
    add_unit(parser)


def _condition(word: str) -> Condition:
    """The condition of this name, the ``risk.`` left out or not. Raises ValueError."""
    found = condition_named(word) or condition_named(f"risk.{word}")
    if found is None:
        raise ValueError(f"{word!r} is no condition; one of {_words(Condition)} is wanted")
    return found


def _words(conditions: Any) -> str:
    return ", ".join(condition.value for condition in conditions)


# ---- the commands ----------------------------------------------------------------------------------------------


def notice(given: argparse.Namespace) -> int:
    """Drops the announcement, or withdraws it; waits for its answer when that is asked for."""
    if given.cancel:
        return _cancel(given.condition, given.id, unit_of(given))
    record: dict[str, Any] = {"v": 1, "source": given.source}
    for name, value in (("id", given.id), ("text", given.text), ("in", given.in_s)):
        if value not in ("", None):
            record[name] = value
    if given.deadline is not None:
        record["deadline"] = _number_or_text(given.deadline)
    return _tell(given.condition, record, unit_of(given), wait=given.wait)


def save(given: argparse.Namespace) -> int:
    """Asks for one write, as ``notice risk.request``."""
    return _tell(Condition.REQUEST, {"v": 1, "source": "ckptctl"}, unit_of(given), wait=given.wait)


def end(given: argparse.Namespace) -> int:
    """Leaves a new mark: a file of its own, so that inode and time differ from those of a mark before it."""
    paths = unit_of(given)
    _need_control(paths)
    replace_file(os.path.join(paths.glue, "ending"), "")
    print("marked  train.end")
    _warn_when_nobody_listens(paths)
    return EXIT_DONE


def _number_or_text(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _tell(condition: Condition, record: dict[str, Any], paths: Paths, *, wait: bool) -> int:
    began_s = time.monotonic()
    name = f"{condition.value}.ctl-{host_name()}-{os.getpid()}-{int(time.time() * 1000)}.json"
    text = json.dumps(record)
    try:
        told = parse_glue(text, "notice")  # by the governor's own rules: what it would refuse is refused here
    except RecordError as error:
        raise Failure(f"--{error.field}: {error.wrong}", EXIT_USAGE) from None
    _need_control(paths)
    _tidy(condition, paths)
    dropped_at = replace_file(os.path.join(paths.glue, name), text)
    if not wait:
        print(f"dropped  {condition.value}  {os.path.join(paths.glue, name)}", flush=True)
        _warn_when_nobody_listens(paths)
        return EXIT_DONE
    lead_s = told.in_s
    if told.deadline_at is not None:
        lead_s = max(0.0, told.deadline_at - time.time())
    waiting = Waiting(
        paths=paths,
        name=name,
        dropped_at=dropped_at,
        began_s=began_s,
        late_s=None if lead_s is None else began_s + lead_s + LATE_S,
    )
    try:
        answer = wait_for(waiting)
    except KeyboardInterrupt:
        complain(
            f"nobody waits any more, but the announcement stays: ckptctl notice {condition.value} --cancel"
        )
        raise
    return _finish(condition, waiting, answer)


def _finish(condition: Condition, waiting: Waiting, answer: Answer) -> int:
    """Takes the file back where it is no longer true, and says how it went."""
    if condition not in STAYS_TRUE:
        _remove(os.path.join(waiting.paths.glue, waiting.name))
    if answer.gone:
        raise Failure(
            f"no governor is alive for {waiting.paths.unit}: {answer.gone}; the job writes by no_us alone."
            f" Start one: ckpt-governor run --dir {waiting.paths.unit}",
            EXIT_BLIND,
        )
    took = format_precise(time.monotonic() - waiting.began_s)
    print(f"{answer.word}  {condition.value}  after {took}: {answer.text}", flush=True)
    return EXIT_DONE if answer.word == "served" else EXIT_BAD


def _need_control(paths: Paths) -> None:
    """Without a control directory nobody ever listened here; it is not made, for DIR may be the wrong one."""
    if not os.path.isdir(paths.control):
        raise Failure(
            f"no governor is alive for {paths.unit}: there is no {os.path.basename(paths.control)} in it."
            f" Start one: ckpt-governor run --dir {paths.unit}",
            EXIT_BLIND,
        )
    make_control(paths)


def _warn_when_nobody_listens(paths: Paths) -> None:
    state = read_state(paths)
    if state is None or not state.lives(time.time()):
        complain(
            f"no governor seems to be alive for {paths.unit}; one that starts reads the file:"
            f" ckpt-governor run --dir {paths.unit}"
        )


# ---- files of our own ------------------------------------------------------------------------------------------


def _own(paths: Paths, host: str) -> list[tuple[str, Condition, int]]:
    """The drop-in files that ckptctl wrote, on this host or (``host`` a pattern) any: name, condition, its process."""
    shape = re.compile(rf"(?P<condition>risk\.[a-z]+)\.ctl-{host}-(?P<pid>\d+)-\d+\.json")
    found = []
    for name in os.listdir(paths.glue):
        match = shape.fullmatch(name)
        condition = condition_named(match["condition"]) if match else None
        if match and condition is not None:
            found.append((name, condition, int(match["pid"])))
    return found


def _tidy(condition: Condition, paths: Paths) -> None:
    """Removes what this host's ckptctl left behind and the governor has answered.

    One whose process may still be reading its answer stays, and so does another condition's that is still true.
    """
    for name, other, pid in _own(paths, re.escape(host_name())):
        over = other is condition or other not in STAYS_TRUE
        if over and ack(paths, name) and not _runs(pid):
            _remove(os.path.join(paths.glue, name))


def _cancel(condition: Condition, identity: str, paths: Paths) -> int:
    """Withdraws what ckptctl announced of this condition by removing its files; others' files are not touched."""
    _need_control(paths)
    gone = 0
    for name, other, _ in _own(paths, ".+"):
        path = os.path.join(paths.glue, name)
        if other is condition and (not identity or _identity(path) == identity):
            _remove(path)
            gone += 1
    which = f"{condition.value} {identity}".strip()
    if not gone:
        raise Failure(
            f"ckptctl has announced no {which} here; a file of somebody else is withdrawn by removing it from"
            f" {paths.glue}",
            EXIT_BAD,
        )
    print(f"withdrawn  {condition.value}  {gone} {'announcement' if gone == 1 else 'announcements'}")
    return EXIT_DONE


def _identity(path: str) -> str:
    try:
        return parse_glue(read_bounded(path, 64 * 1024), path).id
    except (OSError, RecordError):
        return ""


def _runs(pid: int) -> bool:
    """Whether a process of this number is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # somebody else's, or it cannot be told
    return True


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):  # gone already
        os.unlink(path)
