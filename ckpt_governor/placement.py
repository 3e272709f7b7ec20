"""When the write for an announced end must start, and whether one fits at all. Pure."""

from __future__ import annotations

from attrs import frozen

from ckpt_governor.conditions import TRAITS, condition_named
from ckpt_governor.durations import format_bytes, format_duration
from ckpt_governor.estimate import SIZE_HEADROOM, Costs
from ckpt_governor.facts import Observation
from ckpt_governor.ledger import Cause, Ledger, Refusal
from ckpt_governor.numbers import Numbers
from ckpt_governor.prices import last_start_before_end_s

RESERVE_SHARE = 0.01
RESERVE_BYTES_MAX = 1 << 30
INODES_NEEDED_MIN = 2


@frozen(kw_only=True)
class Misfit:
    """Why a write does not fit."""

    refusal: Refusal
    text: str
    for_ever: bool = False
    """No waiting would help: the volume itself is too small."""


def latest_start_s(cause: Cause, costs: Costs, unsaved_s: float, now_s: float) -> float | None:
    """The last safe moment to ask before the cause's deadline; None when the cost of a write is not known."""
    if cause.deadline_s is None or costs.write_s is None:
        return None
    reach_s = costs.write_s
    if costs.write_samples_s:
        unsaved_at_end_s = unsaved_s + max(0.0, cause.deadline_s - now_s)
        reach_s = last_start_before_end_s(costs.write_samples_s, unsaved_at_end_s)
    # Two polls earlier than the fit check needs, so that a late look does not refuse what was placed in time.
    return cause.deadline_s - max(reach_s, costs.write_s) - costs.gap_s - costs.margin_s - 2.0 * costs.lag_s


def due_s(cause: Cause, costs: Costs, unsaved_s: float, now_s: float) -> float:
    """When to ask for this cause: now, or its last safe moment where waiting gains more than it risks.

    Waiting saves the work of the announced lead; it loses what is unsaved if the end comes early. So it waits
    while ``unsaved < lead / early_end_chance``.
    """
    start_s = latest_start_s(cause, costs, unsaved_s, now_s)
    condition = condition_named(cause.reason)
    if start_s is None or cause.deadline_s is None or condition is None or TRAITS[condition].at_once:
        return now_s
    lead_s = cause.deadline_s - cause.seen_s
    if unsaved_s * TRAITS[condition].early_end_chance >= lead_s:
        return now_s
    return start_s


def time_misfit(deadline_s: float | None, costs: Costs, now_s: float) -> Misfit | None:
    """Refuses a write that cannot be sound before its deadline. What is unknown never refuses."""
    if deadline_s is None:
        return None
    left_s = deadline_s - now_s
    need_s = costs.need_s
    if need_s is None or need_s <= left_s:
        return None
    text = f"a write needs {format_duration(need_s)}, {format_duration(left_s)} left"
    return Misfit(refusal=Refusal.NO_TIME, text=text)


def reserve_bytes(total_bytes: int, numbers: Numbers) -> int:
    """Free space that is left untouched."""
    if numbers.reserve_bytes is not None:
        return numbers.reserve_bytes
    return min(RESERVE_BYTES_MAX, int(total_bytes * RESERVE_SHARE))


def space_misfit(world: Observation, numbers: Numbers, ledger: Ledger, costs: Costs) -> Misfit | None:
    """Refuses a write that would fill the volume. What is unknown never refuses."""
    if costs.bytes is None:
        return None
    need = int(costs.bytes * SIZE_HEADROOM) + (costs.bytes if world.stages_beside else 0)
    blocked = _quota_misfit(ledger, costs.bytes)
    if blocked is not None:
        return blocked
    if world.volume is None:
        return None
    reserve = reserve_bytes(world.volume.total_bytes, numbers)
    if need > world.volume.total_bytes - reserve:
        text = f"one copy needs {format_bytes(need)}, the whole volume holds {format_bytes(world.volume.total_bytes)}"
        return Misfit(refusal=Refusal.NO_SPACE, text=text, for_ever=True)
    free = world.volume.free_bytes - reserve
    if need > free:
        text = (
            f"a copy needs {format_bytes(need)}, {format_bytes(max(0, free))} free"
            f" ({format_bytes(reserve)} kept in reserve){_leftovers(world)}"
        )
        return Misfit(refusal=Refusal.NO_SPACE, text=text)
    inodes = world.volume.free_inodes
    if inodes is not None and inodes < INODES_NEEDED_MIN:
        return Misfit(refusal=Refusal.NO_SPACE, text=f"a copy needs a new file, {inodes} inodes free")
    return None


def _quota_misfit(ledger: Ledger, size: int) -> Misfit | None:
    """A write of this size failed for space while the volume showed room: nothing that large until that changed."""
    block = ledger.space_block
    if block is None or size < block.bytes:
        return None
    return Misfit(
        refusal=Refusal.NO_SPACE,
        text=f"the last writes of {format_bytes(block.bytes)} stopped short; nothing was freed since (quota?)",
    )


def _leftovers(world: Observation) -> str:
    total = sum(left.bytes for left in world.leftovers)
    names = ", ".join(left.name for left in world.leftovers[:3])
    return f"; {format_bytes(total)} in leftovers: {names}" if total else ""
