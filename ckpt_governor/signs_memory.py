"""What must be remembered of a host's signs between looks: trends, baselines, and since when a level holds. Pure."""

from __future__ import annotations

from statistics import median

from attrs import Factory, evolve, frozen

from ckpt_governor.signs import Count, Memory, Storage

USED_SAMPLES_MAX = 24
USED_EVERY_S = 5.0
USED_WITHIN_S = 120.0
CANARIES_MAX = 20
CANARIES_USUAL_MIN = 5
"""So many canaries must have come through before one can be called slow."""
TALLIES_MAX = 512
HOUR_S = 3600.0


@frozen(kw_only=True)
class Used:
    """How much memory was used at one moment."""

    at_s: float
    used_bytes: int


@frozen(kw_only=True)
class Tally:
    """One counter: where it stood, and when it last rose by more than it may."""

    value: int
    base: int
    """The value from which a rate is counted, for at most an hour."""
    base_s: float
    rose_s: float | None = None
    text: str = ""


@frozen(kw_only=True)
class Memories:
    """All that is remembered of the signs of one host. Every collection is bounded."""

    read_s: dict[str, float] = Factory(dict)
    """The last report of each source that was taken in."""
    used: tuple[Used, ...] = ()
    used_source: str = ""
    limit_hits: Tally | None = None
    since_s: dict[str, float] = Factory(dict)
    """Since when a level that must last for a while holds, by its name."""
    canaries_s: tuple[float, ...] = ()
    """What the canaries that were not slow took."""
    slow_in_row: int = 0
    good_in_row: int = 0
    tallies: dict[str, Tally] = Factory(dict)


def moved(memories: Memories, shift_s: float) -> Memories:
    """The memories with all their moments moved: the clock was stepped between two processes."""

    def tally(one: Tally) -> Tally:
        rose_s = None if one.rose_s is None else one.rose_s + shift_s
        return evolve(one, base_s=one.base_s + shift_s, rose_s=rose_s)

    return evolve(
        memories,
        read_s={},
        used=tuple(evolve(used, at_s=used.at_s + shift_s) for used in memories.used),
        limit_hits=None if memories.limit_hits is None else tally(memories.limit_hits),
        since_s={name: at_s + shift_s for name, at_s in memories.since_s.items()},
        tallies={name: tally(one) for name, one in memories.tallies.items()},
    )


def calm(memories: Memories) -> Memories:
    """The memories without what changes at every look; these need not be written each time."""
    return evolve(memories, read_s={}, used=(), canaries_s=())


def with_memory(memories: Memories, memory: Memory, now_s: float) -> Memories:
    """The memories that know how much is used now."""
    if memories.used_source != memory.source:
        memories = evolve(memories, used=(), used_source=memory.source, limit_hits=None)
    if not memories.used or now_s - memories.used[-1].at_s >= USED_EVERY_S:
        used = (*memories.used, Used(at_s=now_s, used_bytes=memory.used_bytes))
        used = tuple(one for one in used if now_s - one.at_s <= USED_WITHIN_S)[-USED_SAMPLES_MAX:]
        memories = evolve(memories, used=used)
    if memory.limit_hits is not None:
        hits = tallied(memories.limit_hits, memory.limit_hits, 0.0, now_s)
        memories = evolve(memories, limit_hits=hits)
    return memories


def with_storage(memories: Memories, storage: Storage, slow_factor: float, slow_s_min: float) -> Memories:
    """The memories that know how the canary fared; what was slow does not become usual."""
    if storage.error or storage.read_only:
        return evolve(memories, good_in_row=0)
    if storage.canary_s is None:
        return memories
    usual_s = usual_canary_s(memories)
    if usual_s is not None and storage.canary_s > max(slow_factor * usual_s, slow_s_min):
        return evolve(memories, slow_in_row=memories.slow_in_row + 1, good_in_row=0)
    canaries_s = (*memories.canaries_s, storage.canary_s)[-CANARIES_MAX:]
    return evolve(memories, canaries_s=canaries_s, slow_in_row=0, good_in_row=memories.good_in_row + 1)


def usual_canary_s(memories: Memories) -> float | None:
    """What a canary usually takes; None until some have come through."""
    if len(memories.canaries_s) < CANARIES_USUAL_MIN:
        return None
    return median(memories.canaries_s)


def with_count(memories: Memories, count: Count, now_s: float) -> Memories:
    """The memories that know where a counter stands; surplus counters are not followed."""
    former = memories.tallies.get(count.name)
    if former is None and len(memories.tallies) >= TALLIES_MAX:
        return memories
    tally = evolve(tallied(former, count.value, count.per_hour_max, now_s), text=count.text)
    return evolve(memories, tallies={**memories.tallies, count.name: tally})


def tallied(former: Tally | None, value: int, per_hour_max: float, now_s: float) -> Tally:
    """The counter with its new value; the first reading, and one after a reboot, is a baseline."""
    if former is None or value < former.value:
        return Tally(value=value, base=value, base_s=now_s)
    tally = evolve(former, value=value)
    if now_s - tally.base_s > HOUR_S:
        tally = evolve(tally, base=former.value, base_s=now_s)
    rose = value - tally.base > per_hour_max if per_hour_max else value > former.value
    return evolve(tally, base=value, base_s=now_s, rose_s=now_s) if rose else tally


def with_level(memories: Memories, name: str, holds: bool, now_s: float) -> Memories:
    """The memories that know since when the level with this name holds."""
    if holds:
        return (
            memories
            if name in memories.since_s
            else evolve(memories, since_s={**memories.since_s, name: now_s})
        )
    if name not in memories.since_s:
        return memories
    return evolve(memories, since_s={key: at_s for key, at_s in memories.since_s.items() if key != name})


def hit_in_s(memories: Memories, limit_bytes: int) -> float | None:
    """Seconds until the limit is reached at the present slope; None where it does not rise, or is not known yet.

    The slope is that of the least squares line through the last two minutes, from 30 s of samples on.
    """
    used = memories.used
    if len(used) < 4 or used[-1].at_s - used[0].at_s < 30.0:
        return None
    mean_s = sum(one.at_s for one in used) / len(used)
    mean_bytes = sum(one.used_bytes for one in used) / len(used)
    spread = sum((one.at_s - mean_s) ** 2 for one in used)
    slope = sum((one.at_s - mean_s) * (one.used_bytes - mean_bytes) for one in used) / spread
    if slope <= 0:
        return None
    return max(0.0, (limit_bytes - used[-1].used_bytes) / slope)
