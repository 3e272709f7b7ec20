"""Follows copies over time: what is sighted, joined with what was known, is writing, sound, broken or unknown. Pure.

Only the governor's own clock counts. A time that the file system tells (``written_s``) decides three things, where
nobody was looking: the order of the copies of the first look, whether one of those that has no shape is still being
written, and when a copy began that came while the governor was away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

from attrs import evolve, frozen

from ckpt_governor.facts import Copy, CopyStatus, Sighting, SmallSize, Structure
from ckpt_governor.sizes import too_small

COPIES_MAX = 256
AWAY_S = 5.0
"""A longer time between two looks is one in which nobody looked: a restart, a suspend, a hung volume."""
TAIL_S = 5.0
"""How soon after a copy was first judged sound the same bytes may still change their times: Lightning moves a file to
another device and then sets its mtime back."""
UNWATCHED_S = 30.0
HISTORY_S = 60.0

BEING_DELETED = "being deleted"
HALF_DELETED = "half deleted"
TEMPORARY = "still under a temporary name"
LEFTOVER = "leftover of a write"

_DELETIONS = (BEING_DELETED, HALF_DELETED)


@frozen(kw_only=True)
class Settle:
    """How long without a change is quiet enough."""

    broken_s: float
    """After this an incomplete copy counts as broken."""
    sound_s: float
    """After this a copy that has no shape counts as sound."""


@frozen(kw_only=True)
class _Moment:
    now_s: float
    former_look_s: float | None
    asked_s: float | None
    settle: Settle
    first: bool

    @property
    def gap_s(self) -> float:
        return 0.0 if self.former_look_s is None else self.now_s - self.former_look_s

    @property
    def away(self) -> bool:
        return self.gap_s > AWAY_S

    @property
    def unwatched(self) -> bool:
        """A quiet time that may have passed while the volume hung or the machine slept proves nothing yet."""
        return self.gap_s >= max(UNWATCHED_S, self.settle.broken_s)


def follow(
    former: tuple[Copy, ...],
    look: tuple[Sighting, ...],
    *,
    now_s: float,
    former_look_s: float | None,
    asked_s: float | None,
    settle: Settle,
    last_serial: int = 0,
) -> tuple[Copy, ...]:
    """The copies after this look, oldest first.

    ``asked_s`` is the moment of the open request. ``last_serial`` is the highest serial that this unit ever had: it
    matters when every copy that bore one is gone.
    """
    first = former_look_s is None and not former
    moment = _Moment(now_s=now_s, former_look_s=former_look_s, asked_s=asked_s, settle=settle, first=first)
    pairs, strangers = _joined(former, look, moment)
    begun = [(_begun(new, moment), new) for new in strangers if not _history(new, look, moment)]
    known: list[tuple[Copy, Sighting]] = []
    for copy, sighting, same in pairs:
        if _begins_anew(copy, sighting, same, former, moment):
            # A write that looked like a deletion began when the name first lost bytes.
            since_s = copy.changed_s if copy.why in _DELETIONS else None
            begun.append((_begun(sighting, moment, since_s), sighting))
        else:
            known.append((_carried_on(copy, sighting, former, moment), sighting))
    serial = max((last_serial, *(copy.serial for copy in former)))
    known += _half_deleted(_numbered(begun, serial, moment)) if first else _numbered(begun, serial, moment)
    return _bounded(_judged(known, moment))


def newest(copies: Iterable[Copy]) -> Copy | None:
    """The newest copy, whatever it is worth; a temporary or one that is being deleted is none."""
    there = (copy for copy in copies if not copy.temporary and copy.why not in _DELETIONS)
    return max(there, key=lambda copy: copy.serial, default=None)


def newest_sound(copies: Iterable[Copy]) -> Copy | None:
    """The newest copy that is sound."""
    sound = (copy for copy in copies if copy.status is CopyStatus.SOUND and not copy.temporary)
    return max(sound, key=lambda copy: copy.serial, default=None)


def being_written(copies: Iterable[Copy]) -> tuple[Copy, ...]:
    """The writes in progress, oldest first, under temporary names or final ones."""
    return tuple(copy for copy in copies if copy.status is CopyStatus.WRITING and copy.why != BEING_DELETED)


# Which sighting is which copy


def _joined(
    former: tuple[Copy, ...], look: tuple[Sighting, ...], moment: _Moment
) -> tuple[list[tuple[Copy, Sighting, bool]], list[Sighting]]:
    """Pairs of a known copy and its sighting, whether that is the same thing (else: only the name); and the rest."""
    left = {sighting.name: sighting for sighting in sorted(look, key=lambda sighting: sighting.name)}
    names, by_inode = frozenset(left), {sighting.inode: sighting for sighting in look}

    def in_place(copy: Copy) -> Sighting | None:
        new = left.get(copy.name)
        return new if new and (copy.inode == new.inode or _unchanged(copy, new, moment)) else None

    def renamed(copy: Copy) -> Sighting | None:
        new = by_inode.get(copy.inode)
        # An inode number under another name is another file's by now, unless nothing but the name changed.
        same = new is not None and (copy.temporary or copy.fingerprint == new.fingerprint)
        return new if new and new.name in left and same else None

    def committed(copy: Copy) -> Sighting | None:
        gone = copy.temporary and copy.why != LEFTOVER and copy.name not in names
        finals = [new for new in left.values() if _commits(copy, new)] if gone else []
        return max(finals, key=lambda new: len(new.name), default=None)

    def replaced(copy: Copy) -> Sighting | None:
        return left.get(copy.name)

    def moved(copy: Copy) -> Sighting | None:
        gone = copy.name not in names
        return next((new for new in left.values() if _looks_like(copy, new)), None) if gone else None

    pairs: list[tuple[Copy, Sighting, bool]] = []
    rest = list(former)
    for rule in (in_place, renamed, committed, replaced, moved):
        trying, rest = rest, []
        for copy in trying:
            if (new := rule(copy)) is None:
                rest.append(copy)
                continue
            if rule is moved:
                copy = evolve(copy, fingerprint=new.fingerprint)  # noqa: PLW2901 - its bytes are the same
            pairs.append((copy, left.pop(new.name), rule is not replaced))
    return pairs, list(left.values())


def _unchanged(copy: Copy, sighting: Sighting, moment: _Moment) -> bool:
    """By its fingerprint. After a time in which nobody looked, what follows the fingerprint's first ``.`` is enough:
    object stores give new inode numbers at every mount, and all copies would count as new writes."""
    if copy.fingerprint == sighting.fingerprint:
        return True
    content = copy.fingerprint.partition(".")[2]
    return moment.away and content != "" and content == sighting.fingerprint.partition(".")[2]


def _commits(copy: Copy, new: Sighting) -> bool:
    """Whether a temporary that is gone lives on under this name: where a rename makes a new inode (object stores)."""
    folder, _, temporary = copy.name.rpartition("/")
    new_folder, _, final = new.name.rpartition("/")
    return not new.temporary and folder == new_folder and final.partition(".")[0] in temporary


def _looks_like(copy: Copy, new: Sighting) -> bool:
    """Whether a sound copy that is gone is this one: it was moved by copying, or only a copied twin is left."""
    same = (copy.step, copy.bytes, copy.format) == (new.step, new.bytes, new.format)
    return same and copy.step is not None and copy.status is CopyStatus.SOUND and not new.temporary


def _history(sighting: Sighting, look: tuple[Sighting, ...], moment: _Moment) -> bool:
    """Whether a stranger is an old copy that the bound once dropped. Only where there are more than the bound."""
    if moment.first or moment.former_look_s is None or len(look) <= COPIES_MAX:
        return False
    return not sighting.temporary and sighting.written_s < moment.former_look_s - HISTORY_S


# What a sighting makes of a copy


def _begins_anew(copy: Copy, sighting: Sighting, same: bool, former: Sequence[Copy], moment: _Moment) -> bool:
    """Whether this is another write than the one we know under this name."""
    if not same:
        return True
    if _unchanged(copy, sighting, moment):
        return False
    if copy.why in _DELETIONS:
        return sighting.bytes > copy.bytes
    if _losing(copy, sighting, former):
        return False
    if copy.status is CopyStatus.SOUND:
        return not (_tail_of_write(copy, sighting, moment) or _late_part(copy, sighting, moment))
    if copy.status is CopyStatus.BROKEN:
        return sighting.bytes < copy.bytes
    if copy.why == LEFTOVER:
        return True  # the name of a dead write is used again; were it the old write, its time would be absurd
    return copy.status is CopyStatus.WRITING and 2 * sighting.bytes < copy.bytes


def _tail_of_write(copy: Copy, sighting: Sighting, moment: _Moment) -> bool:
    """The same whole bytes got other times right after they were judged sound, and nobody had asked for a write."""
    if moment.asked_s is not None or copy.inode != sighting.inode or copy.bytes != sighting.bytes:
        return False
    first_sound_s = copy.sound_s if copy.sound_s is not None else moment.now_s
    at_former_look = moment.former_look_s is not None and first_sound_s >= moment.former_look_s
    soon = moment.now_s - first_sound_s <= TAIL_S
    return sighting.structure is Structure.COMPLETE and at_former_look and soon


def _late_part(copy: Copy, sighting: Sighting, moment: _Moment) -> bool:
    """A copy without a shape was called sound in a pause of its write, and grows on."""
    grows = sighting.structure is not Structure.COMPLETE and sighting.bytes > copy.bytes
    soon = moment.now_s - copy.changed_s < 2.0 * moment.settle.sound_s
    unasked = moment.asked_s is None or moment.asked_s <= copy.began_s
    return grows and soon and unasked and copy.inode == sighting.inode


def _losing(copy: Copy, sighting: Sighting, former: Sequence[Copy]) -> bool:
    """An older copy only loses bytes: somebody deletes it, which takes its time in a folder."""
    newer = any(other.status is CopyStatus.SOUND and other.serial > copy.serial for other in former)
    return newer and sighting.bytes < copy.bytes and not copy.temporary


def _carried_on(copy: Copy, sighting: Sighting, former: Sequence[Copy], moment: _Moment) -> Copy:
    """The same copy, as it looks now; its status is judged afterwards."""
    committed = copy.temporary and not sighting.temporary
    # Its bytes may have changed behind an unchanged time: a sound copy that lost its end is looked at afresh.
    spoilt = copy.status is CopyStatus.SOUND and bool(
        sighting.structure is Structure.INCOMPLETE or sighting.lost
    )
    changed = committed or spoilt or not _unchanged(copy, sighting, moment)
    if not changed and copy.name == sighting.name and copy.inode == sighting.inode:
        return copy
    now = evolve(copy, **_seen(sighting), step=copy.step if sighting.step is None else sighting.step)
    if not changed:
        return now
    deleted = copy.why in _DELETIONS or _losing(copy, sighting, former)
    tail = sighting.structure is Structure.COMPLETE
    quiet_s = moment.now_s - copy.changed_s
    return evolve(
        now,
        changed_s=moment.now_s,
        sound_s=copy.sound_s if tail else None,
        longest_quiet_s=copy.longest_quiet_s if deleted else max(copy.longest_quiet_s, quiet_s),
        status=CopyStatus.WRITING,
        why=BEING_DELETED if deleted else "",
    )


def _begun(sighting: Sighting, moment: _Moment, since_s: float | None = None) -> Copy:
    """A write that is new to us, and when it began as far as that was seen; its serial comes later."""
    now_s, former_look_s = moment.now_s, moment.former_look_s
    whole = sighting.structure is Structure.COMPLETE and not (sighting.temporary or sighting.lost)
    answered, unseen = False, False
    if moment.first:
        began_s = min(sighting.written_s, now_s)
    elif since_s is not None:
        began_s = since_s
    elif moment.away and former_look_s is not None:
        began_s = min(max(sighting.written_s, former_look_s), now_s)
        unseen = whole
    else:
        answered = whole and moment.asked_s is not None
        began_s = min(moment.asked_s, now_s) if answered and moment.asked_s is not None else now_s
    return Copy(
        **_seen(sighting),
        serial=0,
        step=sighting.step,
        status=CopyStatus.WRITING,
        why="",
        first_seen_s=now_s,
        began_s=began_s,
        changed_s=began_s if unseen else now_s,  # no write time is learned from what nobody saw
        pre_existing=moment.first,
        answered=answered,
    )


def _seen(sighting: Sighting) -> dict[str, Any]:
    """What a copy takes over from every sighting."""
    names = ("name", "format", "bytes", "fingerprint", "inode", "written_s", "temporary")
    return {name: getattr(sighting, name) for name in names}


def _numbered(
    begun: list[tuple[Copy, Sighting]], serial: int, moment: _Moment
) -> list[tuple[Copy, Sighting]]:
    """With serials that go on from this one, in the order in which they were written.

    At the first look steps tell the order better than times, which file systems fake; a temporary comes last.
    """
    if moment.first:
        by_step = all(copy.step is not None for copy, _ in begun if not copy.temporary)
        begun.sort(key=lambda new: (new[0].temporary, (by_step and new[0].step) or 0, new[0].written_s))
        begun = begun[-COPIES_MAX:]
    else:
        begun.sort(key=lambda new: (new[0].began_s, new[0].step or 0))
    return [(evolve(copy, serial=serial + n), sighting) for n, (copy, sighting) in enumerate(begun, 1)]


def _half_deleted(found: list[tuple[Copy, Sighting]]) -> list[tuple[Copy, Sighting]]:
    """The copies of the first look, oldest first. One that lacks something, and in whose folder a name came or went
    after a newer one was there as a whole, is being deleted: a write that died touches nothing any more."""
    marked: list[tuple[Copy, Sighting]] = []
    newer_s = inf
    for copy, sighting in reversed(found):
        lacking = sighting.structure is Structure.INCOMPLETE or sighting.lacks != ""
        if lacking and not copy.temporary and sighting.listed_s > newer_s:
            copy = evolve(copy, why=BEING_DELETED)  # noqa: PLW2901 - the same copy
        elif sighting.structure is Structure.COMPLETE and not (lacking or copy.temporary):
            newer_s = min(newer_s, sighting.written_s)
        marked.append((copy, sighting))
    return marked[::-1]


# What it is worth


def _judged(known: list[tuple[Copy, Sighting]], moment: _Moment) -> list[Copy]:
    """The copies with their status, oldest first: a copy may be compared with those before it."""
    judged: list[Copy] = []
    for copy, sighting in sorted(known, key=lambda pair: pair[0].serial):
        judged.append(_judge(copy, sighting, judged, moment))
    return judged


def _judge(copy: Copy, sighting: Sighting, elders: Sequence[Copy], moment: _Moment) -> Copy:
    if copy.status is CopyStatus.SOUND and not copy.temporary:
        return copy  # whatever would unmake it has made it WRITING before
    status, why = _status(copy, sighting, elders, moment)
    if status is copy.status and why == copy.why:
        return copy
    if status is not CopyStatus.SOUND:
        return evolve(copy, status=status, why=why)
    asked_s = moment.asked_s if sighting.structure is Structure.SHAPELESS and not copy.pre_existing else None
    if asked_s is not None and asked_s <= copy.began_s == copy.first_seen_s == copy.changed_s:
        # It was all there at first sight and never changed: it came whole, as an answer.
        copy = evolve(copy, began_s=asked_s, answered=True)
    return evolve(
        copy, status=status, why=why, sound_s=moment.now_s if copy.sound_s is None else copy.sound_s
    )


def _status(
    copy: Copy, sighting: Sighting, elders: Sequence[Copy], moment: _Moment
) -> tuple[CopyStatus, str]:
    quiet_s = moment.now_s - copy.changed_s
    # What was judged broken stays so while nothing changes, also when a longer quiet time has been learned since.
    quiet = quiet_s >= moment.settle.broken_s and not moment.unwatched
    dead = quiet or copy.status is CopyStatus.BROKEN
    if copy.temporary:
        return (CopyStatus.UNKNOWN, LEFTOVER) if dead else (CopyStatus.WRITING, TEMPORARY)
    if sighting.structure is Structure.COMPLETE and not (sighting.lacks or sighting.lost):
        return CopyStatus.SOUND, sighting.why
    if sighting.structure is Structure.UNREADABLE:
        return CopyStatus.UNKNOWN, sighting.why
    if copy.why in _DELETIONS:
        return (CopyStatus.UNKNOWN, HALF_DELETED) if dead else (CopyStatus.WRITING, BEING_DELETED)
    incomplete = sighting.structure is Structure.INCOMPLETE
    missing = sighting.why if incomplete else sighting.lost or sighting.lacks
    if not missing and sighting.small is not SmallSize.NOTHING:
        missing = too_small(copy, elders)
    by_size = missing and missing not in (sighting.why, sighting.lost, sighting.lacks)
    doubtful = (
        sighting.small is SmallSize.DOUBT if by_size else sighting.renewed and missing == sighting.lacks
    )
    if (incomplete or missing) and not doubtful:
        return (CopyStatus.BROKEN if dead else CopyStatus.WRITING), missing
    if doubtful or sighting.structure is Structure.AMBIGUOUS:
        dead = dead or copy.status is CopyStatus.UNKNOWN
        return (CopyStatus.UNKNOWN if dead else CopyStatus.WRITING), missing or sighting.why
    if moment.first:
        quiet_s = moment.now_s - sighting.written_s  # or every restart would wait for copies of last week
    return (CopyStatus.SOUND if quiet_s >= moment.settle.sound_s else CopyStatus.WRITING), sighting.why


def _bounded(copies: list[Copy]) -> tuple[Copy, ...]:
    """At most as many as may be kept: the oldest settled ones go first, the newest sound one never."""
    surplus = len(copies) - COPIES_MAX
    if surplus <= 0:
        return tuple(copies)
    sound = newest_sound(copies)
    order = sorted(copies, key=lambda copy: (copy.status is CopyStatus.WRITING, copy.serial))
    dropped = {copy.serial for copy in [copy for copy in order if copy is not sound][:surplus]}
    return tuple(copy for copy in copies if copy.serial not in dropped)
