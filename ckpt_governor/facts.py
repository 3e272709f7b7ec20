"""What was seen: the frozen records that travel from the eyes to the decision.

Every time that ends in ``_s`` and is not a duration lies on the *steady axis*: seconds that begin as Unix time when
the governor starts and are then counted by the monotonic clock, so that a step of the wall clock moves nothing.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from ckpt_governor.conditions import Condition
from ckpt_governor.signs import Count, Heat, Memory, Node, Part, Storage


@frozen(kw_only=True)
class Moment:
    """One moment on three clocks, in seconds."""

    now_s: float
    """The steady axis: Unix time when the clock was made, counted on by the monotonic clock."""
    wall_s: float
    """Unix time now; it may be stepped."""
    boot_s: float
    """Time since boot, a suspend included: real time passes for a deadline while the machine sleeps."""

    @property
    def wall_minus_steady_s(self) -> float:
        """Added to a moment of the steady axis it gives Unix time."""
        return self.wall_s - self.now_s


class CopyStatus(str, Enum):
    """What a copy is worth now."""

    SOUND = "sound"
    WRITING = "writing"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Structure(str, Enum):
    """What the bytes of a copy say at one look; whether somebody still writes is another question."""

    COMPLETE = "complete"
    """The format's own end is there and every size agrees."""
    INCOMPLETE = "incomplete"
    """Something that a finished copy has is missing."""
    SHAPELESS = "shapeless"
    """The format has no end that could be checked; only time and former copies tell."""
    AMBIGUOUS = "ambiguous"
    """A save of one kind that came to its end, or one of another that did not: the bytes are the same."""
    UNREADABLE = "unreadable"
    """It could not be looked at (no permission, an I/O error, a bound was hit)."""


class SmallSize(str, Enum):
    """What it says of a copy without a checkable end that it is far smaller than the former ones of its kind."""

    PROOF = "proof"
    """It is cut."""
    DOUBT = "doubt"
    """It is cut, or what it holds needs less: compressed bytes."""
    NOTHING = "nothing"
    """Its end was seen in another way: weights of fewer bits are smaller."""


@frozen(kw_only=True)
class Sighting:
    """One copy as the file system shows it at one look; nothing here depends on former looks."""

    name: str
    """Path relative to the unit, with ``/``; for several names of one inode the first in sorting order."""
    format: str
    """A word of the format registry, such as ``torch-zip``."""
    step: int | None
    bytes: int
    """Apparent size; every inode counted once, links not followed."""
    structure: Structure
    why: str
    """One clause for a person; empty when complete."""
    small: SmallSize = SmallSize.PROOF
    """What a small size would say of it."""
    fingerprint: str
    """Changes when a size, an mtime, an inode or the set of member names changed."""
    inode: str
    """Device and inode of the file or folder."""
    written_s: float
    """The latest mtime of its members, corrected by the volume's clock: evidence, never proof."""
    listed_s: float = 0.0
    """When a name last came or went in its folder or below, corrected like ``written_s``; zero where it has none."""
    temporary: bool = False
    """It still carries a temporary name: a part of a write, not a copy yet."""
    also: tuple[str, ...] = ()
    """Other names of the same inode, such as ``last.ckpt``."""
    lacks: str = ""
    """What all former copies of its kind had and this one has not, in one clause; empty when nothing."""
    renewed: bool = False
    """It has files of kinds that none of them had: whoever saves has changed what is saved, and may not miss it."""
    lost: str = ""
    """What it had when it was sound and has no more, in one clause; empty when nothing."""


@frozen(kw_only=True)
class Whole:
    """What a copy of several files held when it was sound."""

    name: str
    inode: str
    fingerprint: str
    written_ns: int
    """The latest mtime of its files, as the volume told it."""
    parts: dict[str, int]
    """The bytes of each file that counts."""


@frozen(kw_only=True)
class Copy:
    """One checkpoint, followed over time by the governor's own clock."""

    serial: int
    """Grows with every new copy of the unit; the highest is the newest. An overwritten name gets a new serial."""
    name: str
    format: str
    step: int | None
    bytes: int
    status: CopyStatus
    why: str
    first_seen_s: float
    began_s: float
    """When its write began, as far as that was seen: the moment whose state it holds."""
    changed_s: float
    """The last look at which it had changed."""
    captured_s: float | None = None
    """The earliest moment at which its write can have begun; None when nothing but ``began_s`` is known."""
    sound_s: float | None = None
    """When it was first judged sound."""
    longest_quiet_s: float = 0.0
    """The longest time without a change between two changes of its write."""
    pre_existing: bool = False
    """It was there at the first look of all; its write was not seen."""
    answered: bool = False
    """It appeared whole while a request was open, so its begin is the request's moment."""
    written_s: float = 0.0
    """The latest mtime of its members, corrected by the volume's clock: breaks ties within one look, never more."""
    temporary: bool = False
    fingerprint: str = ""
    inode: str = ""

    @property
    def state_s(self) -> float:
        """The moment whose state it holds, at worst: staleness is counted from here."""
        return self.began_s if self.captured_s is None else min(self.captured_s, self.began_s)

    @property
    def write_s(self) -> float | None:
        """Length of its write in seconds as it was seen; None when it was not seen."""
        span_s = self.changed_s - self.began_s
        return None if self.pre_existing or span_s <= 0 else span_s


@frozen(kw_only=True)
class Notice:
    """One announcement with an identity: a glue file, a signal, an end that is known."""

    identity: str
    condition: Condition
    seen_s: float
    deadline_s: float | None = None
    within_s: float | None = None
    """It ends so long after it was first seen by any governor of this unit; for what is announced without a date."""
    text: str = ""
    source: str = "glue"
    ack_name: str = ""
    """The glue file's name, to which the answer belongs; empty for other sources."""


@frozen(kw_only=True)
class Reading:
    """What one source says about one condition."""

    condition: Condition
    value: bool | None
    """None: cannot tell."""
    why: str
    source: str
    read_s: float
    deadline_s: float | None = None


@frozen(kw_only=True)
class AllottedEnd:
    """When the time that was allotted to the job ends, as one source knows it now; it may be moved."""

    identity: str
    """What stays the same while the end is moved, such as ``slurm:4711.0:end``."""
    source: str
    end_s: float


@frozen(kw_only=True)
class Report:
    """What one source read at one look. It is not of this moment: sources are read beside the loop."""

    source: str
    """The word that people see: ``aws``, ``slurm``, ``cgroup``."""
    read_s: float
    stale_s: float = 30.0
    """Older than this, what it says is not known any more."""
    covers: tuple[Condition, ...] = ()
    """The conditions that it could tell of: unknown while it fails."""
    failed: str = ""
    """Why nothing could be read, or why this is not the platform that was asked for; empty when it was read."""
    notices: tuple[Notice, ...] = ()
    """Announcements that are live now. Each identity begins with ``<source>:``."""
    readings: tuple[Reading, ...] = ()
    """Values read as such. A notice condition that is identified, read and not announced is a reading of False."""
    ends: tuple[AllottedEnd, ...] = ()
    memory: Memory | None = None
    node: Node | None = None
    storage: Storage | None = None
    heat: Heat | None = None
    counts: tuple[Count, ...] = ()
    parts: tuple[Part, ...] = ()
    restarts: int | None = None
    """How often the batch system has started this job again."""


@frozen(kw_only=True)
class Volume:
    """What an ordinary user may still write on the volume."""

    free_bytes: int
    total_bytes: int
    free_inodes: int | None = None
    """None: the file system does not count them."""


@frozen(kw_only=True)
class FailedWrite:
    """A write that the job itself says has failed for want of space."""

    bytes: int
    errno: int


@frozen(kw_only=True)
class Job:
    """What is known of the job besides its copies; every field may be unknown."""

    started_s: float | None = None
    alive: bool | None = None
    """False only with proof: its process is gone."""
    write_s: float | None = None
    bytes: int | None = None
    ranks: int | None = None
    ends_s: float | None = None
    restarts: int | None = None
    failed: FailedWrite | None = None
    memory: Memory | None = None
    """What the job itself tells of its memory."""
    identity: str = ""
    """Changes when another job took over; empty when nothing tells."""


@frozen(kw_only=True)
class Ending:
    """The mark that training is over."""

    identity: str
    """Name, inode and mtime of the mark."""
    seen_s: float
    written_s: float = 0.0
    """Its mtime, corrected by the volume's clock: compared only with other times of the same volume."""


@frozen(kw_only=True)
class Trouble:
    """Something that cannot be read; it is said once and decides nothing."""

    key: str
    reason: str
    """The condition's name, ``glue``, ``numbers`` or ``job.json``."""
    text: str
    condition: Condition | None = None


@frozen(kw_only=True)
class Leftover:
    """A temporary file or folder of a write that died."""

    name: str
    bytes: int


@frozen(kw_only=True)
class Observation:
    """The world of one unit at one moment: all that a decision may rest on."""

    unit: str
    now_s: float
    blind: str = ""
    """Why the unit cannot be read or its state cannot be written; empty when it can."""
    copies: tuple[Copy, ...] = ()
    """The copies that matter, oldest first: the newest few, the newest sound one, all that are being written."""
    notices: tuple[Notice, ...] = ()
    unread_names: tuple[str, ...] = ()
    """Drop-in files that are there and of which nothing can be said: what they announced before still holds."""
    readings: tuple[Reading, ...] = ()
    reports: tuple[Report, ...] = ()
    """The latest report of each source."""
    volume: Volume | None = None
    copy_count: int = 0
    stages_beside: bool = False
    """A write of the copies' format needs the space of two copies at its peak."""
    leftovers: tuple[Leftover, ...] = ()
    """What writes that died have left, oldest first."""
    job: Job = Job()
    ending: Ending | None = None
    troubles: tuple[Trouble, ...] = ()
    poll_s: float = 1.0
    visibility_lag_s: float = 0.0
    heard_id: int | None = None
    """The last request id that the job says it has read (``glue/seen``)."""
    heard_s: float | None = None
