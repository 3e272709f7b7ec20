"""Announcements become causes: each once, moved, merged, withdrawn, and never again after they were served."""

from __future__ import annotations

import pytest
from attrs import evolve
from core.build import GB, POLL_S, ROOM, T0, Desk, broken, copy, ending, knowing, notice, reading, writing

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Job, Volume
from ckpt_governor.ledger import CAUSES_MAX, Edge, Verdict
from ckpt_governor.numbers import Numbers

OLD = copy(1, -900)
KEY = "notice:file:risk.preempt:11"


def desk(**facts: object) -> Desk:
    """A unit whose newest sound copy is a quarter of an hour old, so that nothing is fresh."""
    return Desk(**{"copies": (OLD,), **facts})


# ---- one notice, one write


def test_one_notice_leads_to_one_request():
    unit = desk()
    assert unit.look(1, notices=(notice(),)) == [("save", "risk.preempt")]
    assert unit.until(30) == []


def test_a_served_notice_never_leads_to_another():
    unit = desk()
    unit.look(1, notices=(notice(),))
    assert unit.look(47, copies=(OLD, copy(2, 6))) == []
    assert unit.request is None
    assert unit.state(KEY) == "served"
    assert unit.until(3000, every_s=10) == []


def test_the_same_file_touched_again_is_the_same_notice():
    unit = desk(notices=(notice(),))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    assert unit.look(1000, notices=(notice(text="touched", seen_s=999),)) == []


def test_a_file_created_again_is_a_new_notice():
    unit = desk(notices=(notice(inode=11),))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    unit.look(1000, notices=())
    assert unit.look(1001, notices=(notice(inode=12),)) == [("save", "risk.preempt")]


@pytest.mark.parametrize(
    "inode", [pytest.param(11, id="the same inode"), pytest.param(12, id="another inode")]
)
def test_a_file_created_again_is_new_even_under_a_number_used_before(inode):
    unit = desk(notices=(notice(inode=11),))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    unit.look(1000, notices=())
    assert unit.look(1001, notices=(notice(inode=inode, seen_s=1001),)) == [("save", "risk.preempt")]


def test_a_file_created_again_has_its_refusal_printed_again():
    unit = desk()
    assert unit.look(1, notices=(notice(deadline_s=20),)) == [("skip", "no-time")]
    unit.look(2, notices=())
    assert unit.look(3, notices=(notice(deadline_s=22, seen_s=3),)) == [("skip", "no-time")]
    assert unit.ledger.run.refused == {"no-time": 2}


def test_a_file_created_again_is_placed_again():
    unit = desk(copies=(OLD, writing(2, -5, changed_s=T0 + 1)))
    assert unit.look(1, notices=(notice(deadline_s=54),)) == [("skip", "in-flight")]
    unit.look(2, notices=(), copies=(OLD, copy(2, -5, write_s=7)))
    assert unit.until(400, every_s=5, notices=(notice(deadline_s=700, seen_s=3),)) == []
    assert unit.cause(KEY).since_s > T0 + 600


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(notice(identity="id:risk.preempt:a1", inode=12, seen_s=1000), id="another file"),
        pytest.param(
            notice(identity="id:risk.preempt:a1", name="risk.preempt.b", seen_s=1000), id="another name"
        ),
    ],
)
def test_the_same_id_delivered_again_is_the_same_notice(again):
    unit = desk(notices=(notice(identity="id:risk.preempt:a1"),))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    assert unit.look(999, notices=()) == []
    assert unit.look(1000, notices=(again,)) == []
    assert unit.state("notice:id:risk.preempt:a1") == "served"
    assert unit.acked(again.ack_name) == "served"


def test_another_id_is_a_new_notice():
    unit = desk(notices=(notice(identity="id:risk.preempt:a1"),))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    assert unit.look(1000, notices=(notice(identity="id:risk.preempt:a2"),)) == [("save", "risk.preempt")]


def test_one_id_in_two_files_acknowledges_both():
    both = tuple(notice(identity="id:risk.preempt:a1", name=f"risk.preempt.{n}") for n in "ab")
    unit = desk(notices=both)
    assert unit.look(1) == [("save", "risk.preempt")]
    unit.look(47, copies=(OLD, copy(2, 6)))
    assert [unit.acked(one.ack_name) for one in both] == ["served", "served"]


def test_one_id_in_two_files_has_the_earlier_deadline():
    both = (
        notice(identity="id:risk.preempt:a1", name="risk.preempt.a", deadline_s=500),
        notice(identity="id:risk.preempt:a1", name="risk.preempt.b", deadline_s=300),
    )
    unit = desk(notices=both)
    unit.look(1)
    assert unit.cause("notice:id:risk.preempt:a1").deadline_s == T0 + 300


def test_two_hundred_notices_share_one_write_and_none_comes_back():
    many = tuple(
        notice(Condition.REQUEST, name=f"risk.request.{n}", inode=100 + n) for n in range(CAUSES_MAX)
    )
    unit = Desk(numbers=Numbers(with_us_s=300.0), copies=(copy(1, -100),))
    assert unit.look(1, notices=many) == [("save", "risk.request")]
    unit.look(47, copies=(OLD, copy(2, 2)))
    said = unit.until(600, every_s=5)
    assert [line[1:] for line in said if line[2] != "unheard"] == [("save", "window")]
    assert {unit.state(f"notice:file:{one.ack_name}:{100 + n}") for n, one in enumerate(many)} == {"served"}


def test_what_is_remembered_stays_bounded():
    unit = desk(numbers=Numbers(grace_s=1.0))
    for n in range(2 * CAUSES_MAX):
        unit.look(n, notices=(notice(identity=f"id:risk.preempt:{n}", seen_s=n, deadline_s=n + 5),))
    assert len(unit.ledger.causes) <= CAUSES_MAX + 1
    assert len(unit.ledger.said) <= 1024


# ---- withdrawn


def test_a_notice_withdrawn_before_it_is_served_closes_its_request_at_once():
    unit = desk(notices=(notice(),))
    unit.look(1)
    assert unit.look(2, notices=()) == []
    assert unit.request is None
    assert unit.state(KEY) == "withdrawn"


def test_a_copy_that_comes_all_the_same_is_judged_like_any_other():
    unit = desk(notices=(notice(),))
    unit.look(1)
    unit.look(2, notices=())
    unit.look(47, copies=(OLD, copy(2, 6)))
    assert [write.name for write in unit.ledger.run.writes] == ["step-2.pt"]
    assert unit.look(48, copies=(OLD, broken(2, 6))) == [("repair", "broken")]


def test_a_withdrawn_notice_leaves_the_request_to_the_others():
    first, second = notice(Condition.TERMINATE, deadline_s=300), notice(Condition.REQUEST, inode=12)
    unit = desk(notices=(first, second))
    unit.look(1)
    request_id = unit.request.id
    unit.look(2, notices=(second,))
    assert (unit.request.id, unit.request.reason, unit.request.deadline_s) == (
        request_id,
        "risk.request",
        None,
    )


def test_a_placed_notice_that_is_withdrawn_asks_for_nothing():
    unit = desk(notices=(notice(deadline_s=300),))
    unit.look(1)
    unit.look(2, notices=())
    assert unit.until(600, every_s=5) == []


# ---- deadlines that move


def test_an_earlier_deadline_places_the_write_anew():
    unit = desk(notices=(notice(deadline_s=600),))
    assert unit.until(100, every_s=5) == []
    said = unit.until(200, notices=(notice(deadline_s=200),))
    (moment_s, *line) = said[0]
    assert line == ["save", "risk.preempt"]
    assert 200 - 51 - 2 * POLL_S <= moment_s <= 200 - 51


def test_a_later_deadline_places_the_write_anew():
    unit = desk(notices=(notice(deadline_s=120),))
    unit.look(1)
    said = unit.until(600, notices=(notice(deadline_s=600),))
    assert said[0][1:] == ("save", "risk.preempt")
    assert 600 - 51 - 2 * POLL_S <= said[0][0] <= 600 - 51


def test_a_move_below_a_second_is_none():
    unit = desk(notices=(notice(deadline_s=120),))
    unit.look(1)
    unit.look(2, notices=(notice(deadline_s=119.5),))
    assert unit.cause(KEY).deadline_s == T0 + 120


def test_an_earlier_deadline_reaches_the_open_request():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=600),))
    unit.look(1)
    assert unit.look(2, notices=(notice(Condition.TERMINATE, deadline_s=300),)) == []
    assert unit.request.deadline_s == T0 + 300


def test_a_deadline_that_moves_too_near_keeps_the_request_and_lets_the_hook_go():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=600),))
    unit.look(1)
    request_id = unit.request.id
    assert unit.look(2, notices=(notice(Condition.TERMINATE, deadline_s=30),)) == [("skip", "no-time")]
    assert (unit.request.id, unit.request.deadline_s) == (request_id, T0 + 30)
    assert unit.acked("risk.terminate") == "unfit"
    assert unit.until(10) == []


def test_the_job_may_be_faster_than_was_thought():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=600),))
    unit.look(1)
    unit.look(2, notices=(notice(Condition.TERMINATE, deadline_s=30),))
    unit.look(25, copies=(OLD, copy(2, 3, write_s=20)))
    assert unit.acked("risk.terminate") == "served"


def test_a_served_notice_is_not_asked_for_again_when_its_date_moves():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=600),))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    assert unit.until(900, every_s=5, notices=(notice(Condition.TERMINATE, deadline_s=800),)) == []


def test_a_refused_notice_whose_deadline_moves_back_is_served():
    unit = desk()
    assert unit.look(1, notices=(notice(deadline_s=20),)) == [("skip", "no-time")]
    assert unit.acked("risk.preempt") == "unfit"
    said = unit.until(600, notices=(notice(deadline_s=600),))
    assert [line[1:] for line in said][:1] == [("save", "risk.preempt")]


# ---- dates that have passed, and none


def test_a_deadline_in_the_past_is_a_missed_notice():
    unit = desk()
    assert unit.look(10, notices=(notice(deadline_s=5),)) == [("skip", "no-time")]
    assert unit.request is None
    assert unit.acked("risk.preempt") == "missed"


def test_a_missed_notice_whose_date_moves_within_the_past_stays_missed():
    unit = desk()
    unit.look(10, notices=(notice(deadline_s=5),))
    assert unit.look(11, notices=(notice(deadline_s=8),)) == []
    assert unit.acked("risk.preempt") == "missed"


@pytest.mark.parametrize(
    ("condition", "deadline_s"),
    [
        pytest.param(Condition.TERMINATE, 30, id="terminate"),
        pytest.param(Condition.PREEMPT, None, id="preempt"),
        pytest.param(Condition.MAINTENANCE, None, id="maintenance"),
        pytest.param(Condition.WALLTIME, None, id="walltime"),
        pytest.param(Condition.REQUEST, None, id="request"),
    ],
)
def test_the_grace_dates_a_termination_and_nothing_else(condition, deadline_s):
    unit = Desk(knowing(write_s=5, gap_s=1), copies=(OLD,), notices=(notice(condition),))
    unit.look(1)
    cause = unit.cause(f"notice:file:{condition.value}:11")
    assert cause.deadline_s == (None if deadline_s is None else T0 + deadline_s)


@pytest.mark.parametrize(
    ("condition", "given", "deadline_s"),
    [
        pytest.param(Condition.TERMINATE, True, 60, id="terminate is capped"),
        pytest.param(Condition.TERMINATE, False, 600, id="terminate, no grace given"),
        pytest.param(Condition.PREEMPT, True, 600, id="a spot notice is not"),
        pytest.param(Condition.WALLTIME, True, 600, id="the walltime is not"),
        pytest.param(Condition.MAINTENANCE, True, 600, id="a maintenance is not"),
    ],
)
def test_a_grace_that_was_given_caps_a_termination_only(condition, given, deadline_s):
    unit = Desk(
        numbers=Numbers(grace_s=60.0, grace_given=given),
        copies=(OLD,),
        notices=(notice(condition, deadline_s=600),),
    )
    unit.look(1)
    assert unit.cause(f"notice:file:{condition.value}:11").deadline_s == T0 + deadline_s


def test_a_grace_never_moves_a_deadline_back():
    unit = Desk(
        knowing(write_s=5, gap_s=1),
        Numbers(grace_s=60.0, grace_given=True),
        copies=(OLD,),
        notices=(notice(Condition.TERMINATE, deadline_s=20),),
    )
    unit.look(1)
    assert unit.cause("notice:file:risk.terminate:11").deadline_s == T0 + 20


def test_a_governor_that_starts_again_does_not_date_a_termination_anew():
    unit = Desk(knowing(write_s=5, gap_s=1), copies=(OLD,), notices=(notice(Condition.TERMINATE, seen_s=0),))
    unit.look(1)
    unit.look(10, notices=(notice(Condition.TERMINATE, seen_s=10),))  # its first sight of the same file
    assert unit.cause("notice:file:risk.terminate:11").deadline_s == T0 + 30


def test_a_missed_termination_stays_missed_after_a_start():
    unit = Desk(knowing(write_s=5, gap_s=1), copies=(OLD,), notices=(notice(Condition.TERMINATE, seen_s=0),))
    unit.until(40)
    assert unit.until(60, notices=(notice(Condition.TERMINATE, seen_s=41),)) == []
    assert unit.state("notice:file:risk.terminate:11") == "missed"


# ---- several sources


def twins(apart_s: float, seen_s: float = 0) -> tuple:
    """The same termination told by two sources."""
    return (
        notice(Condition.TERMINATE, deadline_s=600, name="risk.terminate.a"),
        notice(
            Condition.TERMINATE, deadline_s=600 + apart_s, name="risk.terminate.b", inode=12, seen_s=seen_s
        ),
    )


@pytest.mark.parametrize("apart_s", [-5, 0, 2, 5])
def test_two_sources_within_five_seconds_are_one_notice(apart_s):
    unit = desk(notices=twins(apart_s))
    assert unit.look(1) == [("save", "risk.terminate")]
    unit.look(47, copies=(OLD, copy(2, 6)))
    assert [unit.acked(f"risk.terminate.{n}") for n in "ab"] == ["served", "served"]
    assert unit.until(700, every_s=5) == []


WHEN_THE_SECOND_COMES = [
    pytest.param(2, id="before the write begins"),
    pytest.param(10, id="while it goes on"),
    pytest.param(100, id="after it"),
]


@pytest.mark.parametrize("second_s", WHEN_THE_SECOND_COMES)
def test_the_second_source_asks_for_no_second_write_whenever_it_comes(second_s):
    both = twins(2, seen_s=second_s)
    unit = desk(notices=both[:1])
    unit.look(1)
    for moment_s in (*range(2, 5), *range(5, 45), *range(45, 120)):
        if 5 <= moment_s < 45:
            unit.facts["copies"] = (OLD, writing(2, 5, changed_s=T0 + moment_s))
        if moment_s >= 45:
            unit.facts["copies"] = (OLD, copy(2, 5))
        unit.look(moment_s, notices=both if moment_s >= second_s else both[:1])
    assert unit.told("save") == [unit.lines[0].text]
    assert [unit.acked(f"risk.terminate.{n}") for n in "ab"] == ["served", "served"]


@pytest.mark.parametrize("second_s", WHEN_THE_SECOND_COMES)
def test_a_placed_notice_of_two_sources_leads_to_one_write(second_s):
    both = (
        notice(deadline_s=120, name="risk.preempt.a"),
        notice(deadline_s=124, name="risk.preempt.b", inode=12, seen_s=60 + second_s),
    )
    unit = desk(notices=both[:1])
    for moment_s in range(1, 200):
        if 70 <= moment_s < 110:
            unit.facts["copies"] = (OLD, writing(2, 70, changed_s=T0 + moment_s))
        if moment_s >= 110:
            unit.facts["copies"] = (OLD, copy(2, 70))
        unit.look(moment_s, notices=both if moment_s >= 60 + second_s else both[:1])
    assert len(unit.told("save")) == 1


def test_two_sources_are_placed_for_the_earlier_deadline():
    unit = desk(notices=(notice(deadline_s=124, name="risk.preempt.a"), notice(deadline_s=120, inode=12)))
    said = unit.until(100)
    assert said[0][0] <= 120 - 51
    assert unit.request.deadline_s == T0 + 120


def test_two_sources_more_than_five_seconds_apart_are_two_notices():
    unit = desk(notices=twins(6)[:1])
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    assert unit.look(100, notices=twins(6)) == [("save", "risk.terminate")]


def test_the_same_deadline_of_another_condition_is_another_notice():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=600),))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    both = (notice(Condition.TERMINATE, deadline_s=600), notice(Condition.PREEMPT, deadline_s=600, inode=12))
    said = unit.until(600, every_s=1, notices=both)
    assert [line[1:] for line in said if line[1] == "save"] == [("save", "risk.preempt")]


def test_a_twin_of_a_refused_notice_is_refused_with_it():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=30, name="risk.terminate.a"),))
    assert unit.look(1) == [("skip", "no-time")]
    both = (
        notice(Condition.TERMINATE, deadline_s=30, name="risk.terminate.a"),
        notice(Condition.TERMINATE, deadline_s=33, name="risk.terminate.b", inode=12),
    )
    assert unit.look(2, notices=both) == []
    assert unit.acked("risk.terminate.b") == "unfit"


def test_undated_notices_are_not_merged():
    unit = desk(notices=(notice(name="risk.preempt.a"),))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    both = (notice(name="risk.preempt.a"), notice(name="risk.preempt.b", inode=12))
    assert unit.look(1000, notices=both) == [("save", "risk.preempt")]


# ---- training's end


def test_the_end_is_one_cause():
    unit = desk(ending=ending(1))
    assert unit.look(1) == [("save", "train.end")]
    unit.look(47, copies=(OLD, copy(2, 6)))
    assert unit.ledger.run.end_sound is True
    assert unit.until(2000, every_s=10) == []


def test_a_mark_touched_again_before_it_is_served_is_the_same_end():
    unit = desk(ending=ending(1))
    unit.look(1)
    request_id = unit.request.id
    assert unit.look(5, ending=ending(5)) == []
    assert unit.request.id == request_id


def test_a_mark_touched_again_after_it_was_served_is_the_same_end():
    unit = desk(ending=ending(1))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    assert unit.look(100, ending=ending(100)) == []
    assert unit.request is None


def test_a_mark_served_in_an_earlier_run_does_not_count_again():
    unit = desk(ending=ending(1))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    unit.ledger = evolve(unit.ledger, run=evolve(knowing().run, started_s=T0 + 900))
    assert unit.look(1000) == []


def test_a_mark_touched_in_a_later_run_is_a_new_end():
    unit = desk(ending=ending(1))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    unit.ledger = evolve(unit.ledger, run=evolve(knowing().run, started_s=T0 + 900))
    assert unit.look(1000, ending=ending(1000)) == [("save", "train.end")]


def test_a_mark_that_is_taken_away_asks_for_nothing():
    unit = desk(ending=ending(1))
    unit.look(1)
    assert unit.look(2, ending=None) == []
    assert unit.request is None


# ---- the job


def test_a_new_job_starts_its_own_clock():
    unit = desk(job=Job(identity="a"), numbers=Numbers(with_us_s=1000.0))
    unit.look(1)
    assert unit.unsaved_s == 901
    unit.look(50, job=Job(identity="b"))
    assert unit.unsaved_s == 0
    assert unit.ledger.deaths == 1


def test_the_first_job_that_is_known_is_no_death():
    unit = desk()
    unit.look(1)
    unit.look(2, job=Job(identity="a"))
    assert (unit.ledger.deaths, len(unit.ledger.starts_s)) == (0, 1)


def test_a_job_after_the_end_is_no_death():
    unit = desk(job=Job(identity="a"), ending=ending(1))
    unit.look(1)
    unit.look(47, copies=(OLD, copy(2, 6)))
    unit.look(60, job=Job(identity="b"))
    assert unit.ledger.deaths == 0
    assert unit.ledger.run.ended_s is None


def test_the_jobs_own_start_counts():
    unit = desk(job=Job(started_s=T0 - 100))
    unit.look(1)
    assert unit.unsaved_s == 101
    unit.look(2, job=Job(started_s=T0 - 50))
    assert unit.unsaved_s == 52


def test_a_start_that_jitters_does_not_announce_the_allotted_time_twice():
    numbers = Numbers(duration_s=3600 + 300.0)
    unit = Desk(numbers=numbers, copies=(OLD,), job=Job(identity="a", started_s=T0 - 3600 + 0.499))
    unit.until(255)
    assert unit.told("save") != []
    unit.until(290, copies=(OLD, copy(2, 250, write_s=35)))
    before = len(unit.lines)
    for moment_s in range(291, 299):
        unit.look(moment_s, job=Job(identity="a", started_s=T0 - 3600 + (0.501 if moment_s % 2 else 0.499)))
    assert unit.lines[before:] == []


# ---- the allotted time


@pytest.mark.parametrize(
    ("numbers", "job"),
    [
        pytest.param(Numbers(duration_s=3600 + 900.0), Job(), id="duration"),
        pytest.param(Numbers(), Job(ends_s=T0 + 900), id="job.json"),
        pytest.param(Numbers(duration_s=3600 + 900.0), Job(ends_s=T0 + 903), id="both"),
    ],
)
def test_one_write_is_placed_before_the_allotted_time_ends(numbers, job):
    unit = Desk(numbers=numbers, copies=(OLD,), job=job)
    said = unit.until(900, every_s=1)
    assert said[0][1:] == ("save", "risk.walltime")
    assert 900 - 51 - 2 * POLL_S <= said[0][0] <= 900 - 51
    unit = Desk(numbers=numbers, copies=(OLD,), job=job)
    unit.until(852)
    assert unit.until(1200, copies=(OLD, copy(2, 852))) == []


# ---- edges


MEMORY = Condition.MEMORY


def edge_desk(**facts: object) -> Desk:
    """A unit with old work and short writes."""
    return Desk(knowing(write_s=4, gap_s=1), **{"copies": (copy(1, -9000),), **facts})


def test_an_onset_leads_to_one_write():
    unit = edge_desk(readings=(reading(MEMORY, False),))
    assert unit.look(1) == []
    assert unit.look(2, readings=(reading(MEMORY, True),)) == [("save", "risk.memory")]
    unit.look(8, copies=(copy(2, 3, write_s=4),))
    assert unit.until(60) == []


@pytest.mark.parametrize("value", [None, False])
def test_unknown_and_zero_never_lead_to_a_write(value):
    assert edge_desk(readings=(reading(MEMORY, value),)).until(1000, every_s=10) == []


def test_what_stays_leads_to_another_write_each_risk_period():
    # W 4, p 0.5, I 300: max(sqrt(2 * 4 * 225 / 0.5) = 60, 20 W = 80, 60) = 80
    unit = edge_desk(readings=(reading(MEMORY, True),))
    assert unit.look(1) == [("save", "risk.memory")]
    unit.look(8, copies=(copy(2, 3, write_s=4),))
    assert unit.until(80) == []
    assert unit.look(81) == [("save", "risk.memory")]


@pytest.mark.parametrize(
    ("write_s", "period_s"),
    [
        pytest.param(0.5, 60, id="a minute at least"),
        pytest.param(4, 80, id="twenty writes"),
        pytest.param(9, 180, id="twenty longer writes"),
    ],
)
def test_the_risk_period_is_at_least_a_minute_and_twenty_writes(write_s, period_s):
    unit = Desk(
        knowing(write_s=write_s, gap_s=1), copies=(copy(1, -9000),), readings=(reading(MEMORY, True),)
    )
    unit.look(1)
    unit.look(15, copies=(copy(2, 3, write_s=write_s),))
    said = unit.until(period_s + 20)
    assert said == [(1 + period_s, "save", "risk.memory")]


def test_a_long_window_stretches_the_risk_period():
    # thermal: W 4, p 0.3, I 1800: sqrt(2 * 4 * (0.7 * 1800 + 0.3 * 900) / 0.3) = 202
    unit = edge_desk(readings=(reading(Condition.THERMAL, True),))
    unit.look(1)
    unit.look(8, copies=(copy(2, 3, write_s=4),))
    assert unit.until(210) == [(203, "save", "risk.thermal")]


def test_a_level_that_falls_for_less_than_five_minutes_is_the_same_edge():
    unit = edge_desk(readings=(reading(MEMORY, True),))
    unit.look(1)
    unit.look(8, copies=(copy(2, 3, write_s=4),))
    unit.until(290, readings=(reading(MEMORY, False),))
    unit.look(291, readings=(reading(MEMORY, True),))
    assert unit.ledger.edges["risk.memory"] == Edge(since_s=T0 + 1, written_s=T0 + 291)


def test_the_next_edge_comes_after_five_minutes_off_and_ten_since_the_last():
    unit = edge_desk(readings=(reading(MEMORY, True),))
    unit.look(1)
    unit.look(8, copies=(copy(2, 3, write_s=4),))
    unit.until(310, readings=(reading(MEMORY, False),))
    assert unit.ledger.edges["risk.memory"].latched is False
    assert unit.until(600, readings=(reading(MEMORY, True),)) == []
    assert unit.look(601) == [("save", "risk.memory")]


def test_the_next_edge_is_not_sooner_than_five_writes():
    unit = Desk(knowing(write_s=200, gap_s=1), copies=(copy(1, -90000),), readings=(reading(MEMORY, True),))
    unit.look(1)
    unit.look(300, copies=(copy(2, 3, write_s=200),))
    unit.until(700, every_s=10, readings=(reading(MEMORY, False),))
    assert unit.until(1000, every_s=10, readings=(reading(MEMORY, True),)) == []
    assert unit.look(1001) == [("save", "risk.memory")]


def test_unknown_in_between_counts_as_neither_on_nor_off():
    unit = edge_desk(readings=(reading(MEMORY, True),))
    unit.look(1)
    unit.look(8, copies=(copy(2, 3, write_s=4),), readings=(reading(MEMORY, False),))
    unit.until(400, every_s=10, readings=(reading(MEMORY, None),))
    unit.look(401, readings=(reading(MEMORY, False),))
    assert unit.ledger.edges["risk.memory"].latched is True


def test_an_edge_that_falls_before_it_is_served_asks_for_nothing_any_more():
    full = Volume(free_bytes=GB, total_bytes=2000 * GB)
    unit = edge_desk(readings=(reading(MEMORY, True),), volume=full)
    unit.look(1)
    unit.until(310, readings=(reading(MEMORY, False),))
    unit.until(320, volume=ROOM)
    assert [
        line.reason for line in unit.lines if line.verdict is Verdict.SAVE and line.reason == "risk.memory"
    ] == []


def test_an_edge_with_a_date_is_placed_like_a_notice():
    peer = reading(Condition.PEER, True, deadline_s=T0 + 300)
    unit = edge_desk(readings=(peer,))
    assert unit.look(1) == []
    (moment_s, *line) = unit.until(300)[0]
    assert line == ["save", "risk.peer"]
    assert 300 - 11 - 2 * POLL_S <= moment_s <= 300 - 11


def test_low_space_is_an_edge_of_its_own():
    low = Volume(free_bytes=34 * GB, total_bytes=2000 * GB)
    assert edge_desk(volume=low).look(1) == [("save", "risk.space")]


def test_the_third_start_in_six_hours_is_an_edge_of_its_own():
    unit = edge_desk(job=Job(identity="a"))
    unit.look(1)
    unit.look(100, job=Job(identity="b"))
    said = unit.look(200, job=Job(identity="c"))
    assert said in ([("save", "risk.flap")], [("skip", "fresh")])


def test_a_mark_that_comes_back_is_still_wanted():
    unit = desk(ending=ending(1))
    unit.look(1)
    unit.look(2, ending=None)  # a network folder that did not list it for one look
    assert unit.look(3, ending=ending(1)) == [("save", "train.end")]
    unit.look(50, copies=(OLD, copy(2, 6)))
    assert unit.ledger.run.end_sound is True


def test_what_was_said_of_a_moved_deadline_is_said_once_even_when_writes_grow_shorter():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=600),))
    unit.look(1)
    unit.look(2, notices=(notice(Condition.TERMINATE, deadline_s=30),))
    unit.ledger = evolve(unit.ledger, write_samples_s=(1.0,) * 8)
    assert unit.look(3) == []
    assert unit.request is not None
