"""Before the rules: what cannot be read is said, what is over is closed. Pure."""

from __future__ import annotations

from attrs import evolve

from ckpt_governor.answers import end_served, finished, in_flight, serves
from ckpt_governor.conditions import Condition
from ckpt_governor.copies import newest
from ckpt_governor.durations import format_duration
from ckpt_governor.facts import CopyStatus, Observation, Trouble
from ckpt_governor.ledger import (
    CauseState,
    Refusal,
    Verdict,
    change_cause,
    change_run,
    open_causes,
    said,
    say,
)
from ckpt_governor.situation import Pen
from ckpt_governor.wording import leftovers_text

TROUBLES_MAX = 100
"""Lines about what cannot be read; the surplus is one line."""


def say_troubles(world: Observation, pen: Pen) -> None:
    """What cannot be read is said once, and again when it was readable in between."""
    troubles = world.troubles
    if len(troubles) > TROUBLES_MAX:
        text = f"{len(troubles) - TROUBLES_MAX} more things cannot be read"
        troubles = (*troubles[:TROUBLES_MAX], Trouble(key="more", reason="unit", text=text))
    present = {f"trouble:{trouble.key}" for trouble in troubles}
    gone = [key for key in pen.ledger.said if key.startswith("trouble:") and key not in present]
    if gone:
        pen.ledger = evolve(pen.ledger, said=tuple(key for key in pen.ledger.said if key not in gone))
    for trouble in troubles:
        key = f"trouble:{trouble.key}"
        pen.write(Verdict.UNKNOWN, trouble.reason, trouble.text, cause=key, once=key)


def say_leftovers(world: Observation, pen: Pen) -> None:
    """What writes that died have left is named once, with its bytes; all that is new at a look in one line."""
    present = {f"leftover:{left.name}" for left in world.leftovers}
    gone = [key for key in pen.ledger.said if key.startswith("leftover:") and key not in present]
    if gone:
        pen.ledger = evolve(pen.ledger, said=tuple(key for key in pen.ledger.said if key not in gone))
    fresh = [left for left in world.leftovers if not said(pen.ledger, f"leftover:{left.name}")]
    for left in fresh:
        pen.ledger = say(pen.ledger, f"leftover:{left.name}")
    if fresh:
        text = f"left of a write that died: {leftovers_text(fresh)}"
        pen.write(Verdict.UNKNOWN, "leftover", text, cause="leftover:")


def expire(world: Observation, pen: Pen) -> None:
    """A deadline that has passed is missed; whoever waits for its write is told."""
    for cause in open_causes(pen.ledger):
        if cause.deadline_s is None or cause.deadline_s > world.now_s:
            continue
        if cause.key.startswith("broken:"):
            pen.ledger = change_cause(pen.ledger, cause.key, deadline_s=None)  # it only inherited it
            continue
        late = format_duration(world.now_s - cause.deadline_s)
        request = pen.ledger.request
        if cause.state is CauseState.ASKED and request is not None:
            pen.ledger = change_run(pen.ledger, unserved=pen.ledger.run.unserved + 1)
            if in_flight(world, pen.ledger) is not None:
                pen.refuse(cause, Refusal.NO_TIME, "the deadline has passed while the write was going on")
            else:
                asked = format_duration(world.now_s - request.first_at_s)
                pen.refuse(cause, Refusal.UNHEARD, f"asked {asked} ago, and the deadline has passed")
        else:
            pen.refuse(cause, Refusal.NO_TIME, f"{cause.reason}: the deadline passed {late} ago")
        pen.ledger = change_cause(pen.ledger, cause.key, state=CauseState.MISSED)


def give_up_orphans(world: Observation, pen: Pen) -> None:
    """When the job is gone nobody is left to write: what is there is judged, and the request closed."""
    if world.job.alive is not False or in_flight(world, pen.ledger) is not None:
        return
    top = newest(world.copies)
    if top is not None and top.status is CopyStatus.WRITING:
        return  # an incomplete copy that will turn out to be broken: judged first
    for cause in open_causes(pen.ledger):
        ends = cause.key.startswith("end:")
        if ends or cause.reason == Condition.TERMINATE.value:
            pen.ledger = change_cause(pen.ledger, cause.key, state=CauseState.MISSED)
            pen.refuse(cause, Refusal.UNHEARD, f"{cause.reason}: the job is gone, nobody is left to write")
        if ends:
            sound = top is not None and top.status is CopyStatus.SOUND
            pen.ledger = end_served(cause, world.now_s, sound, pen.ledger)


def say_end(world: Observation, pen: Pen) -> None:
    """Training's end that the job's own last copy serves gets its line like one that was asked for."""
    for cause in pen.ledger.causes:
        if not cause.key.startswith("end:") or cause.asked_count:
            continue
        writing = in_flight(world, pen.ledger)
        if cause.state is CauseState.SERVED:
            name = next((copy.name for copy in world.copies if copy.serial == cause.served_by), "")
        elif cause.open and writing is not None and serves(writing, cause, world):
            name = writing.name
        else:
            continue
        pen.write(
            Verdict.SAVE, cause.reason, f"{cause.text}, {name}", cause=cause.key, once=f"save:{cause.key}"
        )


def say_withdrawn(world: Observation, pen: Pen) -> None:
    """A repair that was asked for is wanted no more: what has become of the copy that it was for."""
    for cause in pen.ledger.causes:
        asked = cause.key.startswith("broken:") and cause.asked_count > 0
        if not asked or cause.state is not CauseState.WITHDRAWN:
            continue
        serial, top = cause.key.partition(":")[2], newest(world.copies)
        copy = next((copy for copy in world.copies if str(copy.serial) == serial), None)
        if top is not None and top is not copy and top.status is CopyStatus.BROKEN:
            continue  # another broken copy came: the repair that is asked for that one says so
        if copy is None:
            text = "the broken copy is gone"
        elif copy.status is CopyStatus.SOUND:
            text = f"{copy.name} is sound after all"
        elif top is not None and top is not copy and copy.status is CopyStatus.BROKEN:
            text = f"{top.name} came after {copy.name} and is {top.status.value}"
        elif copy.status is CopyStatus.WRITING:
            text = f"{copy.name} changes again"
        else:
            text = f"{copy.name} cannot be judged any more: {copy.why}"
        pen.write(Verdict.REPAIR, "withdrawn", text, cause=cause.key)


def say_unknown_answers(world: Observation, pen: Pen) -> None:
    """A request was answered by a copy that cannot be judged."""
    for cause in pen.ledger.causes:
        if cause.state is not CauseState.MISSED or cause.served_by is None:
            continue
        for copy in finished(world):
            if copy.serial == cause.served_by and copy.status is CopyStatus.UNKNOWN:
                text = f"{copy.name} came, and whether it is sound cannot be told: {copy.why}"
                pen.write(Verdict.UNKNOWN, cause.reason, text, cause=cause.key, once=f"unknown:{cause.key}")
