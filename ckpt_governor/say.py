"""The mouth: lines on stdout, which is never waited for and whose loss stops nothing."""

from __future__ import annotations

import os
import select
import time
from typing import Any

from ckpt_governor.ledger import Decision
from ckpt_governor.records import VERSION, dump
from ckpt_governor.settings import LogForm
from ckpt_governor.wording import decision_line

WARNINGS_MAX = 256


def time_of_day(unix_s: float) -> str:
    """``14:41:03``, in the zone of this machine; dashes for what is no time."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(unix_s))
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


class Mouth:
    """Prints the lines of the process; a closed or stuck stdout is noticed and left alone."""

    def __init__(self, form: LogForm = LogForm.TEXT, handle: int = 1) -> None:
        self._form, self._handle = form, handle
        self._open, self._torn = True, False
        self.colour = form is LogForm.TEXT and _is_terminal(handle) and not os.environ.get("NO_COLOR")

    def line(self, text: str, **fields: Any) -> None:
        """A line that is no decision; as JSON it carries ``fields``."""
        self._put(text if self._form is LogForm.TEXT else dump({"v": VERSION, **fields}))

    def decision(self, decision: Decision, unit: str, at: float, *, unit_column: str = "") -> None:
        """One decision."""
        if self._form is LogForm.TEXT:
            self._put(decision_line(decision, time_of_day(at), unit_column, self.colour))
            return
        self._put(
            dump(
                {
                    "v": VERSION,
                    "at": round(at, 3),
                    "unit": unit,
                    "verdict": decision.verdict.value,
                    "reason": decision.reason,
                    "text": decision.text,
                    "request": decision.request_id,
                }
            )
        )

    def _put(self, text: str) -> None:
        if not self._open:
            return
        data = text.encode("utf-8", "backslashreplace") + b"\n"
        try:
            left = _write_now(self._handle, b"\n" + data if self._torn else data)
            self._torn = self._torn if left > len(data) else 0 < left < len(data)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._open = False


def _write_now(handle: int, data: bytes) -> int:
    """Writes what there is room for; returns how many bytes were dropped. A full pipe that nobody reads is not waited
    for. Raises OSError or ValueError."""
    # Not more at once than a pipe that shows room has room for: a longer write would wait for a reader.
    while data and select.select([], [handle], [], 0.0)[1]:
        data = data[os.write(handle, data[: select.PIPE_BUF]) :]
    return len(data)


def _is_terminal(handle: int) -> bool:
    try:
        return os.isatty(handle)
    except OSError:
        return False


_warned: set[str] = set()


def warn_once(text: str) -> None:
    """The same warning is not repeated at every look."""
    if text not in _warned and len(_warned) < WARNINGS_MAX:
        _warned.add(text)
        warn(text)


def warn(text: str) -> None:
    """Anything that is no line goes to stderr, which is not waited for either."""
    try:
        _write_now(2, f"ckpt-governor: {text}\n".encode("utf-8", "backslashreplace"))
    except (OSError, ValueError):
        return
