"""What a write costs: time, gap, bytes, and how often jobs die; learned from observation only. Pure."""

from __future__ import annotations

from math import ceil

from attrs import frozen

from ckpt_governor.copies import Settle
from ckpt_governor.facts import CopyStatus, Job, Observation
from ckpt_governor.ledger import Ledger
from ckpt_governor.numbers import Numbers
from ckpt_governor.settings import POLL_BUSY_S

QUANTILE = 0.95
FEW_SAMPLES = 8
FEW_SAMPLES_FACTOR = 1.25
"""With fewer than eight samples the largest one seen, times this, stands for the quantile."""

SIZE_HEADROOM = 1.05
SETTLE_BROKEN_S_MIN = 30.0
SETTLE_BROKEN_S_MAX = 1800.0
SETTLE_BROKEN_S_UNKNOWN = 120.0
"""Quiet time before an incomplete copy counts as broken while no write was seen yet."""
SETTLE_DEAD_S_MIN = 15.0
"""The same when the job's process is known to be gone: a quarter, but not less than this."""
SETTLE_SOUND_S_MIN = 2.0
SETTLE_SOUND_S_MAX = 30.0
"""A file without a checkable end counts as sound after a quiet time in this range."""

MU_PRIOR_S = 24 * 3600.0


@frozen(kw_only=True)
class Costs:
    """What the next write will take, in seconds and bytes; None where nothing is known."""

    write_s: float | None
    """From the first sign of a write to a whole copy on the volume: the 95 % quantile."""
    gap_s: float
    """From the request to the first sign of the write: the 95 % quantile; 0 when none was seen."""
    typical_write_s: float | None
    """The median of the writes seen."""
    bytes: int | None
    """The largest of the last three copies."""
    lag_s: float
    """The poll interval plus the measured visibility lag of the volume."""
    write_samples_s: tuple[float, ...] = ()

    @property
    def margin_s(self) -> float:
        """What a deadline keeps in reserve besides the write itself."""
        return max(5.0, 0.1 * (self.write_s or 0.0)) + self.lag_s

    @property
    def need_s(self) -> float | None:
        """Gap, write and margin together: what must be left before a deadline."""
        return None if self.write_s is None else self.gap_s + self.write_s + self.margin_s


def costs(world: Observation, numbers: Numbers, ledger: Ledger) -> Costs:
    """The costs of the next write as far as they are known."""
    samples = ledger.write_samples_s
    told_s = numbers.write_s if numbers.write_s is not None else world.job.write_s
    return Costs(
        write_s=high_quantile(samples) if samples else told_s,
        gap_s=high_quantile(ledger.gap_samples_s) if ledger.gap_samples_s else 0.0,
        typical_write_s=median(samples) if samples else told_s,
        bytes=next_bytes(world, numbers, ledger),
        lag_s=world.poll_s + world.visibility_lag_s,
        write_samples_s=samples,
    )


def high_quantile(samples: tuple[float, ...]) -> float:
    """The 95 % quantile (nearest rank); with fewer than eight samples 1.25 times the largest. Needs one sample."""
    if len(samples) < FEW_SAMPLES:
        return FEW_SAMPLES_FACTOR * max(samples)
    return sorted(samples)[ceil(QUANTILE * len(samples)) - 1]


def median(samples: tuple[float, ...]) -> float:
    """The middle sample, the upper one of two. Needs one sample."""
    return sorted(samples)[len(samples) // 2]


def next_bytes(world: Observation, numbers: Numbers, ledger: Ledger) -> int | None:
    """Bytes of the next copy: the largest of the last three seen, else of those that are there, else what was told."""
    if ledger.size_samples_bytes:
        return max(ledger.size_samples_bytes[-3:])
    there = [copy.bytes for copy in world.copies if copy.status is CopyStatus.SOUND]
    if there:
        return max(there[-3:])
    return numbers.bytes if numbers.bytes is not None else world.job.bytes


def settle(ledger: Ledger, numbers: Numbers, job: Job, poll_s: float) -> Settle:
    """How long a copy must be quiet before its bytes are judged final."""
    spans_s = ledger.write_samples_s
    sound_s = max(SETTLE_SOUND_S_MIN, 3.0 * ledger.quiet_s_max, 4.0 * min(poll_s, POLL_BUSY_S))
    sound_s = min(sound_s, SETTLE_SOUND_S_MAX)
    if numbers.settle_s is not None:
        return Settle(broken_s=numbers.settle_s, sound_s=min(sound_s, numbers.settle_s))
    if spans_s:
        broken_s = max(SETTLE_BROKEN_S_MIN, *spans_s, 3.0 * ledger.quiet_s_max, 5.0 * poll_s)
        broken_s = min(broken_s, SETTLE_BROKEN_S_MAX)
    else:
        broken_s = SETTLE_BROKEN_S_UNKNOWN
    if job.alive is False:
        broken_s = max(SETTLE_DEAD_S_MIN, broken_s / 4.0)
    return Settle(broken_s=broken_s, sound_s=sound_s)


def mean_time_between_deaths_s(ledger: Ledger, numbers: Numbers) -> float:
    """Exposure over deaths, with one prior death in 24 h so that it is never a division by nothing."""
    if numbers.mtbf_s is not None:
        return numbers.mtbf_s
    return (ledger.exposure_s + MU_PRIOR_S) / (ledger.deaths + 1)
