"""The invariants of the policy, on histories that nobody thought of. ``World`` checks them at every look.

A run is bounded to keep the suite short; ``--hypothesis-profile=deep`` plays many more histories.
"""

from __future__ import annotations

import pytest
from attrs import evolve
from core.world import Event, Plan, World
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from ckpt_governor.ledger import Verdict

HORIZON_S = 500.0
QUICK = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
"""Without the explanation of a failure, which plays it many times again."""
DEEP = settings.get_current_profile_name() == "deep"


def some(examples: int) -> settings:
    """So many examples in the normal run, ten times as many in a deep one."""
    return settings(
        max_examples=examples * 10 if DEEP else examples, phases=QUICK if not DEEP else tuple(Phase)
    )


moments = st.integers(0, int(HORIZON_S) - 50).map(float)
names = st.integers(0, 5)
leads = st.sampled_from([0.0, 5.0, 20.0, 200.0, 202.0, 30.0, 31.0, 45.0, 60.0, 63.0, 120.0, 300.0])


def event(does: str, amounts: st.SearchStrategy[float] | None = None) -> st.SearchStrategy[tuple[Event, ...]]:
    """One thing that happens at any moment."""
    return st.builds(
        lambda at_s, amount, name: (Event(at_s=at_s, does=does, amount=amount, name=name),),
        moments,
        st.just(0.0) if amounts is None else amounts,
        names,
    )


def outage(kills: str, starts: str) -> st.SearchStrategy[tuple[Event, ...]]:
    """Something dies and comes back after a while."""
    return st.builds(
        lambda at_s, away_s, name: (
            Event(at_s=at_s, does=kills, name=name),
            Event(at_s=at_s + away_s, does=starts),
        ),
        moments,
        st.sampled_from([0.5, 3.0, 8.0, 30.0, 90.0]),
        names,
    )


announcements = [
    event("drop", leads),
    event("drop id", leads),
    event("remove"),
    event("move", leads.filter(bool)),
    event("end"),
    event("edge"),
]
troubles = [
    event("cut"),
    event("fail"),
    outage("kill job", "start job"),
    event("pause job", st.sampled_from([5.0, 70.0, 200.0])),
    outage("kill governor", "start governor"),
    event("fill", st.sampled_from([0.0, 0.5, 1.2, 2.0])),
    event("free"),
    event("blind", st.sampled_from([1.0, 10.0, 60.0])),
    event("step", st.sampled_from([-3600.0, -1.0, 2.0, 3600.0])),
    event("window", st.sampled_from([0.0, 10.0, 60.0, 120.0])),
    event("lose newest"),
]


def histories(
    *kinds: st.SearchStrategy[tuple[Event, ...]], most: int = 10, **fixed: object
) -> st.SearchStrategy[Plan]:
    """Plans in which these kinds of things happen."""

    def plan(groups: list[tuple[Event, ...]], **drawn: object) -> Plan:
        return Plan(horizon_s=HORIZON_S, events=tuple(one for group in groups for one in group), **drawn)

    drawn = {
        "seed": st.integers(0, 2**16),
        "poll_s": st.sampled_from([2.0, 1.0, 5.0]),
        "with_us_s": st.sampled_from([None, 60.0, 100.0, 240.0]),
        "write_s": st.sampled_from([(10.0, 20.0), (1.0, 3.0), (0.1, 0.5), (25.0, 30.0)]),
        "gap_s": st.sampled_from([(1.0, 4.0), (0.1, 0.2), (5.0, 15.0)]),
        "knows": st.booleans(),
        "style": st.sampled_from(["grow", "temporary", "whole", "shapeless"]),
        "own_every_s": st.sampled_from([None, None, 45.0]),
        "identified": st.booleans(),
    }
    drawn.update({name: st.just(value) for name, value in fixed.items()})
    return st.builds(plan, st.lists(st.one_of(*kinds), max_size=most), **drawn)


JOINED_WHILE_THE_VOLUME_IS_FULL = Plan(
    seed=0,
    horizon_s=500.0,
    poll_s=2.0,
    with_us_s=60.0,
    write_s=(10.0, 20.0),
    gap_s=(1.0, 4.0),
    knows=False,
    style="grow",
    own_every_s=None,
    identified=False,
    events=(
        Event(at_s=0.0, does="remove", amount=0.0, name=0),
        Event(at_s=247.0, does="drop", amount=120.0, name=0),
        Event(at_s=302.0, does="fill", amount=0.0, name=0),
    ),
)

ANSWER_FOUND_BROKEN_AFTER_A_RESTART = Plan(
    seed=2,
    horizon_s=500.0,
    poll_s=2.0,
    with_us_s=None,
    write_s=(10.0, 20.0),
    gap_s=(1.0, 4.0),
    knows=False,
    style="temporary",
    own_every_s=45.0,
    identified=False,
    events=(
        Event(at_s=82.0, does="drop", amount=0.0, name=0),
        Event(at_s=48.0, does="pause job", amount=70.0, name=0),
        Event(at_s=165.0, does="kill governor", amount=0.0, name=0),
        Event(at_s=168.0, does="start governor", amount=0.0, name=0),
        Event(at_s=84.0, does="cut", amount=0.0, name=0),
    ),
)


@some(50)
@given(histories(*announcements, *troubles))
@example(JOINED_WHILE_THE_VOLUME_IS_FULL)
@example(ANSWER_FOUND_BROKEN_AFTER_A_RESTART)
def test_no_history_breaks_an_invariant(plan):
    assert World(plan).run().looks > 0


@some(30)
@given(histories(*announcements, with_us_s=None, knows=True, own_every_s=None))
def test_one_announcement_leads_to_one_write(plan):
    world = World(plan).run()
    asked = [line for _, line in world.lines if line.verdict is Verdict.SAVE and line.request_id is not None]
    drops = sum(event.does in ("drop", "drop id", "move") for event in plan.events)
    ends = any(event.does == "end" for event in plan.events)
    edges = sum(event.does == "edge" for event in plan.events)
    others = edges and edges + HORIZON_S / 60  # what stays is written for again, once a minute at most
    assert len(asked) <= drops + ends + others
    assert world.steps_written <= len(world.ids)


@some(25)
@given(
    histories(
        event("drop", leads),
        event("drop id", leads),
        event("remove"),
        event("edge"),
        knows=True,
        with_us_s=100.0,
    )
)
def test_a_window_that_can_be_kept_is_kept(plan):
    plan = evolve(plan, write_s=(10.0, 20.0), gap_s=(1.0, 4.0), poll_s=min(plan.poll_s, 2.0))
    if plan.style == "whole":
        plan = evolve(plan, own_every_s=None)  # nobody can see when a write began that was not asked for
    world = World(plan).run()
    assert world.windows_checked > world.looks / 2


@pytest.mark.parametrize("style", ["grow", "temporary", "whole"])
@pytest.mark.parametrize("poll_s", [0.5, 1.0, 2.0])
def test_a_quiet_life_has_hardly_more_writes_than_it_must(style, poll_s):
    world = World(
        Plan(horizon_s=1800.0, with_us_s=60.0, style=style, poll_s=poll_s, write_s=(2.0, 3.0))
    ).run()
    fewest = 1800 / 60
    assert fewest - 1 <= world.steps_written <= 1.1 * (1800 / (60 - 3 - 4 - 2 * poll_s - 2)) + 2
    assert world.windows_checked > 0.9 * world.looks


@some(30)
@given(
    histories(
        *announcements, outage("kill governor", "start governor"), outage("kill governor", "start governor")
    )
)
def test_a_governor_that_dies_loses_nothing_and_repeats_nothing(plan):
    assert World(plan).run().looks > 0


@some(25)
@given(histories(*announcements, *troubles, event("step", st.sampled_from([-3600.0, 3600.0, -86400.0, 0.5]))))
def test_a_clock_step_changes_no_decision(plan):
    """6: the same history with and without steps of the wall clock decides the same at the same moments."""
    stepped, plain = World(plan).run(), World(plan, steps=False).run()
    assert told(stepped) == told(plain)


def told(world: World) -> list[tuple[float, str, str, str, str]]:
    """All lines; moments are true time, ids are left out because they are taken from the wall clock."""
    return [
        (round(at_s, 3), line.verdict.value, line.reason, line.text, line.cause.partition("@")[0])
        for at_s, line in world.lines
    ]


@some(20)
@given(histories(*announcements, event("blind", st.sampled_from([1.0, 10.0, 60.0, 400.0])), most=14))
def test_a_blind_unit_never_gets_a_request(plan):
    assert World(plan).run().looks > 0


@some(8)
@given(histories(*announcements, *troubles), histories(*announcements, *troubles))
def test_two_units_do_not_influence_each_other(one, other):
    """8: the lines of each are those that it has alone."""
    alone = [told(World(plan).run()) for plan in (one, other)]
    worlds = [World(one), World(other)]
    runs = [world.looks_one_by_one() for world in worlds]
    while runs:
        runs = [run for run in runs if next(run, None) is not None]
    assert [told(world) for world in worlds] == alone


ENDS = (Event(at_s=200.0, does="end"), Event(at_s=230.0, does="end"), Event(at_s=400.0, does="end"))
MARK_IN_ONE_LOOK_WITH_A_COPY = Plan(
    seed=1,
    horizon_s=500.0,
    poll_s=5.0,
    with_us_s=None,
    write_s=(10.0, 20.0),
    gap_s=(5.0, 15.0),
    knows=False,
    style="shapeless",
    own_every_s=45.0,
    identified=False,
    events=ENDS,
)


@some(20)
@given(
    histories(*announcements, *troubles, most=6).map(lambda plan: evolve(plan, events=(*plan.events, *ENDS)))
)
@example(MARK_IN_ONE_LOOK_WITH_A_COPY)
def test_the_end_is_written_once(plan):
    """10: one request for the mark, however often it is touched; a second one only to repair the first."""
    world = World(plan).run()
    ends = [line for _, line in world.lines if line.reason == "train.end" and line.verdict is Verdict.SAVE]
    assert len(ends) <= 1 + world.broken_answers + (world.jobs - 1)  # a new job's end is another one
