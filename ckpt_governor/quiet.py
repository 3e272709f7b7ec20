"""Whether a look shows anything new: what has not changed is not decided anew for a while."""

from __future__ import annotations

from attrs import evolve, frozen

from ckpt_governor.answers import aged
from ckpt_governor.facts import CopyStatus, Job, Notice, Observation
from ckpt_governor.intake import end_wait_s
from ckpt_governor.ledger import Decision, Ledger, open_causes
from ckpt_governor.numbers import Numbers
from ckpt_governor.observe.copies import Look
from ckpt_governor.observe.glue import GlueLook
from ckpt_governor.rules import window_wait_s
from ckpt_governor.situation import situation_of

QUIET_S_MAX = 15.0
"""All is looked at and decided anew after this time, also when nothing changed: free space, the job's process."""


@frozen(kw_only=True)
class Tick:
    """What one tick leads to."""

    world: Observation
    ledger: Ledger
    decisions: tuple[Decision, ...]
    wait_s: float
    """How long to sleep before the next one."""
    again: bool = False
    """A second look is due before anything can be said of a file that just came."""


@frozen(kw_only=True)
class Quiet:
    """A tick that need not be repeated while its look stays the same."""

    key: tuple[object, ...]
    until_s: float
    tick: Tick


def seen_key(
    look: Look, glue: GlueLook, notices: tuple[Notice, ...], job: Job | None, numbers: Numbers
) -> tuple[object, ...]:
    """What two looks have in common when nothing happened; moments that only jitter are left out or rounded."""
    return (
        look.blind,
        glue.blind,
        tuple((one.name, one.fingerprint, one.structure, one.inode, one.also) for one in look.sightings),
        look.dangling,
        look.pointers,
        look.pointer_files,
        look.copy_count,
        tuple(_notice_key(notice) for notice in (*notices, *glue.notices)),
        glue.ending.identity if glue.ending is not None else "",
        glue.job,
        glue.seen_id,
        glue.troubles,
        glue.unread,
        job,
        numbers,
    )


def _notice_key(notice: Notice) -> tuple[object, ...]:
    deadline_s = None if notice.deadline_s is None else round(notice.deadline_s, 1)
    return (notice.identity, deadline_s, notice.text, notice.ack_name)


def rest_until_s(world: Observation, numbers: Numbers, ledger: Ledger) -> float:
    """Until when the same look would lead to nothing: a while, or the moment at which time alone brings something."""
    situation = situation_of(world, numbers, ledger)
    window_s = window_wait_s(situation)
    end_s = end_wait_s(world, numbers, ledger, situation.costs)
    return world.now_s + min(QUIET_S_MAX, window_s, end_s)


def is_settled(world: Observation, ledger: Ledger) -> bool:
    """Whether nothing is asked, wanted or being written, so that only time or a change can lead to a decision."""
    writing = any(copy.status is CopyStatus.WRITING for copy in world.copies)
    return not world.blind and ledger.request is None and not writing and not open_causes(ledger)


def rested(world: Observation | None, ledger: Ledger, look_s: float | None) -> Ledger:
    """The ledger that knows how stale the newest copy became up to the last look, though that decided nothing."""
    if world is None or look_s is None or look_s <= world.now_s or world.blind:
        return ledger
    return aged(evolve(world, now_s=look_s), ledger)
