"""From what was seen to what holds: the value of each of the 14 conditions, with its reason and source. Pure."""

from __future__ import annotations

from attrs import evolve

from ckpt_governor.conditions import Condition
from ckpt_governor.copies import being_written, newest_sound
from ckpt_governor.durations import format_bytes, format_duration
from ckpt_governor.estimate import Costs
from ckpt_governor.facts import Copy, CopyStatus, Observation, Reading, Sighting
from ckpt_governor.ledger import Cause, CauseState, Ledger
from ckpt_governor.numbers import Numbers
from ckpt_governor.placement import reserve_bytes

SPACE_ON_COPIES = 2.5
SPACE_OFF_COPIES = 3.0
FLAP_STARTS = 3
FLAP_WITHIN_S = 6 * 3600.0

COPIES_SHOWN = 12

NO_SOURCE = "no source that could tell was identified"


def copies_that_matter(copies: tuple[Copy, ...]) -> tuple[Copy, ...]:
    """The copies on which a decision may rest, oldest first: the newest few, the newest sound one, those being written.

    Leftovers of dead writes are left out: they are no copies.
    """
    live = [copy for copy in copies if not (copy.temporary and copy.status is CopyStatus.UNKNOWN)]
    serials = {copy.serial for copy in live[-COPIES_SHOWN:]}
    serials |= {copy.serial for copy in being_written(live)[-COPIES_SHOWN:]}
    sound = newest_sound(live)
    if sound is not None:
        serials.add(sound.serial)
    return tuple(copy for copy in live if copy.serial in serials)


def with_moments(
    copies: tuple[Copy, ...],
    former: tuple[Copy, ...],
    sightings: tuple[Sighting, ...],
    former_look_s: float | None,
) -> tuple[Copy, ...]:
    """The copies with the volume's own times, and new ones with the earliest moment at which they can have begun.

    A copy that was not there at the former look began at some moment since: its state may be that old.
    """
    written_s = {sighting.name: sighting.written_s for sighting in sightings}
    known = {copy.serial for copy in former}
    stamped = []
    for copy in copies:
        captured_s = copy.captured_s
        if copy.serial not in known and former_look_s is not None and not copy.pre_existing:
            captured_s = min(copy.began_s, former_look_s)
        at_s = written_s.get(copy.name, copy.written_s)
        same = at_s == copy.written_s and captured_s == copy.captured_s
        stamped.append(copy if same else evolve(copy, written_s=at_s, captured_s=captured_s))
    return tuple(stamped)


def levels(world: Observation, numbers: Numbers, ledger: Ledger, cost: Costs) -> tuple[Reading, ...]:
    """The readings of edge and counter conditions: those of the sources, and those that follow from other facts."""
    derived = (_space(world, numbers, ledger, cost), _flap(world, ledger))
    read = {reading.condition for reading in derived}
    return (*derived, *(reading for reading in world.readings if reading.condition not in read))


def conditions(world: Observation, numbers: Numbers, ledger: Ledger, cost: Costs) -> tuple[Reading, ...]:
    """All 14, in order: 1, 0 or unknown, with why and where it was read."""
    known = {reading.condition: reading for reading in levels(world, numbers, ledger, cost)}
    return tuple(_value(condition, known.get(condition), world, numbers, ledger) for condition in Condition)


def _value(
    condition: Condition, reading: Reading | None, world: Observation, numbers: Numbers, ledger: Ledger
) -> Reading:
    announced = _announced(condition, ledger)
    if announced is not None:
        return Reading(
            condition=condition,
            value=True,
            why=announced.text,
            source=_source(announced, world),
            read_s=announced.seen_s,
            deadline_s=announced.deadline_s,
        )
    for trouble in world.troubles:
        if trouble.condition is condition:
            return _reading(condition, None, trouble.text, "glue", world)
    if reading is not None:
        return reading
    return _unannounced(condition, world, numbers, ledger)


def _announced(condition: Condition, ledger: Ledger) -> Cause | None:
    """The live announcement of this condition; a request counts only while it is open."""
    for cause in reversed(ledger.causes):
        if not cause.key.startswith("notice:") or cause.reason != condition.value or not cause.live:
            continue
        if cause.state in (CauseState.WITHDRAWN, CauseState.MISSED):
            continue
        if condition is not Condition.REQUEST or cause.open:
            return cause
    return None


def _source(cause: Cause, world: Observation) -> str:
    for notice in world.notices:
        if cause.key == f"notice:{notice.identity}":
            return notice.source
    return "job.json" if cause.key.startswith("notice:walltime:job.json") else "duration"


def _unannounced(condition: Condition, world: Observation, numbers: Numbers, ledger: Ledger) -> Reading:
    if condition is Condition.REQUEST:
        return _reading(condition, False, "nobody asks for a write", "glue", world)
    if condition is Condition.TERMINATE:
        return _reading(condition, False, "no hook and no signal announced an end", "glue, signal", world)
    if condition is Condition.WALLTIME and (numbers.duration_s is not None or world.job.ends_s is not None):
        source = "duration" if numbers.duration_s is not None else "job.json"
        if _allotted_end_s(world, numbers, ledger) <= world.now_s:
            return _reading(condition, True, "the allotted time is over", source, world)
        return _reading(condition, False, "the allotted time does not end soon", source, world)
    return _reading(condition, None, NO_SOURCE, "none", world)


def _allotted_end_s(world: Observation, numbers: Numbers, ledger: Ledger) -> float:
    """The earlier of the ends that are known; one is."""
    ends = [] if world.job.ends_s is None else [world.job.ends_s]
    if numbers.duration_s is not None:
        ends.append(ledger.run.job_started_s + numbers.duration_s)
    return min(ends)


def _reading(condition: Condition, value: bool | None, why: str, source: str, world: Observation) -> Reading:
    return Reading(condition=condition, value=value, why=why, source=source, read_s=world.now_s)


def _space(world: Observation, numbers: Numbers, ledger: Ledger, cost: Costs) -> Reading:
    """1 when free space is below 2.5 copies, 0 again above 3."""
    if world.volume is None:
        return _reading(Condition.SPACE, None, "the volume's free space cannot be read", "statvfs", world)
    if cost.bytes is None:
        return _reading(Condition.SPACE, None, "no copy seen yet, so its size is not known", "statvfs", world)
    free = max(0, world.volume.free_bytes - reserve_bytes(world.volume.total_bytes, numbers))
    edge = ledger.edges.get(Condition.SPACE.value)
    latched = edge is not None and edge.latched
    low = free < (SPACE_OFF_COPIES if latched else SPACE_ON_COPIES) * cost.bytes
    why = f"{format_bytes(free)} free, a copy has {format_bytes(cost.bytes)}"
    return _reading(Condition.SPACE, low, why, "statvfs", world)


def _flap(world: Observation, ledger: Ledger) -> Reading:
    """1 after three starts of the job in six hours."""
    recent = [start_s for start_s in ledger.starts_s if world.now_s - start_s <= FLAP_WITHIN_S]
    restarts = world.job.restarts
    if not ledger.starts_s and restarts is None:
        return _reading(Condition.FLAP, None, "nothing tells of the job's starts", "none", world)
    if restarts is not None and restarts + 1 >= FLAP_STARTS:
        return _reading(Condition.FLAP, True, f"{restarts} restarts", "job.json", world)
    within = format_duration(FLAP_WITHIN_S)
    flaps = len(recent) >= FLAP_STARTS
    return _reading(Condition.FLAP, flaps, f"{len(recent)} starts in {within}", "ledger", world)
