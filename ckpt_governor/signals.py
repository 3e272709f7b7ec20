"""Signals as values: handlers only note them; the loop reads them at its own time and is woken at once."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from types import FrameType
from typing import Any

TERMINATE_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
REQUEST_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
STOP_SIGNALS = (signal.SIGINT,)
HEARD = (*TERMINATE_SIGNALS, *REQUEST_SIGNALS, *STOP_SIGNALS, signal.SIGCHLD)


class Signals:
    """Installs the handlers; ``drain`` gives what came since, ``wait`` sleeps until one comes or the time is over."""

    def __init__(self) -> None:
        self._came: deque[signal.Signals] = deque(maxlen=64)
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
        self._former_wakeup: int | None = None
        self._former: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """From now on signals are noted instead of ending the process."""
        self._former_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in HEARD:
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup: whoever started us wants to log out
            self._former[number] = signal.signal(number, self._note)

    def restore(self) -> None:
        """Puts back what was there before."""
        for number, former in self._former.items():
            signal.signal(number, former if former is not None else signal.SIG_DFL)
        self._former = {}
        if self._former_wakeup is not None:
            signal.set_wakeup_fd(self._former_wakeup)
            self._former_wakeup = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append(signal.Signals(number))

    def drain(self) -> list[signal.Signals]:
        """The signals that came since the last call, oldest first; SIGCHLD only wakes and is left out."""
        try:
            while os.read(self._read_end, 4096):
                pass
        except BlockingIOError:
            pass
        came: list[signal.Signals] = []
        while self._came:
            number = self._came.popleft()
            if number is not signal.SIGCHLD:
                came.append(number)
        return came

    def wait(self, seconds: float) -> None:
        """Sleeps that long, or until a signal comes."""
        select.select([self._read_end], [], [], max(0.0, seconds))
