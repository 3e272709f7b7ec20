"""Reads a file from front to back and leaps over what is not needed, however many times the file asks for it."""

from __future__ import annotations

from ckpt_governor.formats.interface import OpenFile

_PIECE_BYTES_MIN = 1024
_PIECE_BYTES_MAX = 256 << 10
_READS_MAX = 20_000
_READ_BYTES_MAX = 64 << 20


class Cut(Exception):
    """The file ends before what should be there."""


class Uncheckable(Exception):
    """What it is cannot be told, or not cheaply; its text is a clause for a person."""


class Forward:
    """A place in a file that only moves forwards. Small reads come from one larger piece, which grows while what is
    read lies close together."""

    def __init__(self, file: OpenFile, at: int = 0) -> None:
        self.at = at
        self.size = file.size
        self._file = file
        self._piece, self._piece_at, self._wanted = b"", 0, _PIECE_BYTES_MIN
        self._reads, self._read_bytes = 0, 0

    def take(self, count: int) -> bytes:
        """The next bytes; ``count`` is the caller's own small number. Raises Cut, Uncheckable and OSError."""
        begin = self.at - self._piece_at
        end = begin + count
        if end > len(self._piece):
            self._read(count)
            begin, end = 0, count
            if len(self._piece) < count:
                raise Cut
        self.at += count
        return self._piece[begin:end]

    def skip(self, count: int) -> None:
        """Leap over bytes that must be there, without reading them; ``count`` may be any number. Raises Cut."""
        if count > self.size - self.at:
            raise Cut
        self.at += count

    def _read(self, count: int) -> None:
        near = self._piece_at <= self.at <= self._piece_at + len(self._piece)
        self._wanted = min(2 * self._wanted, _PIECE_BYTES_MAX) if near and self._reads else _PIECE_BYTES_MIN
        wanted = max(self._wanted, count)
        self._reads += 1
        self._read_bytes += wanted
        if self._reads > _READS_MAX or self._read_bytes > _READ_BYTES_MAX:
            raise Uncheckable("it has more parts than can be checked")
        self._piece, self._piece_at = self._file.read_at(self.at, wanted), self.at
