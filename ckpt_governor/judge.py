"""From what was seen to what holds: the value of each of the 14 conditions, with its reason and source. Pure."""

from __future__ import annotations

from attrs import evolve

from ckpt_governor.conditions import Condition
from ckpt_governor.copies import being_written, newest_sound
from ckpt_governor.durations import format_bytes, format_duration
from ckpt_governor.estimate import Costs
from ckpt_governor.facts import AllottedEnd, Copy, CopyStatus, Observation, Reading, Sighting
from ckpt_governor.hazards import hazards, is_silent, silence_text
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
    """One reading for each edge or counter condition of which anything is known: sources and other facts together."""
    derived = (_space(world, numbers, ledger, cost), _flap(world, ledger))
    own = {reading.condition for reading in derived}
    told: dict[Condition, list[Reading]] = {}
    for reading in (*world.readings, *hazards(world, ledger, cost)):
        if reading.condition not in own:
            told.setdefault(reading.condition, []).append(reading)
    return (*derived, *(_together(readings) for readings in told.values()))


def _together(readings: list[Reading]) -> Reading:
    """What several sources say of one condition: any 1 is 1, else any 0 is 0, else unknown with all reasons."""
    for value in (True, False):
        same = [reading for reading in readings if reading.value is value]
        if same:
            sources = ", ".join(dict.fromkeys(reading.source for reading in same))
            return evolve(same[0], source=sources)
    whys = "; ".join(dict.fromkeys(reading.why for reading in readings))
    sources = ", ".join(dict.fromkeys(reading.source for reading in readings))
    return evolve(readings[0], why=whys, source=sources)


def conditions(world: Observation, numbers: Numbers, ledger: Ledger, cost: Costs) -> tuple[Reading, ...]:
    """All 14, in order: 1, 0 or unknown, with why and where it was read."""
    known = {
        reading.condition: _held(reading, world, ledger) for reading in levels(world, numbers, ledger, cost)
    }
    return tuple(_value(condition, known.get(condition), world, numbers, ledger) for condition in Condition)


def _held(reading: Reading, world: Observation, ledger: Ledger) -> Reading:
    """A level that fell is 1 until it was off for long enough: a value that swings is one edge."""
    edge = ledger.edges.get(reading.condition.value)
    if reading.value is not False or edge is None or not edge.latched or edge.off_since_s is None:
        return reading
    off = format_duration(max(0.0, world.now_s - edge.off_since_s))
    return evolve(reading, value=True, why=f"off for {off} only: {reading.why}")


def _value(
    condition: Condition, reading: Reading | None, world: Observation, numbers: Numbers, ledger: Ledger
) -> Reading:
    announced = _announced(condition, world, numbers, ledger)
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


def _announced(condition: Condition, world: Observation, numbers: Numbers, ledger: Ledger) -> Cause | None:
    """The live announcement of this condition; a request counts only while it is open.

    One that was answered and whose end passed long ago did not come true: some platforms leave it standing.
    """
    for cause in reversed(ledger.causes):
        if not cause.key.startswith("notice:") or cause.reason != condition.value or not cause.live:
            continue
        if cause.state in (CauseState.WITHDRAWN, CauseState.MISSED):
            continue
        outlived_s = 2.0 * numbers.grace_s
        if not cause.open and cause.deadline_s is not None and world.now_s > cause.deadline_s + outlived_s:
            continue
        if condition is not Condition.REQUEST or cause.open:
            return cause
    return None


def _source(cause: Cause, world: Observation) -> str:
    told = (*world.notices, *(notice for report in world.reports for notice in report.notices))
    for notice in told:
        if cause.key == f"notice:{notice.identity}":
            return notice.source
    words = cause.key.split(":")
    return words[2] if words[1] == "walltime" and len(words) > 2 else words[1]


def _unannounced(condition: Condition, world: Observation, numbers: Numbers, ledger: Ledger) -> Reading:
    if condition is Condition.REQUEST:
        return _reading(condition, False, "nobody asks for a write", "glue", world)
    if condition is Condition.TERMINATE:
        return _reading(condition, False, "no hook and no signal announced an end", "glue, signal", world)
    ends = allotted_ends(world, numbers, ledger) if condition is Condition.WALLTIME else ()
    if ends:
        first = min(ends, key=lambda end: end.end_s)
        over = first.end_s <= world.now_s
        why = "the allotted time is over" if over else "the allotted time does not end soon"
        return _reading(condition, over, why, first.source, world)
    return _covered(condition, world)


def _covered(condition: Condition, world: Observation) -> Reading:
    """0 only where a source that was identified was read and announces nothing; else unknown, with every reason."""
    told = []
    for report in world.reports:
        if is_silent(report, world.now_s):
            if condition in report.covers:
                why = silence_text(report, world.now_s)
                told.append(
                    Reading(
                        condition=condition, value=None, why=why, source=report.source, read_s=report.read_s
                    )
                )
        else:
            told += [one for one in report.readings if one.condition is condition]
    return _together(told) if told else _reading(condition, None, NO_SOURCE, "none", world)


def allotted_ends(world: Observation, numbers: Numbers, ledger: Ledger) -> tuple[AllottedEnd, ...]:
    """The ends of the allotted time that are known, with who told them."""
    run = ledger.run.job_identity or format(ledger.run.started_s, ".0f")
    ends = []
    if world.job.ends_s is not None:
        ends.append(AllottedEnd(identity=run, source="job.json", end_s=world.job.ends_s))
    if numbers.duration_s is not None:
        end_s = ledger.run.job_started_s + numbers.duration_s
        ends.append(AllottedEnd(identity=run, source="duration", end_s=end_s))
    return (*ends, *(end for report in world.reports for end in report.ends))


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
    restarts, source = world.job.restarts, "job.json"
    for report in world.reports:
        if report.restarts is not None and report.restarts > (restarts or 0):
            restarts, source = report.restarts, report.source
    if not ledger.starts_s and restarts is None:
        return _reading(Condition.FLAP, None, "nothing tells of the job's starts", "none", world)
    if restarts is not None and restarts + 1 >= FLAP_STARTS:
        return _reading(Condition.FLAP, True, f"{restarts} restarts", source, world)
    within = format_duration(FLAP_WITHIN_S)
    flaps = len(recent) >= FLAP_STARTS
    return _reading(Condition.FLAP, flaps, f"{len(recent)} starts in {within}", "ledger", world)
