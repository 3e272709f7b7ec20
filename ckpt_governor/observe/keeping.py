"""What is remembered of one copy from look to look."""

from __future__ import annotations

from ckpt_governor.facts import Sighting, Structure
from ckpt_governor.formats.interface import Format, Judgement, Member
from ckpt_governor.formats.naming import names_a_copy


class Kept:
    """A file, a group of loose files or a folder that is one copy, may be one, or is a part of a write."""

    __slots__ = (
        "again_s",
        "alike",
        "apart",
        "beside",
        "changed_s",
        "due",
        "error",
        "format",
        "former",
        "group",
        "hollow",
        "judged",
        "lacks",
        "learned",
        "likely",
        "listed_ns",
        "lost",
        "mark",
        "members",
        "order",
        "path",
        "renewed",
        "retired",
        "shown",
        "sniffed",
        "temporary",
        "twin_of",
        "written_ns",
    )

    def __init__(
        self, path: str, format: Format | None = None, group: tuple[str, ...] = (), *, temporary: bool = False
    ) -> None:
        self.path = path
        self.format = format
        """Of a folder or group by its names; of a file by its first bytes, and None when it is no copy or not asked."""
        self.group = group
        """The loose files that together are one copy."""
        self.apart = False
        """Loose files of its name may be one copy; whether they are is asked again as the names around it change."""
        self.temporary = temporary
        self.likely = format is not None or names_a_copy(self.name)
        """Its name alone makes it a copy."""
        self.members: tuple[Member, ...] = ()
        self.mark: tuple[int, int] | None = None
        """Device and inode of a folder; None when it is none."""
        self.listed_ns = 0
        """When a name last came or went in its folder or below, by the volume's clock."""
        self.beside: tuple[tuple[str, int | None], ...] = ()
        """The marks beside it and their times."""
        self.hollow: tuple[str, ...] = ()
        """Folders of it that hold nothing."""
        self.error = ""
        self.judged: Judgement | None = None
        self.lacks, self.renewed = "", False
        """What its elders had and it has not."""
        self.lost = ""
        """What it had when it was sound and has no more."""
        self.former: dict[str, tuple[Member, Judgement | None]] = {}
        """Members of a folder or group as they were when each was judged by itself."""
        self.alike: dict[tuple[object, ...], Judgement] = {}
        """The same by inode and format: a file with very many names is judged once."""
        self.learned: dict[str, tuple[Member, object]] = {}
        """What its format has read of some members, as they were then."""
        self.sniffed = (0, 0)
        self.shown: Sighting | None = None
        self.changed_s = 0.0
        self.written_ns = 0
        self.again_s: float | None = None
        self.order = 0
        self.retired = False
        self.twin_of: tuple[str, str] | None = None
        self.due = 0

    @property
    def folder(self) -> str:
        """The folder that holds it."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Its name in that folder."""
        return self.path.rpartition("/")[2]

    @property
    def single(self) -> bool:
        """Whether it is one file."""
        return self.mark is None and not self.group

    @property
    def unfinished(self) -> bool:
        """Whether its check took long and goes on at the next look."""
        judged = self.judged
        return judged is not None and judged.provisional and judged.structure is Structure.UNREADABLE

    def forget_others(self) -> None:
        """What is remembered of members that are no longer there."""
        most = 2 * len(self.members)
        if max(len(self.former), len(self.learned)) > most:
            names = {member.name for member in self.members}
            self.former = {name: known for name, known in self.former.items() if name in names}
            self.learned = {name: known for name, known in self.learned.items() if name in names}
        if len(self.alike) > most:
            self.alike.clear()
