"""The account at the end of a run: what was written and why, what was refused, what a silent death would cost. Pure."""

from __future__ import annotations

from attrs import frozen

from ckpt_governor.facts import Leftover
from ckpt_governor.ledger import Ledger, Write
from ckpt_governor.leftovers import leftovers_of


@frozen(kw_only=True)
class Compared:
    """The run beside what the job would have done by ``no_us`` alone."""

    writes: int | None
    """Writes by ``no_us`` over the same time; None when a part of it is not known."""
    write_s: float | None
    """Their cost at the typical write time."""
    silent_death_costs_s: float | None
    """None: everything."""


@frozen(kw_only=True)
class Receipt:
    """One run, as a person reads it and as receipt.json holds it."""

    run_s: float
    writes: tuple[Write, ...]
    refused: dict[str, int]
    unheard: int
    unserved: int
    stalest_s: float
    with_us_s: float | None
    silent_death_costs_s: float | None
    """At most; None when no window was set: everything."""
    end_sound: bool | None
    """Whether training's end has a sound copy; None when there was no end."""
    end_copy: str
    """The name of the newest sound copy; empty when there is none."""
    compared: Compared
    started_s: float = 0.0
    asked: int = 0
    """Requests that were issued."""
    leftovers: tuple[Leftover, ...] = ()
    """What writes that died have left."""


def receipt(
    ledger: Ledger, *, now_s: float, no_us_s: float | None, with_us_s: float | None, newest_sound: str
) -> Receipt:
    """The receipt of the ledger's present run."""
    run = ledger.run
    run_s = max(0.0, now_s - run.started_s)
    costs_s = [write.write_s for write in run.writes if write.write_s is not None]
    typical_s = sorted(costs_s)[len(costs_s) // 2] if costs_s else None
    usual = 0 if no_us_s is None else int(run_s // no_us_s)
    return Receipt(
        run_s=run_s,
        writes=run.writes,
        refused=dict(run.refused),
        asked=run.asked,
        unheard=run.unheard,
        unserved=run.unserved,
        stalest_s=run.stalest_s,
        with_us_s=with_us_s,
        silent_death_costs_s=with_us_s,
        end_sound=run.end_sound,
        end_copy=newest_sound,
        compared=Compared(
            writes=usual,
            write_s=0.0 if usual == 0 else (None if typical_s is None else usual * typical_s),
            silent_death_costs_s=no_us_s,
        ),
        started_s=run.started_s,
        leftovers=leftovers_of(ledger.copies),
    )
