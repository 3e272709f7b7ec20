"""From what was announced to what wants a write: causes appear, move, merge and are withdrawn. Pure."""

from __future__ import annotations

from math import inf

from attrs import evolve

from ckpt_governor.conditions import TRAITS, Condition, Kind
from ckpt_governor.estimate import Costs
from ckpt_governor.facts import Ending, Notice, Observation, Reading
from ckpt_governor.hazards import is_silent, remember_signs
from ckpt_governor.judge import allotted_ends, levels
from ckpt_governor.ledger import (
    STARTS_MAX,
    Cause,
    CauseState,
    Edge,
    Ledger,
    Reason,
    SpaceBlock,
    cause_with,
    change_cause,
    change_run,
    open_cause,
    put_cause,
)
from ckpt_governor.numbers import Numbers
from ckpt_governor.placement import time_misfit
from ckpt_governor.prices import risk_period_s

SAME_NOTICE_S = 5.0
"""Notices of one condition whose deadlines lie this near to each other are one."""
OUT_OF_SPACE = (28, 122)
"""ENOSPC and EDQUOT."""
LOOK_AHEAD_S = 600.0
"""The allotted time counts as ending when its end is nearer than this, or than twice what a write needs."""
MAINTENANCE_AHEAD_S = 24 * 3600.0
PUT_OFF_S = 900.0
"""An end that moves further away than this after its write was served is served again."""
EDGE_OFF_S = 300.0
EDGE_AGAIN_S_MIN = 600.0
RISK_PERIOD_S_MIN = 60.0


def take_in(world: Observation, numbers: Numbers, ledger: Ledger, costs: Costs) -> Ledger:
    """The ledger that knows every announcement of this moment, each once."""
    ledger = remember_signs(world, _take_in_job(world, ledger))
    notices = (*world.notices, *_reported(world), *_allotted_end(world, numbers, ledger, costs))
    unread, silent = set(world.unread_names), _silent_prefixes(world)
    live = {f"notice:{notice.identity}" for notice in notices}
    live |= {cause.key for cause in ledger.causes if not unread.isdisjoint(cause.ack_names)}
    live |= {cause.key for cause in ledger.causes if cause.key.startswith(silent)}
    ledger = _withdraw_gone(ledger, live)
    for notice, ack_names in _each_once(notices):
        ledger = _take_in_notice(notice, ack_names, world, numbers, ledger, costs)
    ledger = _take_in_ending(world.ending, ledger)
    for reading in levels(world, numbers, ledger, costs):
        if TRAITS[reading.condition].kind is not Kind.NOTICE:
            ledger = _take_in_level(reading, world.now_s, ledger, costs)
    return ledger


def _reported(world: Observation) -> tuple[Notice, ...]:
    """What the sources announce; a maintenance counts from a day before."""
    told = (notice for report in world.reports for notice in report.notices)
    return tuple(
        notice
        for notice in told
        if notice.condition is not Condition.MAINTENANCE
        or notice.deadline_s is None
        or notice.deadline_s - world.now_s <= MAINTENANCE_AHEAD_S
    )


def _silent_prefixes(world: Observation) -> tuple[str, ...]:
    """How the keys of those begin whose source is silent: what they announced before still holds."""
    silent = [report.source for report in world.reports if is_silent(report, world.now_s)]
    return tuple(f"notice:{sort}{source}:" for source in silent for sort in ("", "walltime:"))


def _take_in_job(world: Observation, ledger: Ledger) -> Ledger:
    """A job that is known to be another one starts its own clock; nothing of it is unsaved yet."""
    ledger = _take_in_failure(world, ledger)
    run, job = ledger.run, world.job
    if job.identity and job.identity != run.job_identity:
        first = not run.job_identity
        seen_s = run.job_started_s if first else world.now_s
        started_s = job.started_s if job.started_s is not None else seen_s
        ledger = evolve(ledger, starts_s=(*ledger.starts_s, started_s)[-STARTS_MAX:])
        if not first and run.ended_s is None:
            ledger = evolve(ledger, deaths=ledger.deaths + 1)
        return change_run(ledger, job_identity=job.identity, job_started_s=started_s, ended_s=None)
    if job.started_s is not None and job.started_s != run.job_started_s:
        return change_run(ledger, job_started_s=job.started_s)
    return ledger


def _take_in_failure(world: Observation, ledger: Ledger) -> Ledger:
    """A write that the job says has failed for space blocks its size until something was freed: a quota, probably."""
    failed = world.job.failed
    told = "" if failed is None else f"{failed.bytes}:{failed.errno}"
    if told == ledger.failed_write:
        return ledger
    ledger = evolve(ledger, failed_write=told)
    if failed is None or world.volume is None or failed.errno not in OUT_OF_SPACE:
        return ledger
    block = SpaceBlock(bytes=failed.bytes, free_bytes=world.volume.free_bytes, copy_count=world.copy_count)
    return evolve(ledger, space_block=block)


def _allotted_end(world: Observation, numbers: Numbers, ledger: Ledger, costs: Costs) -> tuple[Notice, ...]:
    """The end of the allotted time as a notice, once it is near enough to matter."""
    started_s = ledger.run.job_started_s
    return tuple(
        Notice(
            identity=f"walltime:{end.source}:{end.identity}",
            condition=Condition.WALLTIME,
            seen_s=started_s,
            deadline_s=end.end_s,
            source=end.source,
        )
        for end in allotted_ends(world, numbers, ledger)
        if end.end_s - world.now_s <= _ahead_s(costs)
    )


def end_wait_s(world: Observation, numbers: Numbers, ledger: Ledger, costs: Costs) -> float:
    """Seconds until an end of the allotted time comes near enough to matter; infinity when none will."""
    waits_s = [end.end_s - _ahead_s(costs) - world.now_s for end in allotted_ends(world, numbers, ledger)]
    return min((wait_s for wait_s in waits_s if wait_s > 0), default=inf)


def _ahead_s(costs: Costs) -> float:
    return max(LOOK_AHEAD_S, 2.0 * (costs.need_s or 0.0))


def _each_once(notices: tuple[Notice, ...]) -> list[tuple[Notice, tuple[str, ...]]]:
    """Each identity once, with the earliest deadline of its deliveries and the names of all who wait for an answer."""
    deliveries: dict[str, list[Notice]] = {}
    for notice in notices:
        deliveries.setdefault(notice.identity, []).append(notice)
    grouped = []
    for same in deliveries.values():
        deadlines = [notice.deadline_s for notice in same if notice.deadline_s is not None]
        first = evolve(same[0], deadline_s=min(deadlines, default=None))
        grouped.append((first, tuple(sorted({notice.ack_name for notice in same} - {""}))))
    return grouped


def _withdraw_gone(ledger: Ledger, live_keys: set[str]) -> Ledger:
    """An announcement that is gone wants nothing any more; a file's identity is forgotten with the file."""
    kept = []
    for cause in ledger.causes:
        if not cause.key.startswith("notice:") or cause.key in live_keys:
            kept.append(cause)
        elif cause.open:
            kept.append(evolve(cause, state=CauseState.WITHDRAWN, live=False))
        elif not cause.key.startswith("notice:file:"):
            kept.append(evolve(cause, live=False))
    causes = tuple(kept)
    return ledger if causes == ledger.causes else evolve(ledger, causes=causes)


def _deadline_s(notice: Notice, seen_s: float, numbers: Numbers) -> float | None:
    """A termination is dated by the grace, and capped by one that was given; nothing else is."""
    if notice.within_s is not None:
        by_itself_s = seen_s + notice.within_s
        dated_s = by_itself_s if notice.deadline_s is None else min(notice.deadline_s, by_itself_s)
        notice = evolve(notice, deadline_s=dated_s)
    if notice.condition is not Condition.TERMINATE:
        return notice.deadline_s
    by_grace_s = seen_s + numbers.grace_s
    if notice.deadline_s is None:
        return by_grace_s
    return min(notice.deadline_s, by_grace_s) if numbers.grace_given else notice.deadline_s


def _take_in_notice(
    notice: Notice,
    ack_names: tuple[str, ...],
    world: Observation,
    numbers: Numbers,
    ledger: Ledger,
    costs: Costs,
) -> Ledger:
    key = f"notice:{notice.identity}"
    known = cause_with(ledger, key)
    # The grace counts from the first sight of all, not from that of a governor that was started again.
    deadline_s = _deadline_s(notice, notice.seen_s if known is None else known.seen_s, numbers)
    if known is not None and known.state is not CauseState.WITHDRAWN:
        if known.ack_names != ack_names:
            known = evolve(known, ack_names=ack_names)
            ledger = put_cause(ledger, known)
        return _move_deadline(known, deadline_s, world, ledger, costs)
    cause = Cause(
        key=key,
        reason=notice.condition.value,
        seen_s=notice.seen_s,
        since_s=world.now_s,
        deadline_s=deadline_s,
        ack_names=ack_names,
        text=notice.text or TRAITS[notice.condition].meaning,
    )
    twin = _twin(cause, ledger)
    if twin is not None:
        cause = evolve(
            cause,
            state=twin.state,
            since_s=twin.since_s,
            served_by=twin.served_by,
            asked_count=twin.asked_count,
            released=twin.released,
        )
    return open_cause(ledger, cause)


def _twin(cause: Cause, ledger: Ledger) -> Cause | None:
    """The same notice by another source: what was asked or answered for it holds for this one too."""
    if cause.deadline_s is None:
        return None
    for other in ledger.causes:
        same = other.key.startswith("notice:") and other.reason == cause.reason
        if not same or other.deadline_s is None or other.state is CauseState.WITHDRAWN:
            continue
        if abs(other.deadline_s - cause.deadline_s) <= SAME_NOTICE_S:
            return other
    return None


def _move_deadline(
    known: Cause, deadline_s: float | None, world: Observation, ledger: Ledger, costs: Costs
) -> Ledger:
    """A moved deadline re-places a write that is not served; a later one reopens what had no time left."""
    # Foreign clocks jitter: a move below a second is none.
    same = deadline_s == known.deadline_s or (
        deadline_s is not None and known.deadline_s is not None and abs(deadline_s - known.deadline_s) < 1.0
    )
    put_off = known.state is CauseState.SERVED and _is_put_off(known, deadline_s)
    if (known.state is CauseState.SERVED and not put_off) or same:
        return ledger if known.live else change_cause(ledger, known.key, live=True)
    moved = evolve(known, deadline_s=deadline_s, live=True)
    if put_off:  # the work until the new end is unsaved again
        return open_cause(ledger, evolve(moved, state=CauseState.WAITING, since_s=world.now_s, asked_count=0))
    if known.state in (CauseState.UNFIT, CauseState.MISSED):
        if deadline_s is not None and deadline_s <= world.now_s:
            return put_cause(ledger, moved)
        moved = evolve(moved, state=CauseState.WAITING, since_s=world.now_s)
    released = known.state is CauseState.ASKED and time_misfit(deadline_s, costs, world.now_s) is not None
    return put_cause(ledger, evolve(moved, released=released))


def _is_put_off(served: Cause, deadline_s: float | None) -> bool:
    """Whether a source has moved the end of what was answered so far away that it needs another write.

    A drop-in file names its announcement once: who wants another write for it gives it another id.
    """
    if served.key.startswith(("notice:file:", "notice:id:", "notice:signal:")):
        return False
    return (
        deadline_s is not None
        and served.deadline_s is not None
        and deadline_s - served.deadline_s > PUT_OFF_S
    )


def _take_in_ending(ending: Ending | None, ledger: Ledger) -> Ledger:
    """Training's end is one cause for each mark; one that was served before is no cause again."""
    inode = "" if ending is None else ending.identity.partition(":")[0]
    for cause in ledger.causes:
        if cause.key.startswith("end:") and cause.open:
            if ending is not None and cause.key.startswith(f"end:{inode}:"):
                return ledger  # touched again before it was served: the same end
            ledger = change_cause(ledger, cause.key, state=CauseState.WITHDRAWN, live=False)
    if ending is None or ending.identity in ledger.ended_identities:
        return ledger
    present = f"end:{ending.identity}"
    if ledger.run.ended_s is not None and any(
        identity.partition(":")[0] == inode for identity in ledger.ended_identities
    ):
        return ledger  # touched again in the same run: the same end
    known = cause_with(ledger, present)
    if known is not None and known.state is not CauseState.WITHDRAWN:
        return ledger
    return open_cause(
        ledger,
        Cause(
            key=present,
            reason=Reason.END.value,
            seen_s=ending.seen_s,
            since_s=ending.seen_s,
            text="training is over: the last copy",
        ),
    )


def _take_in_level(reading: Reading, now_s: float, ledger: Ledger, costs: Costs) -> Ledger:
    """An edge opens a cause at its onset, and again each risk period while it stays; unknown changes nothing."""
    name = reading.condition.value
    edge = ledger.edges.get(name)
    if reading.value is None and edge is not None and edge.off_since_s is not None:
        return _with_edge(ledger, name, evolve(edge, off_since_s=None))  # unknown never clears a latch
    if reading.value is None or (reading.value is False and edge is None):
        return ledger
    if reading.value is False and edge is not None:
        return _fall(name, edge, now_s, ledger)
    write_s = costs.write_s or 0.0
    if edge is None or not edge.latched:
        if edge is not None and now_s - edge.since_s < max(EDGE_AGAIN_S_MIN, 5.0 * write_s):
            return ledger
        return _rise(reading, Edge(since_s=now_s, written_s=now_s), now_s, ledger)
    traits = TRAITS[reading.condition]
    period_s = risk_period_s(max(write_s, 1e-3), traits.precision, traits.window_s)
    if now_s - edge.written_s >= max(period_s, 20.0 * write_s, RISK_PERIOD_S_MIN) and not _has_open(
        name, ledger
    ):
        return _rise(reading, evolve(edge, written_s=now_s, off_since_s=None), now_s, ledger)
    return ledger if edge.off_since_s is None else _with_edge(ledger, name, evolve(edge, off_since_s=None))


def _rise(reading: Reading, edge: Edge, now_s: float, ledger: Ledger) -> Ledger:
    name = reading.condition.value
    cause = Cause(
        key=f"edge:{name}@{now_s:.3f}",
        reason=name,
        seen_s=now_s,
        since_s=now_s,
        deadline_s=reading.deadline_s,
        text=f"{TRAITS[reading.condition].meaning}: {reading.why}"
        if reading.why
        else TRAITS[reading.condition].meaning,
    )
    return open_cause(_with_edge(ledger, name, edge), cause)


def _fall(name: str, edge: Edge, now_s: float, ledger: Ledger) -> Ledger:
    """The latch opens when the level has been off long enough; its unserved cause is withdrawn then."""
    if not edge.latched:
        return ledger
    if edge.off_since_s is None:
        edge = evolve(edge, off_since_s=now_s)
        ledger = _with_edge(ledger, name, edge)
    # A counter's rise was held for long enough before it is said to be over.
    if TRAITS[Condition(name)].kind is Kind.EDGE and now_s - (edge.off_since_s or now_s) < EDGE_OFF_S:
        return ledger
    for cause in ledger.causes:
        if cause.key.startswith(f"edge:{name}@") and cause.open:
            ledger = change_cause(ledger, cause.key, state=CauseState.WITHDRAWN, live=False)
    return _with_edge(ledger, name, evolve(edge, latched=False))


def _with_edge(ledger: Ledger, name: str, edge: Edge) -> Ledger:
    return evolve(ledger, edges={**ledger.edges, name: edge})


def _has_open(name: str, ledger: Ledger) -> bool:
    return any(cause.open and cause.key.startswith(f"edge:{name}@") for cause in ledger.causes)
