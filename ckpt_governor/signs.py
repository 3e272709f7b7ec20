"""What a host shows of its health: the frozen records that sources read and hazards are judged by. Pure facts."""

from __future__ import annotations

from attrs import frozen

from ckpt_governor.conditions import Condition


@frozen(kw_only=True)
class Memory:
    """The memory of the job's own control group, or what the job says of it, or the whole host's."""

    used_bytes: int
    """The working set: what is used and cannot be dropped at once (without inactive file pages)."""
    limit_bytes: int
    """The job is killed when it needs more than this."""
    limit_hits: int | None = None
    """How often the limit was hit since boot (``memory.events`` max, v1 ``failcnt``); None: nobody counts."""
    full_avg10: float | None = None
    """Per cent of the last 10 s in which all tasks waited for memory (PSI ``full avg10``); None: not told."""
    source: str = "cgroup"


@frozen(kw_only=True)
class Node:
    """What a kubelet looks at before it evicts pods; None where it cannot be read."""

    memory_available_bytes: int | None = None
    memory_total_bytes: int | None = None
    disk_free_share: float | None = None
    """Free share of the node's own file system, 0 to 1."""
    inodes_free_share: float | None = None
    evicts: bool = True
    """False: nothing here evicts pods (the process runs outside Kubernetes)."""


@frozen(kw_only=True)
class Storage:
    """How the checkpoint volume answered just now."""

    read_only: bool | None = None
    """The mount, or its file system, takes no writes."""
    error: str = ""
    """Why the canary write failed, in words; empty when it came through or was not tried."""
    canary_s: float | None = None
    """How long the canary took: create, write, fsync, rename, read, unlink; None when it was not tried."""


@frozen(kw_only=True)
class Sensor:
    """One temperature, in degrees Celsius."""

    name: str
    current_c: float
    critical_c: float


@frozen(kw_only=True)
class Heat:
    """What is hot, and whether hardware slows itself down for heat or power."""

    sensors: tuple[Sensor, ...] = ()
    slowed: bool | None = None
    """A hardware thermal slowdown or power brake is on; None: nobody tells."""
    why: str = ""
    """Which device slows down and why."""


@frozen(kw_only=True)
class Count:
    """One counter of errors that only grows while the host runs."""

    name: str
    """Its identity, such as ``edac.mc0.ue`` or ``gpu0.xid``."""
    condition: Condition
    value: int
    per_hour_max: float = 0.0
    """More than this in an hour is a sign; 0: each increase is."""
    text: str = ""
    """What an increase means, in words: ``uncorrected memory errors``."""


@frozen(kw_only=True)
class Part:
    """One part of the job that gives signs of life by itself."""

    name: str
    silent_s: float
    """Since its last sign of life."""
