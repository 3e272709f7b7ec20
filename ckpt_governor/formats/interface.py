"""The small interface between a checkpoint format and whoever walks the unit. Adding a format touches nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar

from ckpt_governor.facts import SmallSize, Structure

T = TypeVar("T")

HEAD_BYTES = 512
"""How much of a file's beginning a format is shown to recognise it by."""
TAIL_BYTES = 1024
"""How much of its end, where its beginning is nothing but zeros."""


class Member(NamedTuple):
    """One regular file of a copy, as ``stat`` shows it; a plain tuple because a unit may hold very many."""

    name: str
    """Path below the copy's folder; empty when the copy is the file itself."""
    device: int
    inode: int
    bytes: int
    mtime_ns: int
    ctime_ns: int


class Judgement(NamedTuple):
    """What the bytes of a copy say."""

    structure: Structure
    why: str = ""
    """One clause for a person; empty when complete and nothing is odd."""
    hole_at: int | None = None
    """Where an unwritten tail begins, for formats whose index is at the front; shown again at the next judgement."""
    provisional: bool = False
    """Judge again soon even if nothing changes: the evidence was too young."""
    small: SmallSize = SmallSize.PROOF
    """Of what has no shape: what a small size would say of it."""


COMPLETE = Judgement(Structure.COMPLETE)


class Damage(Exception):
    """Something that a finished copy has is missing or wrong; its text is a clause for a person."""


class TakesLong(Exception):
    """A look has no more time for this copy. What was learned is remembered, and the next look goes on from there."""


Check = Callable[[Iterator[memoryview]], str]
"""Takes the bytes of a piece in their order, each view only until the next is taken; says what the piece does wrong,
as in ``cannot be unpacked``, or nothing. Called in any thread, for several pieces at the same time."""


WRONG = "has a wrong checksum"
"""What a check says of a piece as long as it has all its bytes."""


class Piece(NamedTuple):
    """Bytes of a copy that have one checksum. Pieces are checked in any order and at the same time."""

    member: str
    """The name of the member that holds it."""
    offset: int
    length: int
    what: str
    """What a person knows it by: the name of a record, of a tensor, of a file."""
    expected: int | Check
    """The CRC-32 of these bytes, or a check of the format's own. Only of a CRC-32 long pieces are split over cores."""


class Plan(NamedTuple):
    """Everything of a copy that has a checksum; nobody has read it yet."""

    pieces: tuple[Piece, ...] = ()
    why: str = ""
    """Why some of it, or all, is not checked, in one clause; empty when nothing is to be said."""


NO_CHECKSUMS = Plan((), "has no checksums")
PIECES_MAX = 200_000
"""Of one plan: a hundred megabytes while it is checked. No copy of a library that is known here has half as many."""
TOO_MANY = f"it has more than {PIECES_MAX:,} checksums, and not all of them are checked"


def gathered(plans: Iterable[Plan]) -> Plan:
    """Several plans as one. They may be made as they are asked for: after too many pieces no more are."""
    pieces: list[Piece] = []
    why = ""
    for plan in plans:
        room = PIECES_MAX - len(pieces)
        pieces += plan.pieces[:room]
        if len(plan.pieces) > room:
            why = TOO_MANY
            break
        if plan.why != NO_CHECKSUMS.why:
            why = why or plan.why
    return Plan(tuple(pieces), why) if pieces or why else NO_CHECKSUMS


class OpenFile(Protocol):
    """One member, opened without following a link; every read is bounded by its caller."""

    size: int
    mtime_ns: int

    def read_at(self, offset: int, count: int) -> bytes:
        """Up to ``count`` bytes; fewer at the end of the file. Raises OSError."""

    def keeps_written_zeros(self) -> bool:
        """Whether a hole in it is a place where nobody has written; False when zeros may have become one."""

    def tail_hole(self, spared_bytes: int = 0) -> int | None:
        """Where the hole begins that reaches the end of the file; None when there is none or none can be seen.

        ``spared_bytes``: so many bytes at the very end may have been written nevertheless.
        """

    def __enter__(self) -> OpenFile:
        """Itself."""

    def __exit__(self, *_: object) -> None:
        """Give it back."""


class MemberFile(OpenFile, Protocol):
    """One whole member, which can also be read from its beginning to its end without taking memory for it."""

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fills the buffer; how many bytes it got, which is fewer only at the end of the file. Raises OSError."""

    def read_once(self) -> None:
        """Tells the system that long runs of it will be read in order, and once."""


class Files(Protocol):
    """The files of one copy, and what lies beside it."""

    name: str
    """The last part of the copy's name."""
    members: tuple[Member, ...]
    hollow: Collection[str]
    """Folders of it that hold nothing, by their paths below it."""
    beside: Collection[str]
    """The names in the folder that holds the copy."""
    former: Judgement | None
    """The former judgement of the same inode, if there was one."""
    age_s: float
    """Time since its last change by the volume's clock, or since it was last seen to change if that is longer."""

    def open(self, member: str) -> MemberFile:
        """Raises OSError; FileNotFoundError means that the copy is being removed."""

    def open_beside(self, name: str) -> OpenFile:
        """A regular file in the folder that holds the copy. Raises OSError."""

    def mtime_ns_beside(self, name: str) -> int | None:
        """The modification time of a file beside the copy, None when it is no regular file."""

    def judge_member(self, member: Member) -> Judgement | None:
        """By the member's own format; None when it has none that could tell. Remembered while it does not change."""

    def learn(self, member: Member, reader: Callable[[MemberFile], T]) -> T:
        """What this reader makes of the member. Remembered while it does not change, and only for one reader of each
        member: so it is given back small. Raises TakesLong, OSError and what the reader raises."""

    def check_time(self) -> None:
        """To be asked between steps of what may take long. Raises TakesLong when there is no more time."""

    def plan_member(self, member: Member) -> Plan:
        """What of it has checksums, by the member's own format. Raises Damage and OSError."""


class Format:
    """One checkpoint format. The defaults claim nothing, so that a format says only what it knows."""

    word: str
    """Its name in every line, file and table."""
    misses_by_elders: bool = False
    """Nothing in a copy tells all the files that belong to it: what its elders all had is missed in it, too."""
    marks: frozenset[str] = frozenset()
    """Where that does not hold, those of its members that are missed all the same when the elders had them."""
    tells_all: bool = False
    """One that is complete has every byte that it needs: a file that it had besides is not missed."""
    stages_beside: bool = False
    """At its peak a write holds the bytes of two new copies on the volume. A temporary that is renamed into place
    is one copy, also when it replaces an old one: the old one's bytes are not free space to begin with."""

    def claims_file(self, name: str, head: bytes) -> bool:
        """Whether a single file is a copy of this format; ``head`` is its beginning and may be shorter than wanted."""
        return False

    def claims_tail(self, name: str, tail: Callable[[], bytes]) -> bool:
        """Whether a file that begins with nothing but zeros is one of this format whose beginning was never written.

        ``tail`` reads its end: to be called only when the name speaks for it.
        """
        return False

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        """Whether a folder as a whole is one copy of this format; only the names directly in it are given."""
        return False

    def group_of(self, name: str) -> str | None:
        """The copy that a loose file is a part of, for formats that spread one copy over files of one folder."""
        return None

    def is_one(self, group: str, parts: Collection[str], beside: Collection[str]) -> bool:
        """Whether these loose files are one copy, where their names alone could mean several; ``beside`` are all
        names of their folder. If not, each stands for itself."""
        return True

    def watches_beside(self, name: str) -> tuple[str, ...]:
        """Names beside the copy whose coming, going or changing asks for a new judgement."""
        return ()

    def judge(self, files: Files) -> Judgement:
        """The cheap check: bounded reads, no tensor is read, nothing is unpickled. Raises OSError."""
        raise NotImplementedError

    def plan(self, files: Files) -> Plan:
        """All that a deep check can check. Bounded reads, none of them of a tensor. Raises Damage and OSError.

        Of a copy that is no single file the default is what its members have by their own formats.
        """
        return gathered(plans_of_members(files, files.members))


def plans_of_members(files: Files, members: Iterable[Member]) -> Iterator[Plan]:
    """By the format of each; of several names of one file by that of the first. Raises Damage and OSError."""
    planned: set[tuple[object, ...]] = set()
    for member in members:
        if member.name and same_file(member) not in planned:
            planned.add(same_file(member))
            plan = files.plan_member(member)
            known = plan.why in ("", NO_CHECKSUMS.why)
            yield plan if known else plan._replace(why=f"{member.name}: {plan.why}")


def same_file(member: Member) -> tuple[object, ...]:
    """What the names of one file have in common. Not its inode alone: some volumes give none, or one twice."""
    return member.device, member.inode, member.bytes, member.mtime_ns
