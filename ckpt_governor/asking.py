"""The last rule: what is due and fits shares one request, what does not fit is refused with its reason. Pure."""

from __future__ import annotations

from attrs import evolve

from ckpt_governor.answers import serves
from ckpt_governor.durations import format_duration
from ckpt_governor.ledger import (
    Cause,
    CauseState,
    Refusal,
    Request,
    RequestKind,
    Verdict,
    change_cause,
    next_id,
    open_causes,
)
from ckpt_governor.placement import Misfit, space_misfit, time_misfit
from ckpt_governor.rules import TRIES_MAX, reissue
from ckpt_governor.situation import Pen, Situation

OVERDUE_S = 15.0
"""An unanswered request older than this, while no write was ever seen, gets a new id when a new cause joins it."""
OVERDUE_MARGIN_S = 5.0


def ask(situation: Situation, pen: Pen) -> None:
    """What is due and fits shares one request; what does not fit is refused, each with its reason."""
    due = [cause for cause in open_causes(pen.ledger) if _is_due(cause, situation)]
    due = [cause for cause in due if _fits(cause, situation, pen)]
    due = [cause for cause in due if not _is_held(cause, situation, pen)]
    if not due:
        return
    due += [
        cause for cause in open_causes(pen.ledger) if cause not in due and _overlaps(cause, due, situation)
    ]
    if pen.ledger.request is not None:
        _join(due, pen.ledger.request, situation, pen)
    else:
        _request(due, situation, pen)


def _is_due(cause: Cause, situation: Situation) -> bool:
    return cause.state is CauseState.WAITING and cause.since_s <= situation.now_s


def _fits(cause: Cause, situation: Situation, pen: Pen) -> bool:
    """Whether a write for this cause fits the time and the space; a refusal is printed."""
    misfit: Misfit | None = time_misfit(cause.deadline_s, situation.costs, situation.now_s)
    if misfit is not None:
        pen.refuse(cause, misfit.refusal, misfit.text)
        pen.ledger = change_cause(pen.ledger, cause.key, state=CauseState.UNFIT)
        return False
    misfit = space_misfit(situation.world, situation.numbers, pen.ledger, situation.costs)
    if misfit is None:
        return True
    verdict = Verdict.INFEASIBLE if misfit.for_ever else Verdict.SKIP
    pen.refuse(cause, misfit.refusal, f"{cause.reason}: {misfit.text}", verdict=verdict)
    return False


def _is_held(cause: Cause, situation: Situation, pen: Pen) -> bool:
    """A write is going on: it serves a cause that it began after; another cause's own write comes after it."""
    writing = situation.writing
    if writing is None:
        return False
    if serves(writing, cause, situation.world):
        if cause.key.startswith("end:"):
            return True  # the last copy is on its way; its line comes with it
        pen.refuse(
            cause, Refusal.IN_FLIGHT, f"{cause.reason}: the write of {writing.name} that has begun serves it"
        )
        return True
    left_s = None if cause.deadline_s is None else cause.deadline_s - situation.now_s
    need_s = situation.costs.need_s
    pressing = left_s is not None and (need_s is None or left_s <= need_s + situation.costs.lag_s)
    if pressing:
        return False  # no time to wait for it: the job comes to its save point when it can
    text = f"{cause.reason}: {writing.name} is being written and began before; the next write is asked for after it"
    if cause.key.startswith("window:"):
        text = f"{cause.reason}: {writing.name} is being written and will renew it"
    pen.refuse(cause, Refusal.IN_FLIGHT, text)
    return True


def _overlaps(cause: Cause, due: list[Cause], situation: Situation) -> bool:
    """A placed write whose window overlaps that of a write that is due now shares it."""
    if cause.state is not CauseState.WAITING or cause.deadline_s is None:
        return False
    reach_s = situation.now_s + (situation.costs.write_s or 0.0) + situation.costs.gap_s
    ends_s = max((other.deadline_s if other.deadline_s is not None else reach_s) for other in due)
    return cause.since_s <= ends_s and time_misfit(cause.deadline_s, situation.costs, situation.now_s) is None


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
        causes, key=lambda cause: next(i for i, prefix in enumerate(order) if cause.key.startswith(prefix))
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
    pen.ledger = evolve(pen.ledger, request=request, last_id=request.id)
    for cause in due:
        pen.ledger = change_cause(
            pen.ledger,
            cause.key,
            state=CauseState.ASKED,
            asked_count=cause.asked_count + 1,
            since_s=min(cause.since_s, situation.now_s),
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
    overdue = situation.now_s - request.at_s > expected_s and request.tries < TRIES_MAX
    asked = [cause for cause in pen.ledger.causes if cause.state is CauseState.ASKED]
    lead = _lead([*asked, *due])
    deadlines = [cause.deadline_s for cause in (*asked, *due) if cause.deadline_s is not None]
    for cause in due:
        pen.ledger = change_cause(
            pen.ledger, cause.key, state=CauseState.ASKED, since_s=min(cause.since_s, request.at_s)
        )
        pen.refuse(
            cause, Refusal.IN_FLIGHT, f"{cause.reason}: the write asked for by {request.reason} serves it"
        )
    broken = any(cause.key.startswith("broken:") for cause in (*asked, *due))
    joined = evolve(
        request,
        reason=lead.reason,
        deadline_s=min(deadlines, default=None),
        kind=RequestKind.REPAIR if broken else RequestKind.SAVE,
    )
    pen.ledger = evolve(pen.ledger, request=joined)
    if overdue:
        reissue(joined, next_id(pen.ledger, situation.now_s), situation.now_s, pen)
