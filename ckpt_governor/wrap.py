"""The wrapped command: started once, told when the governor is told, and ended with its own code."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from ckpt_governor.facts import Job
from ckpt_governor.files import words_of
from ckpt_governor.say import warn

if TYPE_CHECKING:
    import subprocess

EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 126, 127
"""As a shell would answer."""


class Wrapped:
    """A training command that runs as a child of the governor."""

    def __init__(self, command: list[str], unit: str) -> None:
        self._command, self._unit = command, unit
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._failed = 0
        self.told = False
        """Whether it was sent its SIGTERM."""

    def start(self, now_s: float) -> bool:
        """Starts it, with CKPT_DIR set for the reader; False when it cannot be started, which is told."""
        import subprocess  # imported late: a governor without a command does not need it

        environment = dict(os.environ)
        environment.setdefault("CKPT_DIR", self._unit)
        self._started_s = now_s
        try:
            self._process = subprocess.Popen(self._command, env=environment)
        except OSError as error:
            self._failed = EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_EXECUTABLE
            warn(f"the command {self._command[0]} cannot be started: {words_of(error)}")
        return self._process is not None

    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process is not None and self._process.poll() is None

    def job(self) -> Job:
        """What is known of the job because it is ours."""
        pid = self._process.pid if self._process is not None else 0
        return Job(
            started_s=self._started_s, alive=self.running(), identity=f"wrapped:{pid}:{self._started_s:.3f}"
        )

    def send(self, number: signal.Signals) -> None:
        """Forwards a signal; a Ctrl-C on a terminal has reached the child already."""
        if number is signal.SIGINT and sys.stdin is not None and sys.stdin.isatty():
            return
        if self._process is not None and self.running():
            self._process.send_signal(number)

    def tell(self) -> None:
        """Sends its SIGTERM, once."""
        if not self.told:
            self.told = True
            self.send(signal.SIGTERM)

    def exit_code(self) -> int:
        """Its own code, 128 plus the number of the signal that ended it, or 126 or 127 when it never started."""
        if self._failed:
            return self._failed
        code = self._process.poll() if self._process is not None else None
        if code is None:
            return 0
        return 128 - code if code < 0 else code
