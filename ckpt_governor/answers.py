"""From the copies that came to what they have answered: learn, serve, expire. Pure."""

from __future__ import annotations

from attrs import evolve

from ckpt_governor.copies import being_written, newest, newest_sound
from ckpt_governor.facts import Copy, CopyStatus, Observation
from ckpt_governor.ledger import (
    JUDGED_MAX,
    REPAIRS_IN_ROW_MAX,
    SAMPLES_MAX,
    WRITES_MAX,
    Cause,
    CauseState,
    Ledger,
    Request,
    SpaceBlock,
    Write,
    change_cause,
    change_run,
    open_causes,
    remember_sample,
)

HOLDS_UP_S_MIN = 60.0
"""A write that has been going on for longer than this, and than four usual ones, holds no other up."""
WRITING_QUIET_S_MIN = 5.0
"""A write in progress that has been quiet for longer than this, and than it ever was, holds nothing up."""


def finished(world: Observation) -> tuple[Copy, ...]:
    """The copies that are no temporaries, oldest first."""
    return tuple(copy for copy in world.copies if not copy.temporary)


def unsaved_s(world: Observation, ledger: Ledger) -> float:
    """Age of the unsaved work: since the newest sound copy's write began, but never since before the job started."""
    copy = newest_sound(world.copies)
    since_s = ledger.run.job_started_s if copy is None else max(copy.state_s, ledger.run.job_started_s)
    return max(0.0, world.now_s - since_s)


def in_flight(world: Observation, ledger: Ledger) -> Copy | None:
    """The newest write that is still going on; one that has gone quiet for too long is none."""
    quiet_s = max(WRITING_QUIET_S_MIN, 3.0 * ledger.quiet_s_max, *ledger.write_samples_s[-3:], 0.0)
    for copy in reversed(being_written(world.copies)):
        if world.now_s - copy.changed_s <= quiet_s:
            return copy
    return None


def holds_up(writing: Copy, write_s: float | None, now_s: float) -> bool:
    """Whether others wait for this write: not for one that has been going on for ever, such as a file that grows."""
    return now_s - writing.began_s <= max(HOLDS_UP_S_MIN, 4.0 * (write_s or 0.0))


def answers(copy: Copy, request: Request | None) -> bool:
    """Whether this copy's write began after the request was issued."""
    return request is not None and copy.began_s >= request.first_at_s


def serves(copy: Copy, cause: Cause, world: Observation) -> bool:
    """Whether this copy's write began at or after the moment from which the cause wants one.

    When the mark of training's end and a copy came between the same two looks, their own times on the volume tell
    which was first.
    """
    if cause.since_s > world.now_s:
        return False
    if cause.key.startswith("end:") and copy.first_seen_s == cause.seen_s and world.ending is not None:
        return copy.written_s >= world.ending.written_s
    return copy.began_s >= cause.since_s


def take_answers(world: Observation, ledger: Ledger) -> Ledger:
    """The ledger that has learned from the copies that are finished and has closed what they answer."""
    for copy in finished(world):
        if copy.status is CopyStatus.SOUND:
            ledger = _take_sound(copy, world, ledger)
        elif copy.status is CopyStatus.BROKEN:
            ledger = _take_broken(copy, world, ledger)
        elif copy.status is CopyStatus.UNKNOWN and answers(copy, ledger.request):
            ledger = _take_unknown(copy, world, ledger)
    ledger = _mend(world, ledger)
    return close_request(aged(world, ledger))


def _take_sound(copy: Copy, world: Observation, ledger: Ledger) -> Ledger:
    if copy.serial not in ledger.judged:
        ledger = _learn(copy, ledger)
        ledger = _judge(copy, world, ledger)
    for cause in open_causes(ledger):
        if serves(copy, cause, world):
            ledger = change_cause(ledger, cause.key, state=CauseState.SERVED, served_by=copy.serial)
            if cause.key.startswith("end:"):
                ledger = end_served(cause, world.now_s, True, ledger)
    return ledger


def end_served(cause: Cause, now_s: float, sound: bool, ledger: Ledger) -> Ledger:
    """The ledger that remembers that training's end was served, or given up, for this mark."""
    identity = cause.key.partition(":")[2]
    identities = (*ledger.ended_identities, identity)[-16:]
    return change_run(evolve(ledger, ended_identities=identities), ended_s=now_s, end_sound=sound)


def _learn(copy: Copy, ledger: Ledger) -> Ledger:
    """Write time, gap and size of a copy whose write was seen."""
    sizes = ledger.size_samples_bytes
    ledger = evolve(
        ledger, size_samples_bytes=(*sizes, copy.bytes)[-SAMPLES_MAX:], repairs_in_row=0, space_block=None
    )
    if copy.write_s is None or not _seen_whole(copy, ledger):
        return ledger
    # Until it was judged sound: a copy without a checkable end is written some time before that is known.
    took_s = max(copy.write_s, (copy.sound_s or copy.changed_s) - copy.began_s)
    ledger = evolve(
        ledger,
        write_samples_s=remember_sample(ledger.write_samples_s, took_s),
        quiet_s_max=max(ledger.quiet_s_max, copy.longest_quiet_s),
    )
    request = ledger.request
    if request is not None and copy.began_s >= request.at_s and not copy.answered:
        gap_s = copy.began_s - request.at_s
        ledger = evolve(ledger, gap_samples_s=remember_sample(ledger.gap_samples_s, gap_s))
    return ledger


def _seen_whole(copy: Copy, ledger: Ledger) -> bool:
    """Whether a governor looked all the time while it was written: else the time away would count as its write."""
    return not copy.state_s < ledger.run.resumed_s <= (copy.sound_s or copy.changed_s)


def _judge(copy: Copy, world: Observation, ledger: Ledger) -> Ledger:
    """The receipt's entry of a copy that is judged; one that was judged before is corrected, not listed twice."""
    ledger = evolve(ledger, judged=(*ledger.judged, copy.serial)[-JUDGED_MAX:])
    if copy.pre_existing:
        return ledger
    request = ledger.request if answers(copy, ledger.request) else None
    served = [cause for cause in open_causes(ledger) if serves(copy, cause, world)]
    reason = request.reason if request is not None else (served[0].reason if served else "")
    write = Write(
        at_s=request.first_at_s if request is not None else copy.began_s,
        reason=reason,
        write_s=copy.write_s if _seen_whole(copy, ledger) else None,
        name=copy.name,
        status=copy.status,
        bytes=copy.bytes,
        serial=copy.serial,
    )
    writes = tuple(old for old in ledger.run.writes if old.serial != copy.serial)
    return change_run(ledger, writes=(*writes, write)[-WRITES_MAX:])


def _take_broken(copy: Copy, world: Observation, ledger: Ledger) -> Ledger:
    """A broken answer closes its request; what it was asked for wants a write again, which the repair inherits."""
    key = -copy.serial  # judged as broken; a later judgement as sound is another entry
    if key in ledger.judged:
        return ledger
    request = ledger.request
    answered = answers(copy, request)
    ledger = _judge(copy, world, ledger)
    ledger = evolve(ledger, judged=(*(serial for serial in ledger.judged if serial != copy.serial), key))
    if not answered or request is None:
        return ledger
    if ledger.repairs_in_row >= 1 and world.volume is not None:
        ledger = evolve(
            ledger,
            space_block=SpaceBlock(
                bytes=max((*ledger.size_samples_bytes[-3:], copy.bytes)),
                free_bytes=world.volume.free_bytes,
                copy_count=world.copy_count,
            ),
        )
    for cause in open_causes(ledger):
        if cause.state is CauseState.ASKED:
            ledger = _reopen(cause, world.now_s, ledger)
    return evolve(ledger, request=None)


def _reopen(cause: Cause, now_s: float, ledger: Ledger) -> Ledger:
    """After a broken answer a cause wants a write again; after three in a row nobody is made to wait any longer."""
    if ledger.repairs_in_row < REPAIRS_IN_ROW_MAX:
        return change_cause(ledger, cause.key, state=CauseState.WAITING, since_s=now_s)
    if cause.key.startswith("end:"):
        ledger = end_served(cause, now_s, False, ledger)
    window = cause.key.startswith("window:")
    return change_cause(ledger, cause.key, state=CauseState.WITHDRAWN if window else CauseState.MISSED)


def _take_unknown(copy: Copy, world: Observation, ledger: Ledger) -> Ledger:
    """A copy came that cannot be read: the request is answered, whether soundly cannot be told; nobody waits on."""
    if copy.serial in ledger.judged:
        return ledger
    ledger = _judge(copy, world, ledger)
    for cause in open_causes(ledger):
        if cause.state is CauseState.ASKED and copy.began_s >= cause.since_s:
            ledger = change_cause(ledger, cause.key, state=CauseState.MISSED, served_by=copy.serial)
            if cause.key.startswith("end:"):
                ledger = end_served(cause, copy.began_s, False, ledger)
    return ledger


def _mend(world: Observation, ledger: Ledger) -> Ledger:
    """A broken copy that changed again, vanished or has a sound successor wants no repair any more."""
    top = newest(world.copies)
    for cause in open_causes(ledger):
        if cause.key.startswith("broken:"):
            still = (
                top is not None and top.status is CopyStatus.BROKEN and cause.key == f"broken:{top.serial}"
            )
            if not still and in_flight(world, ledger) is None:
                ledger = change_cause(ledger, cause.key, state=CauseState.WITHDRAWN)
    block = ledger.space_block
    if block is not None and world.volume is not None:
        freed = world.volume.free_bytes > block.free_bytes + block.bytes // 20
        if freed or world.copy_count != block.copy_count:
            ledger = evolve(ledger, space_block=None)
    return ledger


def aged(world: Observation, ledger: Ledger) -> Ledger:
    """The ledger that knows how stale the newest sound copy ever was while training went on."""
    if ledger.run.ended_s is not None:
        return ledger
    age_s = unsaved_s(world, ledger)
    return change_run(ledger, stalest_s=age_s) if age_s > ledger.run.stalest_s else ledger


def close_request(ledger: Ledger) -> Ledger:
    """The ledger whose request is withdrawn when nothing that it was issued for is open any more."""
    if ledger.request is None or any(cause.state is CauseState.ASKED for cause in ledger.causes):
        return ledger
    return evolve(ledger, request=None)


def prune(world: Observation, ledger: Ledger) -> Ledger:
    """The ledger without closed causes that can never matter again."""
    top = newest(world.copies)
    serial = top.serial if top is not None else 0
    sound = newest_sound(world.copies)
    keep = {f"broken:{serial}", f"window:{window_serial(world)}", f"window:{sound.serial if sound else 0}"}
    causes = tuple(
        cause
        for cause in ledger.causes
        if cause.open
        or cause.key.startswith(("notice:", "end:"))
        or (cause.key in keep and cause.state is not CauseState.WITHDRAWN)
    )
    return ledger if len(causes) == len(ledger.causes) else evolve(ledger, causes=causes)


def window_serial(world: Observation) -> int:
    """The serial of the copy from which the window is counted: the newest that is sound, or that cannot be judged."""
    for copy in reversed(finished(world)):
        if copy.status in (CopyStatus.SOUND, CopyStatus.UNKNOWN):
            return copy.serial
    return 0
