"""The mouth: lines on stdout, which is never waited for and whose loss stops nothing."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import Any

from ckpt_governor.ledger import Decision
from ckpt_governor.records import VERSION, dump
from ckpt_governor.settings import LogForm
from ckpt_governor.wording import decision_line


def time_of_day(unix_s: float) -> str:
    """``14:41:03``, in the zone of this machine."""
    return time.strftime("%H:%M:%S", time.localtime(unix_s))


class Mouth:
    """Prints the lines of the process; a closed or stuck stdout is noticed and left alone."""

    def __init__(self, form: LogForm = LogForm.TEXT, handle: int = 1) -> None:
        self._form, self._handle = form, handle
        self._open = True
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
            # A full pipe that nobody reads must not stop the governor: what cannot be written now is dropped.
            _, writable, _ = select.select([], [self._handle], [], 0.0)
            while data and writable:
                data = data[os.write(self._handle, data) :]
                _, writable, _ = select.select([], [self._handle], [], 0.0)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._open = False


def _is_terminal(handle: int) -> bool:
    try:
        return os.isatty(handle)
    except OSError:
        return False


def warn(text: str) -> None:
    """Anything that is no line goes to stderr."""
    try:
        sys.stderr.write(f"ckpt-governor: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
