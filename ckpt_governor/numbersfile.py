"""numbers.json, followed while the process runs: changes are taken in, damage is told and changes nothing."""

from __future__ import annotations

import os

from attrs import evolve

from ckpt_governor.facts import Trouble
from ckpt_governor.files import COARSE_S, TooLarge, read_bounded, words_of
from ckpt_governor.numbers import Numbers, override
from ckpt_governor.records import FILE_BYTES_MAX, RecordError, parse_numbers
from ckpt_governor.settings import Settings

SECOND_LOOK_S = 0.2
"""Damage is believed only after two equal looks this far apart."""


class NumbersFile:
    """The numbers of the unit, with the flags of this run on top; damage while running changes nothing."""

    def __init__(self, path: str, settings: Settings) -> None:
        self._path, self._settings = path, settings
        self._signature: tuple[int, ...] | None = None
        self._signature_s = 0.0
        self._loaded = False
        self.numbers = Numbers()
        self.trouble: Trouble | None = None

    def load(self) -> None:
        """The first read. Raises RecordError or ValueError: then nothing starts.

        Once they were good, damage changes nothing: a governor that waits for its turn goes on waiting.
        """
        if not self._loaded:
            self.numbers, self._loaded = self._with_flags(self._read()), True

    def refresh(self, now_s: float) -> None:
        """Takes a change in, or says once what is wrong with it."""
        signature = self._look()
        if signature != self._signature:
            self._signature, self._signature_s = signature, now_s
        elif self.trouble is None and now_s - self._signature_s > COARSE_S:
            return
        try:
            self.numbers, self.trouble = self._with_flags(self._read()), None
        except ValueError as error:
            if now_s - self._signature_s >= SECOND_LOOK_S:
                text = f"{error}; the last good numbers stay"
                self.trouble = Trouble(key=f"numbers:{text}", reason="numbers", text=text)

    def _look(self) -> tuple[int, ...] | None:
        try:
            found = os.lstat(self._path)
        except OSError:
            return None
        return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)

    def _read(self) -> Numbers:
        try:
            return parse_numbers(read_bounded(self._path, FILE_BYTES_MAX))
        except FileNotFoundError:
            return Numbers()
        except TooLarge as error:
            raise RecordError("numbers.json", "", str(error)) from None
        except OSError as error:
            raise RecordError("numbers.json", "", f"cannot be read: {words_of(error)}") from None

    def _with_flags(self, numbers: Numbers) -> Numbers:
        given = self._settings
        numbers = override(numbers, no_us=given.no_us, with_us=given.with_us, duration=given.duration)
        if given.grace_s is not None:
            numbers = evolve(numbers, grace_s=given.grace_s, grace_given=True)
        return evolve(numbers, reserve_bytes=given.reserve_bytes, settle_s=given.settle_s)
