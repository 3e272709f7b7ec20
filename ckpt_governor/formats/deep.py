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
from ckpt_governor.formats.interface import WRONG, Damage, Files, Member, MemberFile, Piece, Plan, same_file

RANGE_BYTES = 8 << 20
BUFFER_BYTES = 1 << 20
"""Small enough to be still in the processor's cache when it is summed."""
_GAP_BYTES_MAX = 1 << 16
_TELL_EVERY_S = 0.1
_STOP_S_MAX = 5.0
"""An interrupt does not wait longer for a read than this: a volume that hangs would keep it for ever."""


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


def each_byte_once(plan: Plan, members: Sequence[Member]) -> Plan:
    """The plan, less the pieces that lie over others: what an index tells twice, and further names of one file.

    What is told twice in the same way is checked by one of them; what is not, is told. Raises Damage when bytes have
    two checksums, of which one is wrong.
    """
    files = {member.name: same_file(member) for member in members}
    order = sorted(
        (number for number, piece in enumerate(plan.pieces) if piece.length > 0 and piece.member in files),
        key=lambda n: (files[plan.pieces[n].member], plan.pieces[n].offset, -plan.pieces[n].length),
    )
    left_out: set[int] = set()
    untold = 0
    last: Piece | None = None
    for number in order:
        piece = plan.pieces[number]
        if (
            last is None
            or files[last.member] != files[piece.member]
            or piece.offset >= last.offset + last.length
        ):
            last = piece
            continue
        left_out.add(number)
        same = (last.offset, last.length) == (piece.offset, piece.length)
        if same and last.expected == piece.expected:
            continue
        if same and last.member == piece.member and not (callable(last.expected) or callable(piece.expected)):
            raise Damage(f"{piece.what} has two checksums")
        untold += 1
    if not left_out:
        return plan
    pieces = tuple(piece for number, piece in enumerate(plan.pieces) if number not in left_out)
    over = f"parts that lie over others are not checked: {untold}" if untold else ""
    return Plan(pieces, "; ".join(filter(None, (plan.why, over))))


def check(
    files: Files, plan: Plan, *, threads: int = 1, progress: Callable[[int], None] | None = None
) -> Found:
    """Does what the plan says. ``progress`` is told about ten times a second how many bytes are done.

    Raises what a check of a format's own raises, but for OSError.
    """
    sizes = {member.name: member.bytes for member in files.members}
    cut = {number for number, piece in enumerate(plan.pieces) if not _fits(piece, sizes)}
    run = _Run(files, plan.pieces, cut)
    count = max(1, min(threads, _parts(plan.pieces, cut)))
    run.done_bytes = [0] * count
    workers = [threading.Thread(target=run.work, args=(number,), daemon=True) for number in range(count)]
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
        end_s = time.monotonic() + _STOP_S_MAX
        for worker in workers:
            if worker.ident is not None:  # an interrupt may come before all of them have begun
                worker.join(max(0.0, end_s - time.monotonic()))
    if run.failure is not None:
        raise run.failure
    wrong = [f"{plan.pieces[number].what} is cut" for number in sorted(cut | run.cut)]
    wrong += [_clause(plan.pieces[number].what, said) for number, said in sorted(run.said.items())]
    return Found(_together(wrong), sum(run.done_bytes), run.unread)


def ranges(pieces: Sequence[Piece], without: set[int]) -> Iterator[list[Range]]:
    """The plan as tasks for threads, each of ranges of one member in their order.

    One is made when it is asked for: a record of holes may be as long as no memory could hold the ranges of.
    """
    task: list[Range] = []
    for number in sorted(
        set(range(len(pieces))) - without, key=lambda n: (pieces[n].member, pieces[n].offset)
    ):
        piece = pieces[number]
        whole = callable(piece.expected)  # it cannot be cut, so it stands alone
        for one in (Range(number, piece.offset, piece.length),) if whole else _cut(number, piece):
            if task and (whole or not _follows(task, one, pieces)):
                yield task
                task = []
            task.append(one)
        if whole:
            yield task
            task = []
    if task:
        yield task


def _cut(number: int, piece: Piece) -> Iterator[Range]:
    for at in range(0, max(piece.length, 1), RANGE_BYTES):
        yield Range(number, piece.offset + at, min(RANGE_BYTES, piece.length - at))


def _follows(task: list[Range], one: Range, pieces: Sequence[Piece]) -> bool:
    """Whether a range is best read with those before it."""
    first, last = task[0], task[-1]
    gap_bytes = one.offset - last.offset - last.length
    return (
        pieces[one.piece].member == pieces[first.piece].member
        and 0 <= gap_bytes <= _GAP_BYTES_MAX
        and one.offset + one.length <= first.offset + RANGE_BYTES
    )


def _parts(pieces: Sequence[Piece], without: set[int]) -> int:
    """How many threads could find something to do."""
    return sum(
        1 if callable(piece.expected) else -(-piece.length // RANGE_BYTES)
        for number, piece in enumerate(pieces)
        if number not in without
    )


def _fits(piece: Piece, sizes: dict[str, int]) -> bool:
    """Whether its bytes are there at all; what a plan claims is not to be counted through."""
    return piece.offset >= 0 and 0 <= piece.length <= sizes.get(piece.member, 0) - piece.offset


def _clause(what: str, said: str) -> str:
    return f"the checksum of {what} is wrong" if said == WRONG else f"{what} {said}"


def _together(wrong: list[str]) -> str:
    return wrong[0] + (f", and {len(wrong) - 1} more like it" if len(wrong) > 1 else "") if wrong else ""


class _Cut(Exception):
    """The file ends before the range does."""


class _Stopped(Exception):
    """Nobody waits for the rest."""


class _Joined:
    """The CRC-32 of one piece from those of its ranges, which come in nearly their order."""

    def __init__(self, piece: Piece) -> None:
        self.crc, self._upto, self._end = 0, piece.offset, piece.offset + piece.length
        self._early: dict[int, tuple[int, int]] = {}

    def add(self, one: Range, crc: int) -> bool:
        """Whether this was the last."""
        self._early[one.offset] = crc, one.length
        while (part := self._early.pop(self._upto, None)) is not None:
            self.crc = combined(((self.crc, 0), part))
            self._upto += part[1]
        return self._upto == self._end


class _Run:
    """What the threads of one check share. Each writes only what is its own, and entries that no other writes."""

    def __init__(self, files: Files, pieces: Sequence[Piece], without: set[int]) -> None:
        self._files, self._pieces = files, pieces
        self._lock = threading.Lock()
        self._tasks = ranges(pieces, without)
        self._joined: dict[int, _Joined] = {}
        self.said: dict[int, str] = {}
        """What is wrong with pieces, by their numbers."""
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
            return None if self.stopped else next(self._tasks, None)

    def _sum(self, file: MemberFile, task: list[Range], buffer: memoryview, worker: int) -> None:
        source = _Source(file, buffer, task[-1].offset + task[-1].length)
        for one in task:
            expected = self._pieces[one.piece].expected
            views = self._counted(source.views(one.offset, one.length), worker)
            try:
                if callable(expected):
                    self._say(one.piece, expected(views))
                    continue
                crc = 0
                for view in views:
                    crc = zlib.crc32(view, crc)
                self._compare(one, crc, expected)
            except _Cut:
                self.cut.add(one.piece)

    def _compare(self, one: Range, crc: int, expected: int) -> None:
        piece = self._pieces[one.piece]
        if one.length < piece.length:
            with self._lock:
                joined = self._joined.get(one.piece) or self._joined.setdefault(one.piece, _Joined(piece))
                if not joined.add(one, crc):
                    return
                del self._joined[one.piece]
            crc = joined.crc
        self._say(one.piece, "" if crc == expected else WRONG)

    def _say(self, piece: int, said: str) -> None:
        if said:
            self.said[piece] = said

    def _counted(self, views: Iterator[memoryview], worker: int) -> Iterator[memoryview]:
        for view in views:
            if self.stopped:
                raise _Stopped
            self.done_bytes[worker] += len(view)
            yield view


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
