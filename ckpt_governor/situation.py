"""One moment as the rules see it, and the pen with which they write their lines. Pure."""

from __future__ import annotations

from attrs import evolve, frozen

from ckpt_governor.answers import in_flight, unsaved_s
from ckpt_governor.estimate import Costs, costs
from ckpt_governor.facts import Copy, Observation
from ckpt_governor.ledger import Cause, Decision, Ledger, Refusal, Verdict, count_refusal, said, say
from ckpt_governor.numbers import Numbers


@frozen(kw_only=True)
class Situation:
    """One moment as the rules see it."""

    world: Observation
    numbers: Numbers
    ledger: Ledger
    costs: Costs
    unsaved_s: float
    writing: Copy | None

    @property
    def now_s(self) -> float:
        """The moment."""
        return self.world.now_s


class Pen:
    """Collects the lines and the ledger while the rules are read; it lives for one decision only."""

    def __init__(self, now_s: float, ledger: Ledger) -> None:
        self.now_s = now_s
        self.ledger = ledger
        self.decisions: list[Decision] = []

    def write(
        self,
        verdict: Verdict,
        reason: str,
        text: str,
        *,
        cause: str,
        once: str | None = None,
        request_id: int | None = None,
    ) -> bool:
        """Adds a line; with ``once`` only if the line with that key does not hold already."""
        if once is not None:
            if said(self.ledger, once):
                return False
            self.ledger = say(self.ledger, once)
        decision = Decision(
            verdict=verdict, reason=reason, text=text, at_s=self.now_s, request_id=request_id, cause=cause
        )
        self.decisions.append(decision)
        self.ledger = evolve(self.ledger, last=decision)
        return True

    def refuse(self, cause: Cause, refusal: Refusal, text: str, *, verdict: Verdict = Verdict.SKIP) -> None:
        """Adds a refusal, once for each cause, and counts it for the receipt."""
        key = f"{verdict.value}:{refusal.value}:{cause.key}"
        if self.write(verdict, refusal.value, text, cause=cause.key, once=key):
            self.ledger = count_refusal(self.ledger, refusal)


def situation_of(world: Observation, numbers: Numbers, ledger: Ledger) -> Situation:
    """The moment, with what follows from it."""
    return Situation(
        world=world,
        numbers=numbers,
        ledger=ledger,
        costs=costs(world, numbers, ledger),
        unsaved_s=unsaved_s(world, ledger),
        writing=in_flight(world, ledger),
    )
