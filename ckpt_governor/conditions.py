"""The 14 conditions: what each means, how it behaves, and how much its word is worth. Pure."""

from __future__ import annotations

from enum import Enum

from attrs import frozen


class Condition(str, Enum):
    """The closed set; the values are the words in files, lines and commands."""

    PREEMPT = "risk.preempt"
    TERMINATE = "risk.terminate"
    WALLTIME = "risk.walltime"
    MAINTENANCE = "risk.maintenance"
    REQUEST = "risk.request"
    MEMORY = "risk.memory"
    EVICT = "risk.evict"
    SPACE = "risk.space"
    STORAGE = "risk.storage"
    DEVICE = "risk.device"
    THERMAL = "risk.thermal"
    HARDWARE = "risk.hardware"
    PEER = "risk.peer"
    FLAP = "risk.flap"


class Kind(str, Enum):
    """How a condition behaves over time."""

    NOTICE = "notice"
    """Latched per identity; one write each."""
    EDGE = "edge"
    """A level with hysteresis; a write at its onset, more while it stays."""
    COUNTER = "counter"
    """The first reading is the baseline; an increase is an edge."""


@frozen(kw_only=True)
class Traits:
    """What the policy needs to know of a condition. Priors are fixed beforehand, never tuned on a trace."""

    kind: Kind
    meaning: str
    """The sentence of its line when the announcement brings none."""
    precision: float
    """Share of its undated announcements after which the work is really lost."""
    window_s: float
    """How long after the onset of an undated announcement the loss may come."""
    early_end_chance: float = 0.02
    """Chance that the end comes before an announced deadline."""
    at_once: bool = False
    """Somebody waits for the write: it is never placed for later and never refused as fresh."""


MINUTE_S = 60.0
HOUR_S = 3600.0

TRAITS: dict[Condition, Traits] = {
    Condition.PREEMPT: Traits(
        kind=Kind.NOTICE,
        meaning="higher-priority or more urgent work can take these resources",
        precision=0.5,
        window_s=HOUR_S,
    ),
    Condition.TERMINATE: Traits(
        kind=Kind.NOTICE,
        meaning="this job or machine was told to end",
        precision=0.9,
        window_s=10 * MINUTE_S,
        at_once=True,
    ),
    Condition.WALLTIME: Traits(
        kind=Kind.NOTICE,
        meaning="the allotted time ends",
        precision=0.9,
        window_s=10 * MINUTE_S,
        early_end_chance=0.001,
    ),
    Condition.MAINTENANCE: Traits(
        kind=Kind.NOTICE,
        meaning="a reboot, redeploy or stop of the host is scheduled",
        precision=0.9,
        window_s=10 * MINUTE_S,
    ),
    Condition.REQUEST: Traits(
        kind=Kind.NOTICE,
        meaning="somebody asked for one write",
        precision=1.0,
        window_s=0.0,
        at_once=True,
    ),
    Condition.MEMORY: Traits(
        kind=Kind.EDGE,
        meaning="the job is close to being killed for memory",
        precision=0.5,
        window_s=5 * MINUTE_S,
    ),
    Condition.EVICT: Traits(
        kind=Kind.EDGE,
        meaning="the node is close to evicting pods",
        precision=0.5,
        window_s=5 * MINUTE_S,
    ),
    Condition.SPACE: Traits(
        kind=Kind.EDGE,
        meaning="the next copies may not fit the volume",
        precision=0.3,
        window_s=HOUR_S,
    ),
    Condition.STORAGE: Traits(
        kind=Kind.EDGE,
        meaning="the volume itself is failing",
        precision=0.5,
        window_s=10 * MINUTE_S,
    ),
    Condition.DEVICE: Traits(
        kind=Kind.COUNTER,
        meaning="an accelerator is about to fail",
        precision=0.7,
        window_s=HOUR_S,
    ),
    Condition.THERMAL: Traits(
        kind=Kind.EDGE,
        meaning="heat or power throttles this host",
        precision=0.3,
        window_s=30 * MINUTE_S,
    ),
    Condition.HARDWARE: Traits(
        kind=Kind.COUNTER,
        meaning="memory, processor, disk or link errors are rising",
        precision=0.3,
        window_s=HOUR_S,
    ),
    Condition.PEER: Traits(
        kind=Kind.EDGE,
        meaning="a part of this job is gone or leaving",
        precision=0.8,
        window_s=2 * MINUTE_S,
    ),
    Condition.FLAP: Traits(
        kind=Kind.EDGE,
        meaning="this unit keeps dying",
        precision=0.5,
        window_s=6 * HOUR_S,
    ),
}


def condition_named(word: str) -> Condition | None:
    """The condition with this name, or None when there is none."""
    try:
        return Condition(word)
    except ValueError:
        return None
