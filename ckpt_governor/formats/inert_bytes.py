"""Reads the bytes of a pickle through a window, in bounded pieces: what is long is jumped over and never held."""

from __future__ import annotations

import struct

from ckpt_governor.formats.interface import OpenFile

KEPT_BYTES_MAX = 4096
"""A longer payload is jumped over; in its place stands how long it was."""
_FIRST_BYTES = 2048
_WINDOW_BYTES_MAX = 256 << 10
_MARGIN_BYTES = 512
"""More than the longest opcode with a short payload has."""
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Failure(Exception):
    """Why a pickle has no end that could be found; its text is a clause for a person."""


class Cut(Failure):
    """The file ends before the pickle does."""

    def __init__(self) -> None:
        super().__init__("its end is missing")


class Damaged(Failure):
    """There is something that no pickle has."""

    def __init__(self, at: int) -> None:
        super().__init__(f"it is damaged before byte {at}")


class TooBig(Failure):
    """It would take more time or memory than a cheap check may."""

    def __init__(self) -> None:
        super().__init__("it holds too many objects to be checked")


class Unsupported(Failure):
    """It may be sound, but this is not known here."""


class Budget:
    """What may still be spent on a file: shared by all the pickles in it, and counted down."""

    __slots__ = ("bytes", "jumps", "memory", "opcodes")

    def __init__(
        self,
        opcodes: int = 2_000_000,
        memory: int = 256 << 20,
        bytes: int = 64 << 20,
        jumps: int = 20_000,
    ) -> None:
        self.opcodes = opcodes
        self.memory = memory
        """Of the values of one pickle, by a count that is never too small; it is not counted down."""
        self.bytes = bytes
        """That are really read; what is jumped over costs none."""
        self.jumps = jumps


class Skipped:
    """In the place of a text or of bytes that were too long to be kept."""

    __slots__ = ("bytes",)

    def __init__(self, bytes: int) -> None:
        self.bytes = bytes


class Window:
    """A piece of the file, and where in it the next byte is.

    Behind the last byte of the file the window has zeros, which are no opcode: short reads need no check of their own,
    and whoever meets the zeros asks ``is_past_end``.
    """

    def __init__(self, file: OpenFile, position: int, budget: Budget) -> None:
        self.file = file
        self.budget = budget
        self.data = b""
        self.at = 0
        self.base = position
        self.size = file.size
        self.limit = 0
        """From here on the window may be too short for an opcode and is to be moved."""
        self._wanted = _FIRST_BYTES
        self._load(position, _FIRST_BYTES)

    def position(self) -> int:
        """Of the next byte in the file."""
        return self.base + self.at

    def is_past_end(self) -> bool:
        """Whether something was read that the file does not have."""
        return self.base + self.at > self.size

    def move_on(self) -> None:
        """The next byte to the window's beginning."""
        self._wanted = min(2 * self._wanted, _WINDOW_BYTES_MAX)
        self._load(self.base + self.at, self._wanted)

    def jump(self, position: int) -> None:
        """To any place further on. Raises Cut when it is behind the end of the file, and TooBig."""
        if position > self.size:
            raise Cut
        at = position - self.base
        if 0 <= at < self.limit:
            self.at = at
            return
        self.budget.jumps -= 1
        if self.budget.jumps < 0:
            raise TooBig
        self._wanted = _FIRST_BYTES
        self._load(position, _FIRST_BYTES)

    def _load(self, position: int, count: int) -> None:
        left = max(0, self.size - position)
        count = min(count, left)
        self.budget.bytes -= count
        if self.budget.bytes < 0:
            raise TooBig
        data = self.file.read_at(position, count)
        if len(data) < count:  # it was cut since it was opened
            self.size = position + len(data)
        self.base, self.at = position, 0
        if position + len(data) >= self.size:
            self.data = data + bytes(2 * _MARGIN_BYTES)
            self.limit = len(self.data)
        else:
            self.data = data
            self.limit = len(data) - _MARGIN_BYTES

    def u8(self) -> int:
        """One byte."""
        self.at += 1
        return self.data[self.at - 1]

    def u16(self) -> int:
        """Two bytes."""
        self.at += 2
        return self.data[self.at - 2] | self.data[self.at - 1] << 8

    def u32(self) -> int:
        """Four bytes."""
        self.at += 4
        number: int = _U32.unpack_from(self.data, self.at - 4)[0]
        return number

    def u64(self) -> int:
        """Eight bytes."""
        self.at += 8
        number: int = _U64.unpack_from(self.data, self.at - 8)[0]
        return number

    def payload(self, count: int) -> bytes | Skipped:
        """That many bytes, jumped over when they are long. Raises Cut and TooBig."""
        if self.base + self.at + count > self.size:
            raise Cut
        if count > KEPT_BYTES_MAX:
            self.jump(self.base + self.at + count)
            return Skipped(count)
        if self.at + count > len(self.data):
            self._load(self.base + self.at, max(count + 2 * _MARGIN_BYTES, self._wanted))
        data = self.data[self.at : self.at + count]
        self.at += count
        return data

    def line(self) -> bytes | Skipped:
        """Up to the next line feed, without it. Raises Cut and TooBig."""
        begin = self.base + self.at
        while (end := self.data.find(b"\n", self.at)) < 0:
            if self.base + len(self.data) > self.size:
                raise Cut
            if self.base + len(self.data) - begin > KEPT_BYTES_MAX:
                self.at = len(self.data)
            self.move_on()
        length = self.base + end - begin
        at, self.at = self.at, end + 1
        return self.data[at:end] if length <= KEPT_BYTES_MAX else Skipped(length)
