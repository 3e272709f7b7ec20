"""The account of a run: what was written, refused and never answered, against what the job would have done alone."""

from __future__ import annotations

import pytest
from attrs import evolve
from core.build import T0

from ckpt_governor.facts import CopyStatus
from ckpt_governor.ledger import Ledger, Run, Write
from ckpt_governor.receipt import Receipt, receipt

WRITES = tuple(
    Write(
        at_s=T0 + at_s,
        reason="window",
        write_s=write_s,
        name=f"{at_s}.pt",
        status=CopyStatus.SOUND,
        serial=at_s,
    )
    for at_s, write_s in ((10, 40.0), (20, 60.0), (30, 50.0), (40, None))
)
RUN = Run(
    started_s=T0,
    writes=WRITES,
    refused={"no-time": 1, "fresh": 2},
    unheard=3,
    unserved=4,
    stalest_s=1700.0,
    end_sound=True,
)


def account(run: Run = RUN, *, ran_s: float = 14400, **given: object) -> Receipt:
    """The receipt after that time."""
    return receipt(
        Ledger(run=run),
        now_s=T0 + ran_s,
        **{"no_us_s": None, "with_us_s": None, "newest_sound": "40.pt", **given},
    )


def test_it_tells_what_the_ledger_counted():
    told = account()
    assert told.run_s == 14400
    assert told.writes == WRITES
    assert told.refused == {"no-time": 1, "fresh": 2}
    assert (told.unheard, told.unserved, told.stalest_s) == (3, 4, 1700.0)
    assert (told.end_sound, told.end_copy, told.started_s) == (True, "40.pt", T0)


@pytest.mark.parametrize(
    ("with_us_s", "costs_s"),
    [pytest.param(None, None, id="no window: everything"), pytest.param(1800.0, 1800.0, id="the window")],
)
def test_a_silent_death_costs_the_window_at_most(with_us_s, costs_s):
    assert account(with_us_s=with_us_s).silent_death_costs_s == costs_s


@pytest.mark.parametrize(
    ("no_us_s", "ran_s", "writes", "write_s"),
    [
        pytest.param(None, 14400, 0, 0, id="nothing without a governor"),
        pytest.param(1800.0, 14400, 8, 400, id="every 30 m over 4 h at 50 s each"),
        pytest.param(1800.0, 1799, 0, 0, id="shorter than the period"),
    ],
)
def test_it_is_compared_with_what_the_job_does_alone(no_us_s, ran_s, writes, write_s):
    compared = account(ran_s=ran_s, no_us_s=no_us_s).compared
    assert (compared.writes, compared.write_s, compared.silent_death_costs_s) == (writes, write_s, no_us_s)


def test_a_cost_that_was_never_seen_is_not_made_up():
    assert account(evolve(RUN, writes=()), no_us_s=1800.0).compared.write_s is None


def test_a_clock_that_stood_still_gives_no_negative_run():
    assert account(ran_s=-5).run_s == 0
