"""THE POLICY: the world, the numbers and the ledger in; the decisions, their reasons and the next ledger out. Pure.

``decide`` is the whole of it. First the ledger takes in what was announced and what was answered; then RULES are
asked in reading order what is due; what is due and fits is asked for with one request, what does not fit is refused
with its reason.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, frozen

from ckpt_governor.answers import close_request, prune, take_answers
from ckpt_governor.asking import ask
from ckpt_governor.closing import (
    expire,
    give_up_orphans,
    say_end,
    say_leftovers,
    say_troubles,
    say_unknown_answers,
    say_withdrawn,
)
from ckpt_governor.estimate import costs
from ckpt_governor.facts import Observation
from ckpt_governor.intake import take_in
from ckpt_governor.ledger import Decision, Ledger, Verdict, unsay
from ckpt_governor.numbers import Numbers
from ckpt_governor.rules import announced, at_risk, broken, unheard, window
from ckpt_governor.situation import Pen, Situation, situation_of

RULES: tuple[Callable[[Situation, Pen], None], ...] = (
    unheard,  # a request that nobody answers is said so, and asked again
    broken,  # the newest copy is broken: a repair is due
    announced,  # an announced end has a last safe moment: its write is due then
    at_risk,  # an undated risk: due at its onset, unless the newest copy is fresh
    window,  # the window is about to close: a write is due
    ask,  # what is due and fits is asked for; what does not fit is refused
)
"""In reading order. Training's end and people's requests are due as soon as they are announced."""


@frozen(kw_only=True)
class Outcome:
    """What was decided: the lines of this moment and what to remember."""

    ledger: Ledger
    decisions: tuple[Decision, ...] = ()


def decide(world: Observation, numbers: Numbers, ledger: Ledger) -> Outcome:
    """The decisions of this moment. No clock, no file: the same input gives the same answer."""
    pen = Pen(world.now_s, evolve(ledger, look_s=world.now_s))
    say_troubles(world, pen)
    if world.blind:
        pen.write(Verdict.UNKNOWN, "blind", world.blind, cause="blind:", once="blind:")
        return Outcome(ledger=pen.ledger, decisions=tuple(pen.decisions))
    pen.ledger = unsay(pen.ledger, "blind:")
    say_leftovers(world, pen)
    pen.ledger = take_in(world, numbers, pen.ledger, costs(world, numbers, pen.ledger))
    pen.ledger = take_answers(world, pen.ledger)
    say_withdrawn(world, pen)  # before what is withdrawn is forgotten
    pen.ledger = prune(world, pen.ledger)
    expire(world, pen)
    give_up_orphans(world, pen)
    pen.ledger = close_request(pen.ledger)
    say_unknown_answers(world, pen)
    say_end(world, pen)
    situation = situation_of(world, numbers, pen.ledger)
    for rule in RULES:
        rule(situation, pen)
        situation = evolve(situation, ledger=pen.ledger)
    pen.ledger = close_request(pen.ledger)
    return Outcome(ledger=pen.ledger, decisions=tuple(pen.decisions))
