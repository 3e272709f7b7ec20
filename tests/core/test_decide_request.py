"""An open request: waited for while a write goes on, said to be unheard, asked again, at most three times."""

from __future__ import annotations

import pytest
from core.build import GB, T0, Desk, broken, copy, knowing, notice, writing

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import CopyStatus, Volume
from ckpt_governor.ledger import Ledger, RequestKind, next_id
from ckpt_governor.numbers import Numbers

OLD = copy(1, -900)
PATIENCE_S = 60


def asked(ledger: Ledger | None = None, **facts: object) -> Desk:
    """A unit that was asked for a write at second 1, without a deadline."""
    unit = Desk(ledger, **{"copies": (OLD,), "notices": (notice(),), **facts})
    assert unit.look(1) == [("save", "risk.preempt")]
    return unit


# ---- ids


def test_the_first_id_is_taken_from_the_clock_in_milliseconds():
    assert asked().request.id == int((T0 + 1) * 1000)


def test_ids_only_grow_even_when_the_clock_does_not():
    assert next_id(Ledger(last_id=5), 1.0) == 1000
    assert next_id(Ledger(last_id=10**15), T0) == 10**15 + 1


# ---- a write that goes on


def test_a_write_that_began_after_the_cause_serves_it():
    unit = Desk(copies=(OLD,))
    unit.look(0)
    begun = writing(2, 5, changed_s=T0 + 5)
    assert unit.look(5, copies=(OLD, begun), notices=(notice(seen_s=4),)) == [("skip", "in-flight")]
    assert unit.request is None
    assert unit.look(45, copies=(OLD, copy(2, 5))) == []
    assert unit.acked("risk.preempt") == "served"


def test_a_write_that_began_before_the_cause_is_followed_by_another():
    unit = Desk(copies=(OLD, writing(2, -5, changed_s=T0)))
    stop = notice(Condition.TERMINATE, deadline_s=300)
    assert unit.look(0, notices=(stop,)) == [("skip", "in-flight")]
    for moment_s in range(1, 35):
        assert unit.look(moment_s, copies=(OLD, writing(2, -5, changed_s=T0 + moment_s))) == []
    assert unit.look(35, copies=(OLD, copy(2, -5))) == [("save", "risk.terminate")]


def test_when_time_is_short_the_write_in_progress_is_not_waited_for():
    unit = Desk(copies=(OLD, writing(2, -5, changed_s=T0)))
    assert unit.look(0, notices=(notice(Condition.TERMINATE, deadline_s=52),)) == [("save", "risk.terminate")]


def test_after_a_write_in_progress_a_second_one_that_does_not_fit_is_refused():
    unit = Desk(copies=(OLD, writing(2, -5, changed_s=T0)))
    assert unit.look(0, notices=(notice(Condition.TERMINATE, deadline_s=45),)) == [("skip", "no-time")]
    assert unit.acked("risk.terminate") == "unfit"


def test_a_write_that_has_gone_quiet_holds_nothing_up():
    stuck = writing(2, -600, changed_s=T0 - 500)
    unit = Desk(copies=(OLD, stuck), notices=(notice(),))
    assert unit.look(0) == [("save", "risk.preempt")]


def test_while_a_write_goes_on_nobody_is_called_unheard():
    unit = asked()
    for moment_s in range(5, 300):
        assert unit.look(moment_s, copies=(OLD, writing(2, 5, changed_s=T0 + moment_s))) == []


def test_patience_counts_from_the_end_of_a_write_that_was_in_the_way():
    unit = asked()
    for moment_s in range(5, 100):
        unit.look(moment_s, copies=(OLD, writing(2, -1, changed_s=T0 + moment_s)))
    said = unit.until(300, copies=(OLD, copy(2, -1, write_s=100)))
    assert said[0][1:] == ("skip", "unheard")
    assert said[0][0] > 99 + PATIENCE_S


# ---- nobody answers


def test_a_request_that_nobody_answers_is_asked_again_under_a_new_id():
    unit = asked()
    first = unit.request.id
    assert unit.until(1 + PATIENCE_S) == []
    assert unit.look(2 + PATIENCE_S) == [("skip", "unheard")]
    assert unit.request.id > first
    assert unit.lines[-1].request_id == unit.request.id
    assert "asked 1m 1s ago, no write began" in unit.told("skip")[0]


def test_patience_is_three_times_the_gap_when_that_is_longer():
    unit = asked(knowing(gap_s=40))
    assert unit.until(121) == []
    assert unit.look(122) == [("skip", "unheard")]


def test_one_cause_has_at_most_three_ids():
    unit = asked()
    ids = {unit.request.id}
    said = []
    for moment_s in range(2, 2000, 2):
        said += unit.look(moment_s)
        ids.add(unit.request.id)
    assert len(ids) == 3
    assert said == [("skip", "unheard")] * 3
    assert "asked three times; the request stays open" in unit.told("skip")[-1]
    assert unit.ledger.run.unheard == 3


@pytest.mark.parametrize(
    ("heard", "says"),
    [
        pytest.param(None, "no write began; asking again", id="it says nothing"),
        pytest.param(0, "the job has not read it", id="it has read an older one"),
        pytest.param(int((T0 + 1) * 1000), "although the job has read it", id="it has read this one"),
    ],
)
def test_heard_and_never_read_are_told_apart(heard, says):
    unit = asked(heard_id=heard)
    unit.until(80)
    assert says in unit.told("skip", "unheard")[0]


def test_an_answer_to_the_second_id_closes_the_request():
    unit = asked()
    unit.until(70)
    unit.look(120, copies=(OLD, copy(2, 75)))
    assert unit.request is None
    assert unit.acked("risk.preempt") == "served"


def test_an_answer_to_the_first_id_that_comes_late_closes_the_request():
    unit = asked()
    for moment_s in range(5, 11):
        unit.look(moment_s, copies=(OLD, writing(2, 5, changed_s=T0 + moment_s)))
    stuck = writing(2, 5, changed_s=T0 + 10)
    said = unit.until(130, copies=(OLD, stuck))
    assert [line[1:] for line in said] == [("skip", "unheard")]
    unit.look(140, copies=(OLD, copy(2, 5, write_s=130)))
    assert unit.request is None
    assert unit.acked("risk.preempt") == "served"
    assert unit.ledger.run.writes[-1].reason == "risk.preempt"


def test_a_late_answer_that_is_broken_closes_the_request_too():
    unit = asked()
    for moment_s in range(5, 11):
        unit.look(moment_s, copies=(OLD, writing(2, 5, changed_s=T0 + moment_s)))
    unit.until(130, copies=(OLD, writing(2, 5, changed_s=T0 + 10)))
    assert unit.look(140, copies=(OLD, broken(2, 5))) == [("repair", "risk.preempt")]
    assert unit.request.kind is RequestKind.REPAIR


def test_asking_again_passes_the_space_check():
    unit = asked(volume=Volume(free_bytes=900 * GB, total_bytes=2000 * GB))
    first = unit.request.id
    unit.until(300, volume=Volume(free_bytes=GB, total_bytes=2000 * GB))
    assert unit.request.id == first
    assert "no-space" in unit.ledger.run.refused


def test_asking_again_passes_the_time_check():
    unit = Desk(
        knowing(write_s=100, gap_s=5), copies=(OLD,), notices=(notice(Condition.TERMINATE, deadline_s=160),)
    )
    unit.look(1)
    first = unit.request.id
    unit.until(159)
    assert unit.request.id == first


def test_when_there_is_space_again_it_is_asked_again():
    unit = asked()
    first = unit.request.id
    unit.until(100, volume=Volume(free_bytes=GB, total_bytes=2000 * GB))
    unit.until(200, volume=Volume(free_bytes=900 * GB, total_bytes=2000 * GB))
    assert unit.request.id > first


# ---- causes that come meanwhile


def another(seen_s: float) -> tuple:
    """The notice of the start, and a person who asks as well."""
    return (notice(), notice(Condition.REQUEST, inode=12, seen_s=seen_s))


def test_a_cause_that_comes_shortly_after_shares_the_id():
    unit = asked()
    request_id = unit.request.id
    assert unit.look(20, notices=another(20)) == [("skip", "in-flight")]
    assert unit.request.id == request_id


def test_a_cause_that_comes_to_an_overdue_request_has_a_new_id():
    # Gap 5, write 40, margin 5: an answer is overdue after 50 s; the job may have answered with a save that failed.
    unit = asked()
    request_id = unit.request.id
    unit.look(52, notices=another(52))
    assert unit.request.id > request_id


def test_before_any_write_was_seen_an_answer_is_overdue_sooner():
    unit = asked(knowing(write_s=None, gap_s=None))
    request_id = unit.request.id
    unit.look(17, notices=another(17))
    assert unit.request.id > request_id


def test_a_cause_after_the_third_id_has_ids_of_its_own():
    unit = asked()
    unit.until(300, every_s=2)
    seen = {unit.request.id}
    unit.look(400, notices=another(400))
    for moment_s in range(401, 2000, 2):
        seen.add(unit.request.id)
        unit.look(moment_s)
    assert len(seen) == 1 + 3


def test_a_window_that_nobody_answers_is_asked_for_anew_again_and_again():
    unit = Desk(numbers=Numbers(with_us_s=900.0), copies=(copy(1, -800),))
    seen = {}
    for moment_s in range(1, 12_000, 5):
        unit.look(moment_s)
        if unit.request is not None:
            seen.setdefault(unit.request.id, moment_s)
    assert 12 <= len(seen) <= 3 + 3 * 12_000 / 900  # slowly, and for as long as the job does not write
    assert max(seen.values()) > 10_000


# ---- what the answer is worth


def test_an_answer_that_cannot_be_read_ends_the_waiting():
    unit = asked()
    unreadable = copy(2, 5, CopyStatus.UNKNOWN, why="permission denied")
    assert unit.look(46, copies=(OLD, unreadable)) == [("unknown", "risk.preempt")]
    assert unit.request is None
    assert unit.acked("risk.preempt") == "missed"
    assert unit.look(47) == []


def test_a_write_time_is_learned_from_an_answer_that_was_seen():
    unit = asked()
    for moment_s in range(8, 58, 5):
        unit.look(moment_s, copies=(OLD, writing(2, 8, changed_s=T0 + moment_s)))
    unit.look(58, copies=(OLD, copy(2, 8, write_s=50, longest_quiet_s=3.0)))
    assert unit.ledger.write_samples_s[-1] == 50
    assert unit.ledger.gap_samples_s[-1] == 7
    assert unit.ledger.quiet_s_max == 3
    assert unit.ledger.size_samples_bytes[-1] == 14 * GB


def test_no_gap_is_learned_from_a_copy_that_came_whole():
    unit = asked()
    unit.look(58, copies=(OLD, copy(2, 1, write_s=57, answered=True)))
    assert unit.ledger.gap_samples_s == knowing().gap_samples_s


def test_no_write_time_is_learned_from_a_copy_that_was_there_before():
    unit = Desk(copies=(OLD, copy(2, -100, pre_existing=True)))
    unit.look(1)
    assert unit.ledger.write_samples_s == knowing().write_samples_s
    assert unit.ledger.run.writes == ()


def test_every_copy_is_learned_from_once():
    unit = asked()
    unit.look(46, copies=(OLD, copy(2, 5)))
    samples = unit.ledger.write_samples_s
    unit.until(60)
    assert unit.ledger.write_samples_s == samples
    assert len(unit.ledger.run.writes) == 1


def test_the_receipt_lists_a_copy_with_the_reason_that_it_was_asked_for():
    unit = asked()
    unit.look(46, copies=(OLD, copy(2, 5)))
    unit.look(200, copies=(OLD, copy(2, 5), copy(3, 150)))
    assert [(write.name, write.reason) for write in unit.ledger.run.writes] == [
        ("step-2.pt", "risk.preempt"),
        ("step-3.pt", ""),
    ]
    assert unit.ledger.run.writes[0].at_s == T0 + 1


def test_a_copy_that_is_judged_anew_is_listed_once():
    unit = asked()
    unit.look(46, copies=(OLD, broken(2, 5)))
    unit.look(90, copies=(OLD, copy(2, 5, write_s=80)))
    assert [(write.name, write.status) for write in unit.ledger.run.writes] == [
        ("step-2.pt", CopyStatus.SOUND)
    ]


def test_several_copies_for_one_request_close_it_once():
    unit = asked()
    unit.look(46, copies=(OLD, copy(2, 5), copy(3, 6, name="ema-2.pt")))
    assert unit.request is None
    assert len(unit.ledger.run.writes) == 2
    assert unit.until(100) == []


def test_an_unreadable_answer_to_the_first_id_leaves_a_later_cause_its_own():
    unit = asked()
    for moment_s in range(5, 11):
        unit.look(moment_s, copies=(OLD, writing(2, 5, changed_s=T0 + moment_s)))
    unit.until(100, copies=(OLD, writing(2, 5, changed_s=T0 + 10)))
    unit.look(101, notices=another(101))
    unreadable = copy(2, 5, CopyStatus.UNKNOWN, why="permission denied", write_s=100)
    unit.look(110, copies=(OLD, unreadable))
    assert [unit.acked(name) for name in ("risk.preempt", "risk.request")] == ["missed", None]
    assert unit.request is not None
    assert unit.look(111) == []
