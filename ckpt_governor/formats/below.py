"""The members below one sub-folder of a copy, shown to a format as if that folder were the copy."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ckpt_governor.formats.interface import (
    NO_CHECKSUMS,
    Files,
    Judgement,
    Member,
    MemberFile,
    OpenFile,
    Piece,
    Plan,
    T,
)


class Below:
    """A part of another ``Files``; what is judged and remembered of a member is remembered there."""

    def __init__(self, files: Files, folder: str) -> None:
        """``folder``: its path below the copy."""
        self._files = files
        self._prefix = f"{folder}/"
        holder, _, self.name = folder.rpartition("/")
        self._beside_prefix = f"{holder}/" if holder else ""
        self.members: tuple[Member, ...] = tuple(
            member._replace(name=member.name[len(self._prefix) :])
            for member in files.members
            if member.name.startswith(self._prefix)
        )
        self.hollow: Collection[str] = [
            inner[len(self._prefix) :] for inner in files.hollow if inner.startswith(self._prefix)
        ]
        start = len(self._beside_prefix)
        self.beside: Collection[str] = frozenset(
            member.name[start:]
            for member in files.members
            if member.name.startswith(self._beside_prefix) and "/" not in member.name[start:]
        )
        self.former: Judgement | None = files.former
        self.age_s: float = files.age_s

    def open(self, member: str) -> MemberFile:
        """One of the members."""
        return self._files.open(self._prefix + member)

    def open_beside(self, name: str) -> OpenFile:
        """A file in the folder that holds the sub-folder."""
        return self._files.open(self._beside_prefix + name)

    def mtime_ns_beside(self, name: str) -> int | None:
        """Of a file in the folder that holds the sub-folder."""
        wanted = self._beside_prefix + name
        return next((member.mtime_ns for member in self._files.members if member.name == wanted), None)

    def judge_member(self, member: Member) -> Judgement | None:
        """By the format of its own."""
        return self._files.judge_member(member._replace(name=self._prefix + member.name))

    def learn(self, member: Member, reader: Callable[[MemberFile], T]) -> T:
        """What this reader makes of the member."""
        return self._files.learn(member._replace(name=self._prefix + member.name), reader)

    def check_time(self) -> None:
        """As for the whole copy."""
        self._files.check_time()

    def plan_member(self, member: Member) -> Plan:
        """By the format of its own; its pieces under its name below the sub-folder."""
        plan = self._files.plan_member(member._replace(name=self._prefix + member.name))
        return plan._replace(pieces=tuple(piece._replace(member=member.name) for piece in plan.pieces))


def within(judgement: Judgement, folder: str) -> Judgement:
    """What was judged of a sub-folder, as a judgement of the copy: its reason says where."""
    return judgement._replace(why=f"{folder}: {judgement.why}") if judgement.why else judgement


def placed(plan: Plan, folder: str) -> Plan:
    """What was planned of a sub-folder, as a part of the copy."""
    pieces = tuple(_placed(piece, f"{folder}/") for piece in plan.pieces)
    known = plan.why in ("", NO_CHECKSUMS.why) or plan.why.startswith(f"{folder}/")
    return Plan(pieces, plan.why if known else f"{folder}: {plan.why}")


def _placed(piece: Piece, prefix: str) -> Piece:
    what = piece.what if piece.what.startswith(prefix) else prefix + piece.what
    return piece._replace(member=prefix + piece.member, what=what)
