"""Reads every byte that a plan says has a checksum: on all cores, in memory that does not grow with the copy.

``zlib.crc32`` and the reads let other threads run meanwhile, so that threads are enough. They take ranges of a few
mebibytes in turn: neighbouring short pieces together, long ones cut, so that one long record keeps all of them busy.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ckpt_governor.formats.crc import combined
from ckpt_governor.formats.interface import Files, MemberFile, Piece, Plan

RANGE_BYTES = 8 << 20
BUFFER_BYTES = 1 << 20
"""Small enough to be still in the processor's cache when it is summed."""
_GAP_BYTES_MAX = 1 << 16
_TELL_EVERY_S = 0.1


class Found(NamedTuple):
    """What a deep check came to."""

    wrong: str
    """In one clause; empty when every checksum is right."""
    checked_bytes: int
    unread: OSError | None
    """Why it could not be read to its end; then a piece that is not wrong may not have been looked at."""


class Range(NamedTuple):
    """Bytes of one piece that one thread reads."""

    piece: int
    """Its number in the plan."""
    offset: int
    length: int


def check(
    files: Files, plan: Plan, *, threads: int = 1, progress: Callable[[int], None] | None = None
) -> Found:
    """Does what the plan says. ``progress`` is told about ten times a second how many bytes are done.

    Raises what a check of a format's own raises, but for OSError.
    """
    sizes = {member.name: member.bytes for member in files.members}
    cut = {number for number, piece in enumerate(plan.pieces) if not _fits(piece, sizes)}
    tasks = ranges(plan.pieces, cut)
    run = _Run(files, plan.pieces, tasks)
    workers = [
        threading.Thread(target=run.work, args=(number,), daemon=True)
        for number in range(max(1, min(threads, len(tasks))))
    ]
    run.done_bytes = [0] * len(workers)
    try:
        for worker in workers:
            worker.start()
        told_s = time.monotonic()
        for worker in workers:
            while worker.is_alive():
                worker.join(_TELL_EVERY_S)
                if progress is not None and time.monotonic() - told_s >= _TELL_EVERY_S:
                    progress(sum(run.done_bytes))
                    told_s = time.monotonic()
    finally:
        run.stopped = True
        for worker in workers:
            worker.join()
    if run.failure is not None:
        raise run.failure
    cut |= run.cut
    wrong = [f"{plan.pieces[number].what} is cut" for number in sorted(cut)]
    wrong += run.wrong_ones(cut)
    return Found(_together(wrong), sum(run.done_bytes), run.unread)


def ranges(pieces: Sequence[Piece], without: set[int]) -> list[list[Range]]:
    """The plan as tasks for threads, each of ranges of one member in their order."""
    tasks: list[list[Range]] = []
    member, begin, end = "", 0, 0
    for number in sorted(
        set(range(len(pieces))) - without, key=lambda n: (pieces[n].member, pieces[n].offset)
    ):
        piece = pieces[number]
        if callable(piece.expected):  # it cannot be cut, so it stands alone
            tasks.append([Range(number, piece.offset, piece.length)])
            end = -1
            continue
        for one in _cut(number, piece):
            near = tasks and piece.member == member and 0 <= end <= one.offset <= end + _GAP_BYTES_MAX
            if near and one.offset + one.length <= begin + RANGE_BYTES:
                tasks[-1].append(one)
            else:
                tasks.append([one])
                member, begin = piece.member, one.offset
            end = one.offset + one.length
    return tasks


def _cut(number: int, piece: Piece) -> Iterator[Range]:
    for at in range(0, max(piece.length, 1), RANGE_BYTES):
        yield Range(number, piece.offset + at, min(RANGE_BYTES, piece.length - at))


def _fits(piece: Piece, sizes: dict[str, int]) -> bool:
    """Whether its bytes are there at all; what a plan claims is not to be counted through."""
    return piece.offset >= 0 and 0 <= piece.length <= sizes.get(piece.member, 0) - piece.offset


def _together(wrong: list[str]) -> str:
    return wrong[0] + (f", and {len(wrong) - 1} more like it" if len(wrong) > 1 else "") if wrong else ""


class _Cut(Exception):
    """The file ends before the range does."""


class _Stopped(Exception):
    """Nobody waits for the rest."""


class _Run:
    """What the threads of one check share. Each writes only what is its own, and entries that no other writes."""

    def __init__(self, files: Files, pieces: Sequence[Piece], tasks: list[list[Range]]) -> None:
        self._files, self._pieces, self._tasks = files, pieces, tasks
        self._lock = threading.Lock()
        self._next = 0
        self._sums: dict[tuple[int, int], int] = {}
        self._said: dict[int, str] = {}
        self.cut: set[int] = set()
        self.done_bytes = [0]
        self.unread: OSError | None = None
        self.failure: Exception | None = None
        self.stopped = False

    def work(self, worker: int) -> None:
        """Takes tasks until there are none."""
        buffer = memoryview(bytearray(BUFFER_BYTES))
        opened: tuple[str, MemberFile] | None = None
        try:
            while (task := self._take()) is not None:
                member = self._pieces[task[0].piece].member
                if opened is None or opened[0] != member:
                    if opened is not None:
                        opened[1].__exit__()
                        opened = None
                    opened = (member, self._files.open(member))
                    opened[1].read_once()
                self._sum(opened[1], task, buffer, worker)
        except _Stopped:
            pass
        except OSError as error:
            self.unread, self.stopped = error, True
        except Exception as failure:
            self.failure, self.stopped = failure, True
        finally:
            if opened is not None:
                opened[1].__exit__()

    def _take(self) -> list[Range] | None:
        with self._lock:
            number, self._next = self._next, self._next + 1
        return self._tasks[number] if number < len(self._tasks) and not self.stopped else None

    def _sum(self, file: MemberFile, task: list[Range], buffer: memoryview, worker: int) -> None:
        source = _Source(file, buffer, task[-1].offset + task[-1].length)
        for one in task:
            expected = self._pieces[one.piece].expected
            views = self._counted(source.views(one.offset, one.length), worker)
            try:
                if callable(expected):
                    self._said[one.piece] = expected(views)
                    continue
                crc = 0
                for view in views:
                    crc = zlib.crc32(view, crc)
                self._sums[one.piece, one.offset] = crc
            except _Cut:
                self.cut.add(one.piece)

    def _counted(self, views: Iterator[memoryview], worker: int) -> Iterator[memoryview]:
        for view in views:
            if self.stopped:
                raise _Stopped
            yield view
            self.done_bytes[worker] += len(view)

    def wrong_ones(self, cut: set[int]) -> Iterator[str]:
        """Of every piece that was read to its end and is wrong, in the order of the plan."""
        for number, piece in enumerate(self._pieces):
            if number in cut:
                continue
            said = self._said.get(number, "")
            if not callable(piece.expected):
                parts = [(self._sums.get((number, one.offset)), one.length) for one in _cut(number, piece)]
                known = [(crc, length) for crc, length in parts if crc is not None]
                if len(known) == len(parts) and combined(known) != piece.expected:
                    said = f"the checksum of {piece.what} is wrong"
            if said:
                yield said


class _Source:
    """Reads forward through one task; what lies close together is read at once."""

    def __init__(self, file: MemberFile, buffer: memoryview, until: int) -> None:
        self._file, self._buffer, self._until = file, buffer, until
        self._begin = self._end = 0

    def views(self, offset: int, length: int) -> Iterator[memoryview]:
        """These bytes, each view only until the next is taken. Raises OSError, and _Cut."""
        end = offset + length
        while offset < end:
            if not self._begin <= offset < self._end:
                room = self._buffer[: min(len(self._buffer), self._until - offset)]
                self._begin, self._end = offset, offset + self._file.read_into(room, offset)
                if self._end == offset:
                    raise _Cut
            upto = min(end, self._end)
            yield self._buffer[offset - self._begin : upto - self._begin]
            offset = upto
