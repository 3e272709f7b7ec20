"""The last rule: what is due and fits shares one request, what does not fit is refused with its reason. Pure."""

from __future__ import annotations

from attrs import evolve

from ckpt_governor.answers import holds_up, serves
from ckpt_governor.durations import format_duration
from ckpt_governor.ledger import (
    Cause,
    CauseState,
    Ledger,
    Refusal,
    Request,
    RequestKind,
    Verdict,
    change_cause,
    change_run,
    next_id,
    open_causes,
)
from ckpt_governor.placement import space_misfit, time_misfit
from ckpt_governor.rules import reissue
from ckpt_governor.situation import Pen, Situation

OVERDUE_S = 15.0
"""An unanswered request older than this, while no write was ever seen, gets a new id when a new cause joins it."""
OVERDUE_MARGIN_S = 5.0


def ask(situation: Situation, pen: Pen) -> None:
    """What is due and fits shares one request; what does not fit is refused, each with its reason."""
    _say_released(situation, pen)
    due = [cause for cause in open_causes(pen.ledger) if _is_due(cause, situation)]
    due = [cause for cause in due if not _is_being_served(cause, situation, pen)]
    due = [cause for cause in due if _fits_time(cause, situation, pen)]
    due = [cause for cause in due if not _waits_for_write(cause, situation, pen)]
    due = [cause for cause in due if _fits_space(cause, situation, pen)]
    due += _overlapping(due, situation, pen)
    if due and pen.ledger.request is not None:
        _join(due, pen.ledger.request, situation, pen)
    elif due:
        _request(due, situation, pen)
    pen.ledger = _refreshed(pen.ledger)


def _is_due(cause: Cause, situation: Situation) -> bool:
    return cause.state is CauseState.WAITING and cause.since_s <= situation.now_s


def _say_released(situation: Situation, pen: Pen) -> None:
    """A deadline moved so near that what was asked for no longer fits: the request stays, its hook is let go."""
    for cause in open_causes(pen.ledger):
        if cause.state is CauseState.ASKED and cause.released:
            misfit = time_misfit(cause.deadline_s, situation.costs, situation.now_s)
            if misfit is not None:
                pen.refuse(cause, misfit.refusal, misfit.text)


def _is_being_served(cause: Cause, situation: Situation, pen: Pen) -> bool:
    """A write that began after the cause serves it."""
    writing = situation.writing
    if writing is None or not serves(writing, cause, situation.world):
        return False
    if not cause.key.startswith("end:"):  # training's end has its line with the copy's name already
        text = f"{cause.reason}: the write of {writing.name} that has begun serves it"
        pen.refuse(cause, Refusal.IN_FLIGHT, text)
    return True


def _fits_time(cause: Cause, situation: Situation, pen: Pen) -> bool:
    """A write that cannot be sound before the deadline is refused for good, and its hook let go."""
    misfit = time_misfit(cause.deadline_s, situation.costs, situation.now_s)
    if misfit is None:
        return True
    pen.refuse(cause, misfit.refusal, misfit.text)
    pen.ledger = change_cause(pen.ledger, cause.key, state=CauseState.UNFIT)
    return False


def _waits_for_write(cause: Cause, situation: Situation, pen: Pen) -> bool:
    """A write is going on that began before the cause: its own write comes after it, while there is time to wait."""
    writing = situation.writing
    if writing is None or not holds_up(writing, situation.costs.write_s, situation.now_s):
        return False
    if cause.deadline_s is not None:
        left_s, need_s = cause.deadline_s - situation.now_s, situation.costs.need_s
        if need_s is None or left_s <= need_s + situation.costs.lag_s:
            return False
    text = f"{cause.reason}: {writing.name} is being written and began before; the next write is asked for after it"
    if cause.key.startswith("window:"):
        text = f"{cause.reason}: {writing.name} is being written and will renew it"
    pen.refuse(cause, Refusal.IN_FLIGHT, text)
    return True


def _fits_space(cause: Cause, situation: Situation, pen: Pen) -> bool:
    """A write that would fill the volume is refused until there is space; whoever waits for it is let go."""
    misfit = space_misfit(situation.world, situation.numbers, pen.ledger, situation.costs)
    if misfit is None:
        return True
    verdict = Verdict.INFEASIBLE if misfit.for_ever else Verdict.SKIP
    pen.refuse(cause, misfit.refusal, f"{cause.reason}: {misfit.text}", verdict=verdict)
    pen.ledger = change_cause(pen.ledger, cause.key, released=True)
    return False


def _overlapping(due: list[Cause], situation: Situation, pen: Pen) -> list[Cause]:
    """Placed writes whose windows overlap that of the write that is due, or asked for and not begun, share it."""
    asked = [cause for cause in open_causes(pen.ledger) if cause.state is CauseState.ASKED]
    if situation.writing is not None:
        asked = []
    if not due and not asked:
        return []
    if space_misfit(situation.world, situation.numbers, pen.ledger, situation.costs) is not None:
        return []  # a joining cause may bring a new id, and none is issued for what does not fit
    reach_s = situation.now_s + (situation.costs.write_s or 0.0) + situation.costs.gap_s
    ends_s = max((other.deadline_s if other.deadline_s is not None else reach_s) for other in (*due, *asked))
    return [
        cause
        for cause in open_causes(pen.ledger)
        if cause not in due
        and cause.state is CauseState.WAITING
        and cause.deadline_s is not None
        and situation.now_s < cause.since_s <= ends_s
        and time_misfit(cause.deadline_s, situation.costs, situation.now_s) is None
    ]


def _refreshed(ledger: Ledger) -> Ledger:
    """The request's reason, kind and deadline are those of the causes that it is open for now."""
    asked = [cause for cause in ledger.causes if cause.state is CauseState.ASKED]
    if ledger.request is None or not asked:
        return ledger
    deadlines = [cause.deadline_s for cause in asked if cause.deadline_s is not None]
    repair = any(cause.key.startswith("broken:") for cause in asked)
    request = evolve(
        ledger.request,
        reason=_lead(asked).reason,
        kind=RequestKind.REPAIR if repair else RequestKind.SAVE,
        deadline_s=min(deadlines, default=None),
    )
    return ledger if request == ledger.request else evolve(ledger, request=request)


def _lead(causes: list[Cause]) -> Cause:
    """The cause that names the write: training's end, else the earliest deadline, else the first in rule order."""
    for cause in causes:
        if cause.key.startswith("end:"):
            return cause
    dated = [cause for cause in causes if cause.deadline_s is not None]
    if dated:
        return min(dated, key=lambda cause: cause.deadline_s or 0.0)
    order = ("notice:", "edge:", "window:", "broken:")
    return min(
        causes,
        key=lambda cause: next(
            (i for i, prefix in enumerate(order) if cause.key.startswith(prefix)), len(order)
        ),
    )


def _request(due: list[Cause], situation: Situation, pen: Pen) -> None:
    """Issues one request for all that is due, and the one line that says why."""
    lead = _lead(due)
    broken = next((cause for cause in due if cause.key.startswith("broken:")), None)
    deadlines = [cause.deadline_s for cause in due if cause.deadline_s is not None]
    request = Request(
        id=next_id(pen.ledger, situation.now_s),
        kind=RequestKind.SAVE if broken is None else RequestKind.REPAIR,
        reason=lead.reason,
        at_s=situation.now_s,
        first_at_s=situation.now_s,
        deadline_s=min(deadlines, default=None),
        patience_from_s=situation.now_s,
    )
    pen.ledger = evolve(pen.ledger, request=request, last_id=request.id, last_asked_s=situation.now_s)
    pen.ledger = change_run(pen.ledger, asked=pen.ledger.run.asked + 1)
    for cause in due:
        pen.ledger = change_cause(
            pen.ledger,
            cause.key,
            state=CauseState.ASKED,
            asked_count=cause.asked_count + 1,
            since_s=min(cause.since_s, situation.now_s),
            released=False,
        )
    text = broken.text if broken is not None else lead.text
    text += _save_suffix(lead, due, situation)
    verdict = Verdict.SAVE if broken is None else Verdict.REPAIR
    pen.write(verdict, lead.reason, text, cause=lead.key, request_id=request.id)


def _save_suffix(lead: Cause, due: list[Cause], situation: Situation) -> str:
    parts = []
    if lead.deadline_s is not None:
        parts.append(f"{format_duration(lead.deadline_s - situation.now_s)} left")
    if situation.costs.write_s is None:
        parts.append("no write seen yet")
    others = sorted(
        {cause.reason for cause in due if cause.reason != lead.reason and not cause.key.startswith("broken:")}
    )
    if others:
        parts.append(f"serves {', '.join(others)} too")
    return "".join(f", {part}" for part in parts)


def _join(due: list[Cause], request: Request, situation: Situation, pen: Pen) -> None:
    """A cause that comes while a request is open shares its write; an overdue request gets a new id with it.

    The job may have answered the old id with a save that failed: then the old id would never be served again.
    """
    cost = situation.costs
    expected_s = OVERDUE_S if cost.write_s is None else cost.gap_s + cost.write_s + OVERDUE_MARGIN_S
    overdue = situation.now_s - request.at_s > expected_s
    for cause in due:
        pen.ledger = change_cause(
            pen.ledger,
            cause.key,
            state=CauseState.ASKED,
            # Under a new id its own write is wanted, not one that hangs since before it came.
            since_s=cause.since_s if overdue else min(cause.since_s, request.at_s),
            asked_count=cause.asked_count + 1,
            released=False,
        )
        if cause.key.startswith("broken:"):
            pen.write(Verdict.REPAIR, request.reason, cause.text, cause=cause.key, request_id=request.id)
        else:
            text = f"{cause.reason}: the write asked for by {request.reason} serves it"
            pen.refuse(cause, Refusal.IN_FLIGHT, text)
    if overdue:
        # What joins was never asked for: its ids are counted anew.
        reissue(evolve(request, tries=0), next_id(pen.ledger, situation.now_s), situation.now_s, pen)
