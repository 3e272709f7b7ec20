"""From what hosts show to what is at risk: memory, eviction, storage, device, heat, hardware, peers. Pure.

Thresholds and holding times are those of docs/conditions.md. Each level has an entry and an exit: what holds is
judged by the exit, so that a value that swings around one threshold is one edge.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from ckpt_governor.conditions import TRAITS, Condition, Kind
from ckpt_governor.durations import format_bytes, format_duration
from ckpt_governor.estimate import Costs
from ckpt_governor.facts import Observation, Reading, Report
from ckpt_governor.ledger import Ledger
from ckpt_governor.signs import Heat, Memory, Node, Sensor, Storage
from ckpt_governor.signs_memory import (
    Memories,
    hit_in_s,
    usual_canary_s,
    with_count,
    with_level,
    with_memory,
    with_storage,
)

MEMORY_ON_SHARE, MEMORY_OFF_SHARE = 0.92, 0.85
PRESSURE_ON, PRESSURE_OFF = 10.0, 5.0
"""Per cent of the last ten seconds in which all tasks waited for memory."""
HIT_AHEAD_S = 60.0
EVICT_MEMORY_BYTES = 2 * 100 * 1024 * 1024
"""Twice the kubelet's hard threshold of 100Mi."""
EVICT_MEMORY_ON_SHARE, EVICT_MEMORY_OFF_SHARE = 0.02, 0.05
EVICT_DISK_ON_SHARE, EVICT_DISK_OFF_SHARE = 0.12, 0.15
"""The kubelet evicts below 10 % of the node's disk."""
EVICT_INODES_ON_SHARE, EVICT_INODES_OFF_SHARE = 0.07, 0.10
"""The kubelet evicts below 5 % of the inodes."""
EVICT_HOLD_S = 20.0
SLOW_FACTOR, SLOW_S_MIN, SLOW_IN_ROW, GOOD_IN_ROW = 10.0, 0.25, 2, 3
HEAT_ON_C, HEAT_OFF_C, HEAT_HOLD_S = 3.0, 8.0, 60.0
"""Degrees below critical; the exit lies 5 degrees below the entry."""
ROSE_HOLD_S = 300.0
"""A counter that rose is a sign for so long."""
SILENT_S = 60.0

SOURCE_ORDER = ("job.json", "cgroup", "meminfo")
"""Whose memory counts, where several tell."""


def is_silent(report: Report, now_s: float) -> bool:
    """Whether this source tells nothing at present: it failed, or its last word is too old."""
    return bool(report.failed) or now_s - report.read_s > report.stale_s


def silence_text(report: Report, now_s: float) -> str:
    """Why it tells nothing."""
    if report.failed:
        return report.failed
    return f"{report.source} has not answered for {format_duration(now_s - report.read_s)}"


def telling(world: Observation) -> tuple[Report, ...]:
    """The reports that can be believed now."""
    return tuple(report for report in world.reports if not is_silent(report, world.now_s))


def memory_of(world: Observation) -> Memory | None:
    """The memory that counts: what the job itself tells, else its control group, else the host."""
    told = [world.job.memory] if world.job.memory is not None else []
    told += [report.memory for report in telling(world) if report.memory is not None]
    rank = {source: order for order, source in enumerate(SOURCE_ORDER)}
    return min(told, key=lambda memory: rank.get(memory.source, len(rank)), default=None)


# ---- remembering -------------------------------------------------------------------------------------------------


def remember_signs(world: Observation, ledger: Ledger) -> Ledger:
    """The ledger that has taken in what the reports show; each report once, what must last at each look."""
    memories, now_s = ledger.signs, world.now_s
    memory = memory_of(world)
    if memory is not None:
        memories = with_memory(memories, memory, now_s)
    for report in telling(world):
        if memories.read_s.get(report.source) != report.read_s:
            memories = _take_in(
                report, evolve(memories, read_s={**memories.read_s, report.source: report.read_s})
            )
        if report.node is not None:
            memories = with_level(memories, "evict", bool(_node_low(report.node, latched=False)), now_s)
    heats = [report.heat for report in telling(world) if report.heat is not None]
    if heats:
        hot = any(_heat_text(heat, HEAT_ON_C) for heat in heats)
        memories = with_level(memories, "thermal", hot, now_s)
    return ledger if memories == ledger.signs else evolve(ledger, signs=memories)


def _take_in(report: Report, memories: Memories) -> Memories:
    if report.storage is not None:
        memories = with_storage(memories, report.storage, SLOW_FACTOR, SLOW_S_MIN)
    for count in report.counts:
        memories = with_count(memories, count, report.read_s)
    return memories


# ---- judging -----------------------------------------------------------------------------------------------------


def hazards(world: Observation, ledger: Ledger, cost: Costs) -> tuple[Reading, ...]:
    """What the signs say of each edge and counter condition, one reading a source; what no source covers is absent."""
    found: list[Reading] = []
    memory = memory_of(world)
    if memory is not None:
        found.append(_memory(memory, world, ledger, cost))
    for report in world.reports:
        if is_silent(report, world.now_s):
            found += [
                _unknown(condition, report, world)
                for condition in report.covers
                if TRAITS[condition].kind is not Kind.NOTICE
                and not (condition is Condition.MEMORY and memory is not None)
            ]
            continue
        found += [one for one in report.readings if TRAITS[one.condition].kind is not Kind.NOTICE]
        found += [reading for judge in _JUDGES if (reading := judge(report, ledger)) is not None]
        found += _counts(report, ledger)
    return tuple(found)


def _unknown(condition: Condition, report: Report, world: Observation) -> Reading:
    why = silence_text(report, world.now_s)
    return Reading(condition=condition, value=None, why=why, source=report.source, read_s=report.read_s)


def _latched(condition: Condition, ledger: Ledger) -> bool:
    edge = ledger.edges.get(condition.value)
    return edge is not None and edge.latched


def _said(condition: Condition, report: Report, value: bool | None, why: str) -> Reading:
    return Reading(condition=condition, value=value, why=why, source=report.source, read_s=report.read_s)


def _memory(memory: Memory, world: Observation, ledger: Ledger, cost: Costs) -> Reading:
    """1 near the limit, or when the slope leads there soon, or when the limit is hit while all wait for memory."""
    share = memory.used_bytes / max(1, memory.limit_bytes)
    why = f"{format_bytes(memory.used_bytes)} of {format_bytes(memory.limit_bytes)} used ({share:.0%})"
    pressure, hits = memory.full_avg10, ledger.signs.limit_hits
    hit_s = hit_in_s(ledger.signs, memory.limit_bytes)
    rose = hits is not None and hits.rose_s is not None and world.now_s - hits.rose_s <= HIT_AHEAD_S
    value = share >= MEMORY_ON_SHARE
    if hit_s is not None and hit_s <= 2.0 * (cost.write_s or 0.0) + HIT_AHEAD_S:
        value, why = True, f"{why}, full in {format_duration(hit_s)} at this slope"
    elif rose and pressure is not None and pressure > PRESSURE_ON:
        value, why = True, f"{why}, the limit is hit and all tasks wait for {pressure:.0f}% of the time"
    elif not value and _latched(Condition.MEMORY, ledger):
        value = share >= MEMORY_OFF_SHARE or (pressure is not None and pressure >= PRESSURE_OFF)
    return Reading(condition=Condition.MEMORY, value=value, why=why, source=memory.source, read_s=world.now_s)


def _node_low(node: Node, *, latched: bool) -> str:
    """What of the node is near the kubelet's thresholds, in words; empty when nothing is."""
    available, total = node.memory_available_bytes, node.memory_total_bytes
    share = EVICT_MEMORY_OFF_SHARE if latched else EVICT_MEMORY_ON_SHARE
    if available is not None and total is not None and available < EVICT_MEMORY_BYTES + share * total:
        return f"the node has {format_bytes(available)} of memory left"
    disk, inodes = node.disk_free_share, node.inodes_free_share
    if disk is not None and disk < (EVICT_DISK_OFF_SHARE if latched else EVICT_DISK_ON_SHARE):
        return f"the node's disk is {disk:.0%} free"
    if inodes is not None and inodes < (EVICT_INODES_OFF_SHARE if latched else EVICT_INODES_ON_SHARE):
        return f"{inodes:.0%} of the node's inodes are free"
    return ""


def _evict(report: Report, ledger: Ledger) -> Reading | None:
    node = report.node
    if node is None:
        return None
    if not node.evicts:
        return _said(Condition.EVICT, report, False, "nothing evicts pods here")
    known = (node.memory_available_bytes, node.disk_free_share, node.inodes_free_share)
    if all(value is None for value in known):
        return _said(Condition.EVICT, report, None, "neither memory nor disk of the node can be read")
    latched = _latched(Condition.EVICT, ledger)
    low = _node_low(node, latched=latched)
    since_s = ledger.signs.since_s.get("evict")
    lasts = latched or (since_s is not None and report.read_s - since_s >= EVICT_HOLD_S)
    return _said(Condition.EVICT, report, bool(low) and lasts, low or "memory, disk and inodes suffice")


def _storage(report: Report, ledger: Ledger) -> Reading | None:
    storage = report.storage
    if storage is None:
        return None
    wrong = _storage_text(storage, ledger)
    if wrong:
        return _said(Condition.STORAGE, report, True, wrong)
    if storage.read_only is None and storage.canary_s is None:
        return _said(Condition.STORAGE, report, None, "neither the mount nor a canary could be read")
    if _latched(Condition.STORAGE, ledger) and ledger.signs.good_in_row < GOOD_IN_ROW:
        return _said(Condition.STORAGE, report, True, "it has failed and is not yet well again")
    took = "" if storage.canary_s is None else f", a canary took {format_duration(storage.canary_s)}"
    return _said(Condition.STORAGE, report, False, f"the volume takes writes{took}")


def _storage_text(storage: Storage, ledger: Ledger) -> str:
    """What is wrong with the volume, in words; empty when nothing is."""
    if storage.read_only:
        return "the volume is mounted read-only"
    if storage.error:
        return f"a canary write failed: {storage.error}"
    usual_s = usual_canary_s(ledger.signs)
    if ledger.signs.slow_in_row >= SLOW_IN_ROW and storage.canary_s is not None and usual_s is not None:
        took = f"{format_duration(storage.canary_s)}, usually {format_duration(usual_s)}"
        return f"a canary write took {took}"
    return ""


def _near(sensor: Sensor, below_c: float) -> bool:
    return sensor.current_c >= sensor.critical_c - below_c


def _heat_text(heat: Heat, below_c: float) -> str:
    """What is too hot, in words; empty when nothing is."""
    if heat.slowed:
        return heat.why or "the hardware slows itself down"
    for sensor in heat.sensors:
        if _near(sensor, below_c):
            return f"{sensor.name} has {sensor.current_c:.0f} C, critical is {sensor.critical_c:.0f} C"
    return ""


def _thermal(report: Report, ledger: Ledger) -> Reading | None:
    heat = report.heat
    if heat is None:
        return None
    if not heat.sensors and heat.slowed is None:
        return _said(Condition.THERMAL, report, None, "no sensor tells a temperature")
    latched = _latched(Condition.THERMAL, ledger)
    hot = _heat_text(heat, HEAT_OFF_C if latched else HEAT_ON_C)
    since_s = ledger.signs.since_s.get("thermal")
    lasts = latched or (since_s is not None and report.read_s - since_s >= HEAT_HOLD_S)
    return _said(
        Condition.THERMAL, report, bool(hot) and lasts, hot or "nothing is near its critical temperature"
    )


def _peer(report: Report, _: Ledger) -> Reading | None:
    """1 when a part is silent while others go on; when all are silent the job stands still, and nobody can tell."""
    if not report.parts:
        return None
    silent = sorted(
        (part for part in report.parts if part.silent_s > SILENT_S), key=lambda part: -part.silent_s
    )
    if not silent:
        return _said(Condition.PEER, report, False, f"all {len(report.parts)} parts give signs of life")
    worst = silent[0]
    why = f"{worst.name} is silent for {format_duration(worst.silent_s)}"
    if len(silent) == len(report.parts):
        return _said(Condition.PEER, report, None, f"{why}, and so are all others")
    return _said(Condition.PEER, report, True, f"{why} while {len(report.parts) - len(silent)} others go on")


def _counts(report: Report, ledger: Ledger) -> list[Reading]:
    """One reading for each counter condition that this report has counters of."""
    found = []
    for condition in Condition:
        counts = [count for count in report.counts if count.condition is condition]
        if not counts:
            continue
        rose = [
            count
            for count in counts
            if (tally := ledger.signs.tallies.get(count.name)) is not None
            and tally.rose_s is not None
            and report.read_s - tally.rose_s <= ROSE_HOLD_S
        ]
        why = "no counter rises"
        if rose:
            why = f"{rose[0].text or rose[0].name}: now {rose[0].value}"
        found.append(_said(condition, report, bool(rose), why))
    return found


_JUDGES: tuple[Callable[[Report, Ledger], Reading | None], ...] = (_evict, _storage, _thermal, _peer)
