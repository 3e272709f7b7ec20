"""Whether a look shows anything new: what has not changed is not decided anew for a while."""

from __future__ import annotations

from attrs import frozen

from ckpt_governor.facts import CopyStatus, Job, Notice, Observation
from ckpt_governor.ledger import Decision, Ledger, open_causes
from ckpt_governor.numbers import Numbers
from ckpt_governor.observe.copies import Look
from ckpt_governor.observe.glue import GlueLook


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
        tuple((one.name, one.fingerprint, one.structure, one.inode, one.also) for one in look.sightings),
        look.dangling,
        look.pointers,
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


def is_settled(world: Observation, ledger: Ledger) -> bool:
    """Whether nothing is asked, wanted or being written, so that only time or a change can lead to a decision."""
    writing = any(copy.status is CopyStatus.WRITING for copy in world.copies)
    return not world.blind and ledger.request is None and not writing and not open_causes(ledger)
