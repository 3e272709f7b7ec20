"""What a window costs and what it saves: Young, Daly, known horizons, the end of an allotment. Pure.

Symbols, in seconds: C what the job loses to one write, mu the mean time between deaths, H the job's length,
r the share of deaths that are announced early enough.
"""

from __future__ import annotations

from math import ceil, floor, sqrt

from attrs import frozen


def young_s(cost_s: float, mu_s: float, announced_share: float = 0.0) -> float:
    """Young's period ``sqrt(2 C mu / (1 - r))``; the announced share stretches it (Young 1974; Aupy et al. 2013)."""
    return sqrt(2.0 * cost_s * mu_s / (1.0 - announced_share))


def daly_s(cost_s: float, mu_s: float) -> float:
    """Daly's higher-order period for exponential deaths (Daly 2006); ``mu`` when a write costs more than 2 mu."""
    if cost_s >= 2.0 * mu_s:
        return mu_s
    ratio = cost_s / (2.0 * mu_s)
    return sqrt(2.0 * cost_s * mu_s) * (1.0 + sqrt(ratio) / 3.0 + ratio / 9.0) - cost_s


def best_window_s(cost_s: float, mu_s: float, announced_share: float = 0.0) -> float:
    """The ``auto`` window: Young's, or Daly's form where a write costs more than 1 % of mu."""
    mu_unannounced_s = mu_s / (1.0 - announced_share)
    if cost_s / mu_unannounced_s > 0.01:
        return daly_s(cost_s, mu_unannounced_s)
    return young_s(cost_s, mu_unannounced_s)


def last_start_before_end_s(samples_s: tuple[float, ...], unsaved_at_end_s: float) -> float:
    """How long before the end a write of random length should start: ``argmax F(x) (A - x)``.

    F is the empirical distribution of the write times (Barbut et al. 2023); with fewer than eight samples
    1.25 times the largest. Needs one sample.
    """
    if len(samples_s) < 8:
        return 1.25 * max(samples_s)
    ordered = sorted(samples_s)
    count = len(ordered)
    best_s, best_value = ordered[-1], -1.0
    for index, x_s in enumerate(ordered, 1):
        value = index / count * max(0.0, unsaved_at_end_s - x_s)
        if value >= best_value:
            best_s, best_value = x_s, value
    return best_s


def risk_period_s(cost_s: float, precision: float, window_s: float) -> float:
    """Time between writes while an undated risk lasts: ``sqrt(2 C ((1-p) I + p E) / p)`` with ``E = I/2``."""
    expected_s = (1.0 - precision) * window_s + precision * window_s / 2.0
    return sqrt(2.0 * cost_s * expected_s / precision)


@frozen(kw_only=True)
class Price:
    """One row of the price table."""

    name: str
    what: str
    window_s: float | None
    """None: no window."""
    writes: int
    cost_s: float | None
    """All writes together; None while the cost of a write is not known."""
    silent_death_costs_s: float | None
    """At most; None for everything."""
    expected_loss_s: float | None = None


def expected_loss_s(
    writes: int, cost_s: float, mu_s: float, horizon_s: float, announced_share: float = 0.0
) -> float:
    """First-order expected loss of ``n`` equal gaps over a known horizon: ``n C + (1-r) H^2 / (2 mu (n+1))``."""
    return writes * cost_s + (1.0 - announced_share) * horizon_s**2 / (2.0 * mu_s * (writes + 1))


def periodic_writes(horizon_s: float, every_s: float) -> int:
    """Writes of a period over a horizon, the one at its end included."""
    return max(0, floor(horizon_s / every_s + 1e-9))


def price(
    *,
    name: str,
    what: str,
    window_s: float | None,
    writes: int,
    horizon_s: float,
    write_s: float | None,
    mtbf_s: float | None,
) -> Price:
    """The row of one window over a known horizon.

    The expected loss counts the writes inside the horizon only: the one at its very end is training's end, which
    every window has.
    """
    inner = 0 if window_s is None else min(writes, max(0, ceil(horizon_s / window_s - 1e-9) - 1))
    known = mtbf_s is not None and write_s is not None
    return Price(
        name=name,
        what=what,
        window_s=window_s,
        writes=writes,
        cost_s=None if write_s is None else writes * write_s,
        silent_death_costs_s=window_s,
        expected_loss_s=expected_loss_s(inner, write_s, mtbf_s, horizon_s) if known else None,  # type: ignore[arg-type]
    )


def price_table(
    horizon_s: float, every_s: float, every_text: str, write_s: float | None, mtbf_s: float | None
) -> tuple[Price, ...]:
    """The three windows over a known horizon: none, one write at the middle, and a period."""
    rows = (
        ("none", "nothing", None, 0),
        ("middle", "one at the middle", horizon_s / 2.0, 1),
        ("periodic", f"every {every_text}", every_s, periodic_writes(horizon_s, every_s)),
    )
    return tuple(
        price(
            name=name,
            what=what,
            window_s=window_s,
            writes=writes,
            horizon_s=horizon_s,
            write_s=write_s,
            mtbf_s=mtbf_s,
        )
        for name, what, window_s, writes in rows
    )
