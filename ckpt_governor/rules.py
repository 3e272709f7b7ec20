"""The rules: what is broken, announced, at risk, about to close or unheard. Each marks or refuses; none asks. Pure."""

from __future__ import annotations

from math import inf

from attrs import evolve

from ckpt_governor.answers import end_served, finished, holds_up, window_serial
from ckpt_governor.conditions import TRAITS, condition_named
from ckpt_governor.copies import newest, newest_sound
from ckpt_governor.durations import format_duration
from ckpt_governor.estimate import Costs, mean_time_between_deaths_s
from ckpt_governor.facts import Copy, CopyStatus, Observation
from ckpt_governor.ledger import (
    REPAIRS_IN_ROW_MAX,
    Cause,
    CauseState,
    Ledger,
    Reason,
    Refusal,
    Request,
    Verdict,
    change_cause,
    change_run,
    count_refusal,
    next_id,
    open_cause,
    open_causes,
    said,
)
from ckpt_governor.numbers import Numbers
from ckpt_governor.placement import due_s, space_misfit, time_misfit
from ckpt_governor.prices import best_window_s
from ckpt_governor.situation import Pen, Situation

TRIES_MAX = 3
PATIENCE_S_MIN = 60.0
ANEW_S_MIN = 600.0
"""A window whose three ids nobody answered is asked for anew after another window, but not sooner than this."""
BEFORE_MARK_S = 5.0
"""A copy written so shortly before the mark of training's end may be its last one."""
WINDOW_SHARE_UNKNOWN = 0.75
"""Until the first write is seen a window is taken to close at this share of it."""
AUTO_WINDOW_S_UNKNOWN = 1800.0
"""The window of ``auto`` until a write has been seen and its cost is known."""


def broken(situation: Situation, pen: Pen) -> None:
    """The newest copy is broken: one repair for it, with what it inherits; after three in a row, no more."""
    copy = newest(situation.world.copies)
    if copy is None or copy.status is not CopyStatus.BROKEN or copy.serial in pen.ledger.repaired:
        return
    if situation.writing is not None:
        return
    if pen.ledger.repairs_in_row >= REPAIRS_IN_ROW_MAX:
        text = f"{pen.ledger.repairs_in_row} repairs in a row came out broken; {_broken_text(copy, situation.world)}"
        key = f"broken:{copy.serial}"
        pen.write(Verdict.INFEASIBLE, Reason.BROKEN.value, text, cause=key, once=f"infeasible:{key}")
        return
    pen.ledger = evolve(pen.ledger, repaired=(*pen.ledger.repaired, copy.serial)[-64:])
    if situation.world.job.alive is False and pen.ledger.run.ended_s is not None:
        return  # training is over and nobody is left to repair it: the receipt says so
    pen.ledger = evolve(pen.ledger, repairs_in_row=pen.ledger.repairs_in_row + 1)
    inherited = [
        cause.deadline_s
        for cause in open_causes(pen.ledger)
        if cause.deadline_s is not None and cause.asked_count
    ]
    deadline_s = min(inherited, default=None)
    since_s = situation.now_s
    if deadline_s is not None and time_misfit(deadline_s, situation.costs, situation.now_s) is not None:
        # No repair fits before the announced end. Should the job outlive it, the repair is due then.
        since_s, deadline_s = deadline_s, None
    pen.ledger = open_cause(
        pen.ledger,
        Cause(
            key=f"broken:{copy.serial}",
            reason=Reason.BROKEN.value,
            seen_s=situation.now_s,
            since_s=since_s,
            deadline_s=deadline_s,
            text=_broken_text(copy, situation.world),
        ),
    )


def _broken_text(copy: Copy, world: Observation) -> str:
    last = newest_sound(world.copies)
    tail = f"the last sound copy is {last.name}" if last is not None else "there is no sound copy"
    return f"{copy.name} is broken: {copy.why or 'incomplete'}; {tail}"


def announced(situation: Situation, pen: Pen) -> None:
    """A write for an announced end is placed: its cause is served by any copy that begins from then on."""
    for cause in open_causes(pen.ledger):
        if (
            cause.state is CauseState.WAITING
            and cause.deadline_s is not None
            and not said(pen.ledger, held_key(cause))
        ):
            start_s = due_s(cause, situation.costs, situation.unsaved_s, situation.now_s)
            if start_s > situation.now_s or cause.since_s > situation.now_s:
                pen.ledger = change_cause(pen.ledger, cause.key, since_s=max(start_s, situation.now_s))


def at_risk(situation: Situation, pen: Pen) -> None:
    """An undated risk is not worth a write that costs more than it protects: served by the fresh copy."""
    for cause in open_causes(pen.ledger):
        condition = condition_named(cause.reason)
        if cause.state is not CauseState.WAITING or condition is None or cause.deadline_s is not None:
            continue
        traits, write_s = TRAITS[condition], situation.costs.typical_write_s
        copy = newest_sound(situation.world.copies)
        if traits.at_once or write_s is None or copy is None or situation.writing is not None:
            continue
        if situation.unsaved_s < write_s / traits.precision:
            age = format_duration(situation.unsaved_s)
            text = f"{cause.reason}: only {age} of work is unsaved, a write takes {format_duration(write_s)}"
            pen.refuse(cause, Refusal.FRESH, text)
            pen.ledger = change_cause(pen.ledger, cause.key, state=CauseState.SERVED, served_by=copy.serial)


def window_s(numbers: Numbers, cost: Costs, ledger: Ledger) -> float | None:
    """The window that is promised; None when there is none."""
    if not numbers.auto:
        return numbers.with_us_s
    if cost.typical_write_s is None:
        return AUTO_WINDOW_S_UNKNOWN
    return best_window_s(cost.typical_write_s, mean_time_between_deaths_s(ledger, numbers))


def window_needs_s(cost: Costs) -> float | None:
    """What a write in time for a window takes: write, gap and lag; None while no write was seen."""
    return None if cost.write_s is None else cost.write_s + cost.gap_s + cost.lag_s


def window(situation: Situation, pen: Pen) -> None:
    """The window is about to close: a write now is sound just before the newest copy is older than promised."""
    promised_s = window_s(situation.numbers, situation.costs, pen.ledger)
    serial = window_serial(situation.world)
    key = f"window:{serial}"
    held_s = held_window_s(situation)
    if (
        promised_s is not None
        and held_s is not None
        and held_s > promised_s
        and not _training_is_over(situation)
    ):
        _say_infeasible(promised_s, two_writes_s(situation.costs), held_s, pen)
    due = window_wait_s(situation) <= 0.0
    for cause in open_causes(pen.ledger):
        # One that was asked for stays asked: its write may be on the way although the estimate has moved.
        waits = cause.state is CauseState.WAITING and not due
        if cause.key.startswith("window:") and (cause.key != key or waits):
            pen.ledger = change_cause(pen.ledger, cause.key, state=CauseState.WITHDRAWN)
    if (
        not due
        or held_s is None
        or any(cause.key == key for cause in pen.ledger.causes if cause.state is not CauseState.WITHDRAWN)
    ):
        return
    copy = newest_sound(situation.world.copies)
    age = format_duration(situation.unsaved_s)
    what = f"the newest sound copy is {age} old" if copy is not None else f"no sound copy yet after {age}"
    cause = Cause(
        key=key,
        reason=Reason.WINDOW.value,
        seen_s=situation.now_s,
        since_s=situation.now_s,
        text=f"{what}, the window is {format_duration(held_s)}",
    )
    pen.ledger = open_cause(pen.ledger, cause)


def two_writes_s(cost: Costs) -> float:
    """What two writes in a row take: a copy is a write old when it is sound, and only then the next one can begin."""
    return (window_needs_s(cost) or 0.0) + (cost.write_s or 0.0)


def held_window_s(situation: Situation) -> float | None:
    """The window that can be held: the promised one, or twice what a write takes where that is shorter than two."""
    promised_s = window_s(situation.numbers, situation.costs, situation.ledger)
    need_s = window_needs_s(situation.costs)
    if promised_s is None or need_s is None or promised_s >= two_writes_s(situation.costs):
        return promised_s
    return 2.0 * need_s


def window_wait_s(situation: Situation) -> float:
    """Seconds until the window asks for its write, zero or less when it does now, infinity when it never will."""
    held_s, need_s = held_window_s(situation), window_needs_s(situation.costs)
    if held_s is None or _training_is_over(situation):
        return inf
    age_s = _window_age_s(situation)
    wait_s = WINDOW_SHARE_UNKNOWN * held_s - age_s if need_s is None else held_s - need_s - age_s
    return max(wait_s, _rest_s(held_s, situation))


def _rest_s(held_s: float, situation: Situation) -> float:
    """After three broken answers in a row the next write is asked for a whole window after the last."""
    asked_s = situation.ledger.last_asked_s
    if situation.ledger.repairs_in_row < REPAIRS_IN_ROW_MAX or asked_s is None:
        return 0.0
    return asked_s + held_s - situation.now_s


def _window_age_s(situation: Situation) -> float:
    """The age that the window bounds; a copy that cannot be judged stops the asking, not the telling."""
    serial = window_serial(situation.world)
    for copy in finished(situation.world):
        if copy.serial == serial:
            return situation.now_s - max(copy.state_s, situation.ledger.run.job_started_s)
    return situation.unsaved_s


def _training_is_over(situation: Situation) -> bool:
    """After training's end was served nothing is unsaved, until a copy that began later shows a new job."""
    ended_s = situation.ledger.run.ended_s
    if ended_s is None:
        return situation.world.job.alive is False
    return not any(copy.began_s > ended_s for copy in finished(situation.world))


def _say_infeasible(promised_s: float, two_s: float, held_s: float, pen: Pen) -> None:
    text = (
        f"the window of {format_duration(promised_s)} is shorter than two writes in a row, which take"
        f" {format_duration(two_s)}; {format_duration(held_s)} is held instead"
    )
    once = f"infeasible:window-of:{promised_s:g}"
    pen.write(Verdict.INFEASIBLE, Reason.WINDOW.value, text, cause="window:", once=once)


def unheard(situation: Situation, pen: Pen) -> None:
    """A request that nobody answers is said to be unheard and asked again under a new id, at most three in all."""
    request = pen.ledger.request
    if request is None:
        return
    writing = situation.writing
    if writing is not None and (
        writing.began_s >= request.first_at_s or holds_up(writing, situation.costs.write_s, situation.now_s)
    ):
        pen.ledger = evolve(pen.ledger, request=evolve(request, patience_from_s=situation.now_s))
        return
    patience_s = max(PATIENCE_S_MIN, 3.0 * situation.costs.gap_s)
    if situation.now_s - request.patience_from_s <= patience_s:
        return
    asked = tuple(cause for cause in pen.ledger.causes if cause.state is CauseState.ASKED)
    cause = asked[0] if asked else Cause(key="request", reason=request.reason, seen_s=0.0, since_s=0.0)
    once = f"unheard:{request.id}"
    if said(pen.ledger, once):
        _ask_window_anew(request, asked, situation, pen)
        return
    misfit = time_misfit(request.deadline_s, situation.costs, situation.now_s) or space_misfit(
        situation.world, situation.numbers, pen.ledger, situation.costs
    )
    if misfit is not None and request.tries < TRIES_MAX:
        pen.refuse(cause, misfit.refusal, f"{cause.reason}: not asked again: {misfit.text}")
        return
    waited = format_duration(situation.now_s - request.first_at_s)
    if _take_copy_before_mark(asked, situation, pen):
        return
    # A job that has left the mark of its end is not in its loop any more: asking once is enough.
    last = request.tries >= TRIES_MAX or all(cause.key.startswith("end:") for cause in asked)
    tail = "asking again"
    if last:
        tail = (
            "asked three times; the request stays open" if request.tries >= TRIES_MAX else "not asked again"
        )
    text = f"{request.reason}: asked {waited} ago, {_missing_text(situation)}{_heard_text(situation)}; {tail}"
    new_id = None if last else next_id(pen.ledger, situation.now_s)
    pen.write(Verdict.SKIP, Refusal.UNHEARD.value, text, cause=cause.key, once=once, request_id=new_id)
    pen.ledger = change_run(count_refusal(pen.ledger, Refusal.UNHEARD), unheard=pen.ledger.run.unheard + 1)
    if new_id is not None:
        reissue(request, new_id, situation.now_s, pen)
    else:
        for cause in asked:  # whoever waits for an answer waits no longer; one that comes still counts
            pen.ledger = change_cause(pen.ledger, cause.key, unanswered=True)
        _give_up_asked_end(asked, situation, pen)


def _ask_window_anew(request: Request, asked: tuple[Cause, ...], situation: Situation, pen: Pen) -> None:
    """Another whole window without an answer is a new cause: a job whose saves failed is asked again, slowly."""
    promised_s = window_s(situation.numbers, situation.costs, pen.ledger)
    if promised_s is None or request.tries < TRIES_MAX or not any(c.key.startswith("window:") for c in asked):
        return
    if situation.now_s - request.at_s >= max(promised_s, ANEW_S_MIN):
        reissue(evolve(request, tries=0), next_id(pen.ledger, situation.now_s), situation.now_s, pen)


def _missing_text(situation: Situation) -> str:
    """What did not come: a write, or the end of one that left its temporary behind."""
    left = situation.world.leftovers
    return f"no write came to its end ({left[-1].name} is left)" if left else "no write began"


def _heard_text(situation: Situation) -> str:
    """Whether the job has read the request at all, as far as it says so."""
    request, heard_id = situation.ledger.request, situation.world.heard_id
    if request is None or heard_id is None:
        return ""
    return " although the job has read it" if heard_id >= request.id else " and the job has not read it"


def reissue(request: Request, new_id: int, now_s: float, pen: Pen) -> None:
    """The same request under a new id, which a job that has answered the old one sees as new."""
    fresh = evolve(request, id=new_id, at_s=now_s, tries=request.tries + 1, patience_from_s=now_s)
    pen.ledger = evolve(pen.ledger, request=fresh, last_id=new_id)


def _take_copy_before_mark(asked: tuple[Cause, ...], situation: Situation, pen: Pen) -> bool:
    """A job that wrote its last copy and then set the mark answers nothing any more: that copy is the end's."""
    copy, ending = newest_sound(situation.world.copies), situation.world.ending
    ends = tuple(cause for cause in asked if cause.key.startswith("end:"))
    if copy is None or ending is None or not ends or len(ends) != len(asked):
        return False
    if not -BEFORE_MARK_S <= copy.written_s - ending.written_s <= BEFORE_MARK_S:
        return False
    for cause in ends:
        text = f"{cause.reason}: nobody answers; {copy.name} was written just before the mark"
        pen.refuse(cause, Refusal.UNHEARD, text)
        pen.ledger = change_cause(pen.ledger, cause.key, state=CauseState.SERVED, served_by=copy.serial)
        pen.ledger = end_served(cause, situation.now_s, True, pen.ledger)
    return True


def _give_up_asked_end(asked: tuple[Cause, ...], situation: Situation, pen: Pen) -> None:
    """Training's end that nobody answers is over all the same; the receipt says that it has no copy of its own."""
    for cause in asked:
        if cause.key.startswith("end:"):
            pen.ledger = change_cause(pen.ledger, cause.key, state=CauseState.MISSED)
            pen.ledger = end_served(cause, situation.now_s, False, pen.ledger)


def held_key(cause: Cause) -> str:
    """The key of the line that says that this cause waits for a write in progress."""
    return f"{Verdict.SKIP.value}:{Refusal.IN_FLIGHT.value}:{cause.key}"
