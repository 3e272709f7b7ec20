"""The window: a write so early that the newest sound copy is never older than promised, and no earlier."""

from __future__ import annotations

from math import sqrt

import pytest
from attrs import evolve
from core.build import GB, POLL_S, ROOM, T0, Desk, broken, copy, knowing, notice, writing

from ckpt_governor.durations import format_duration
from ckpt_governor.facts import CopyStatus, Job, Volume
from ckpt_governor.ledger import Ledger
from ckpt_governor.numbers import Numbers

WINDOW = Numbers(with_us_s=600.0)
NEED_S = 40 + 5 + POLL_S
"""Write, gap and lag; the margin of five seconds belongs to deadlines only."""
TWO_S = NEED_S + 40
"""A copy is a write old at the moment at which it is sound, and only then can the next one begin."""
FULL = Volume(free_bytes=GB, total_bytes=2000 * GB)


def desk(**facts: object) -> Desk:
    """A unit with a window of ten minutes and a copy whose write began at second 0."""
    return Desk(**{"numbers": WINDOW, "copies": (copy(1, 0),), **facts})


def test_a_write_is_asked_for_when_age_write_gap_and_lag_reach_the_window():
    assert desk().until(600) == [(600 - NEED_S, "save", "window")]


def test_the_sentence_names_the_age_and_the_window():
    unit = desk()
    unit.until(554)
    assert unit.told("save") == ["the newest sound copy is 9m 14s old, the window is 10m"]


def test_the_age_counts_from_when_the_write_began():
    assert desk(copies=(copy(1, 0, write_s=300),)).until(555)[0][0] == 554


def test_never_from_before_the_job_started():
    unit = desk(copies=(copy(1, -10_000),), job=Job(started_s=T0, identity="a"))
    assert unit.until(600)[0] == (554.0, "save", "window")


def test_without_any_copy_it_counts_from_the_start_of_the_job():
    unit = desk(copies=(), job=Job(started_s=T0, identity="a"))
    assert unit.until(600)[0] == (554.0, "save", "window")
    assert unit.told("save") == ["no sound copy yet after 9m 14s, the window is 10m"]


def test_every_sound_copy_begins_the_window_anew():
    unit = desk()
    unit.until(300)
    assert unit.until(850, copies=(copy(1, 0), copy(2, 250))) == [(804.0, "save", "window")]


def test_a_broken_copy_does_not():
    unit = desk()
    unit.look(1)
    unit.ledger = evolve(unit.ledger, repaired=(2,))
    said = unit.until(600, copies=(copy(1, 0), broken(2, 250)))
    assert said[0] == (554.0, "save", "window")


def test_a_copy_that_cannot_be_judged_stops_the_asking():
    unit = desk()
    unseen = copy(2, 250, CopyStatus.UNKNOWN, why="its shards are not seen here")
    assert unit.until(810, copies=(copy(1, 0), unseen)) == [(250 + 554, "save", "window")]


def test_no_window_asks_for_nothing():
    assert desk(numbers=Numbers()).until(50_000, every_s=50) == []


def test_until_a_write_was_seen_the_window_closes_at_three_quarters():
    unit = desk(ledger=knowing(write_s=None, gap_s=None))
    (line, *_) = unit.until(500)
    assert line == (450.0, "save", "window")
    assert unit.told("save")[0].endswith("no write seen yet")


def test_what_was_told_of_the_write_counts_until_one_was_seen():
    unit = desk(ledger=knowing(write_s=None, gap_s=None), numbers=Numbers(with_us_s=600.0, write_s=99.0))
    assert unit.until(550)[0] == (500.0, "save", "window")


@pytest.mark.parametrize("with_us_s", [10.0, TWO_S - 0.1])
def test_a_window_shorter_than_two_writes_is_infeasible_once_with_both_numbers(with_us_s):
    unit = desk(numbers=Numbers(with_us_s=with_us_s))
    said = unit.until(140)
    assert said[0][1:] == ("infeasible", "window")
    assert [line for line in said if line[1] == "infeasible"] == said[:1]
    assert unit.told("infeasible") == [
        f"the window of {format_duration(with_us_s)} is shorter than two writes in a row, which take 1m 26s;"
        " 1m 32s is held instead"
    ]


def test_the_window_held_instead_is_twice_what_a_write_takes():
    unit = desk(numbers=Numbers(with_us_s=10.0))
    said = unit.until(60)
    assert said[-1] == (46.0, "save", "window")  # 2 * 46 less 46
    unit.until(90, copies=(copy(1, 0), copy(2, 50)))
    assert [line for line in unit.until(130) if line[1] == "save"] == [(96.0, "save", "window")]


def test_a_window_just_as_long_as_two_writes_is_feasible():
    unit = desk(numbers=Numbers(with_us_s=TWO_S))
    assert unit.until(60) == [(40.0, "save", "window")]


def test_an_unknown_write_makes_no_window_infeasible():
    unit = desk(ledger=knowing(write_s=None, gap_s=None), numbers=Numbers(with_us_s=2.0))
    assert [line[1:] for line in unit.until(2)] == [("save", "window")]


def test_it_is_asked_for_once_for_each_copy():
    unit = desk()
    unit.until(560)
    request_id = unit.request.id
    assert unit.until(610) == []
    assert unit.request.id == request_id
    assert unit.until(1000, copies=(copy(1, 0), copy(2, 560))) == []
    assert unit.request is None


def test_a_write_that_goes_on_renews_it():
    unit = desk()
    unit.until(540)
    said = []
    for moment_s in range(541, 581):
        said += unit.look(moment_s, copies=(copy(1, 0), writing(2, 541, changed_s=T0 + moment_s)))
    assert said == [("skip", "in-flight")]
    assert "renew" in unit.told("skip")[0]
    assert unit.until(1000, copies=(copy(1, 0), copy(2, 541))) == []


def test_a_window_that_is_set_while_running_counts_at_once():
    unit = desk(numbers=Numbers())
    unit.until(3000, every_s=50)
    unit.numbers_are(with_us_s=600.0)
    assert unit.look(3001) == [("save", "window")]


def test_a_window_that_is_taken_away_asks_for_nothing_more():
    unit = desk(volume=FULL, ledger=evolve(knowing(), edges={}))
    unit.until(560)
    unit.numbers_are(with_us_s=None)
    unit.look(561)
    assert [line for line in unit.until(700, volume=ROOM) if line[2] == "window"] == []


@pytest.mark.parametrize(
    ("closes", "opens"),
    [
        pytest.param({"job": Job(identity="c")}, {}, id="the job starts anew"),
        pytest.param(
            {"numbers": Numbers(with_us_s=9000.0)}, {"numbers": WINDOW}, id="the window is longer for a while"
        ),
    ],
)
def test_a_window_that_was_not_due_any_more_is_due_again_for_the_same_copy(closes, opens):
    unit = desk(job=Job(identity="b"), volume=FULL)
    unit.until(560)
    assert unit.state("window:1") == "waiting"
    for change in (closes, opens):
        unit.numbers = change.get("numbers", unit.numbers)
        unit.look(unit.now_s + 1, **{name: fact for name, fact in change.items() if name != "numbers"})
    unit.until(2000, every_s=2, volume=ROOM)
    assert unit.told("save", "window") != [] or unit.request is not None


# ---- auto


def test_auto_is_youngs_period_of_cost_and_deaths():
    # C 40, mu (0 + 24 h) / (0 + 1): sqrt(2 * 40 * 86400) = 2629
    unit = desk(numbers=Numbers(auto=True))
    said = unit.until(2700)
    expected_s = sqrt(2 * 40 * 86400) - NEED_S
    assert said[0][1:] == ("save", "window")
    assert expected_s <= said[0][0] < expected_s + POLL_S


def test_auto_uses_a_mean_time_between_deaths_that_was_told():
    unit = desk(numbers=Numbers(auto=True, mtbf_s=8 * 3600.0))
    expected_s = sqrt(2 * 40 * 8 * 3600) - NEED_S
    assert expected_s <= unit.until(2700)[0][0] < expected_s + POLL_S


def test_auto_learns_from_deaths():
    # mu (7 d + 24 h) / (3 + 1) = 48 h
    ledger = evolve(knowing(), deaths=3, exposure_s=7 * 86400.0)
    unit = desk(ledger=ledger, numbers=Numbers(auto=True))
    expected_s = sqrt(2 * 40 * 48 * 3600) - NEED_S
    assert expected_s <= unit.until(4000)[0][0] < expected_s + POLL_S


def test_auto_before_the_first_write_is_at_most_half_an_hour():
    unit = desk(ledger=knowing(write_s=None, gap_s=None), numbers=Numbers(auto=True))
    assert unit.until(1800)[0][1:] == ("save", "window")


# ---- how stale it ever was


def test_the_receipt_knows_how_stale_the_newest_copy_ever_was():
    unit = desk(numbers=Numbers())
    unit.until(700)
    unit.until(900, copies=(copy(1, 0), copy(2, 690)))
    assert unit.ledger.run.stalest_s == 700


def test_after_the_end_nothing_grows_stale():
    ledger: Ledger = evolve(knowing(), run=evolve(knowing().run, ended_s=T0 + 100))
    unit = desk(ledger=ledger, numbers=Numbers())
    unit.until(700)
    assert unit.ledger.run.stalest_s == 0


def test_a_job_that_is_gone_is_not_asked():
    assert desk(job=Job(alive=False)).until(2000, every_s=5) == []


def test_a_notice_that_is_served_renews_the_window():
    unit = desk(notices=(notice(seen_s=300),))
    unit.facts["notices"] = ()
    unit.until(299)
    assert unit.until(346, notices=(notice(seen_s=300),))[0][1:] == ("save", "risk.preempt")
    said = unit.until(860, copies=(copy(1, 0), copy(2, 305)))
    assert said == [(305 + 554.0, "save", "window")]
