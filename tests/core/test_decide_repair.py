"""A broken newest copy: one repair for it, with what it inherits, and an end to it after three in a row."""

from __future__ import annotations

import pytest
from core.build import T0, Desk, broken, copy, knowing, notice, writing

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Copy, CopyStatus, Volume
from ckpt_governor.ledger import RequestKind
from ckpt_governor.numbers import Numbers

OLD = copy(1, -900)


def desk(**facts: object) -> Desk:
    """A unit whose newest sound copy is a quarter of an hour old."""
    return Desk(**{"copies": (OLD,), **facts})


def test_a_broken_copy_is_named_with_the_last_sound_one_and_repaired_once():
    unit = desk(copies=(OLD, broken(2, -50)))
    assert unit.look(0) == [("repair", "broken")]
    assert unit.told("repair") == [
        "step-2.pt is broken: the central directory is missing; the last sound copy is step-1.pt"
    ]
    assert unit.request.kind is RequestKind.REPAIR
    assert unit.until(60) == []
    unit.look(61, copies=(OLD, broken(2, -50), copy(3, 10)))
    assert unit.request is None
    assert unit.until(2000, every_s=10) == []


def test_without_a_sound_copy_it_says_so():
    unit = desk(copies=(broken(2, -50, why=""),))
    unit.look(0)
    assert unit.told("repair") == ["step-2.pt is broken: incomplete; there is no sound copy"]


def test_only_the_newest_copy_is_repaired():
    unit = desk(copies=(broken(1, -900), copy(2, -500)))
    assert unit.look(0) == []


def test_a_broken_copy_is_not_repaired_while_the_next_is_written():
    unit = desk(copies=(OLD, broken(2, -50), writing(3, -5, changed_s=T0)))
    assert unit.look(0) == []
    assert unit.look(36, copies=(OLD, broken(2, -50), copy(3, -5))) == []


@pytest.mark.parametrize(
    ("copies", "why"),
    [
        pytest.param((OLD,), "the broken copy is gone", id="it vanished"),
        pytest.param((OLD, copy(2, -50)), "step-2.pt is sound after all", id="it is sound after all"),
        pytest.param(
            (OLD, broken(2, -50), copy(3, -2)),
            "step-3.pt came after step-2.pt and is sound",
            id="a sound one came that had begun before",
        ),
        pytest.param(
            (OLD, writing(2, -500, changed_s=T0 - 400)),
            "step-2.pt changes again",
            id="it changes again, with pauses",
        ),
        pytest.param(
            (OLD, copy(2, -50, CopyStatus.UNKNOWN, why="permission denied")),
            "step-2.pt cannot be judged any more: permission denied",
            id="it cannot be read any more",
        ),
    ],
)
def test_a_repair_of_what_is_broken_no_more_is_withdrawn_with_one_line(copies, why):
    unit = desk(copies=(OLD, broken(2, -50)))
    unit.look(0)
    assert unit.look(5, copies=copies) == [("repair", "withdrawn")]
    assert unit.told("repair")[-1] == why
    assert unit.request is None
    assert unit.look(6, copies=copies) == []


def test_a_repair_that_a_sound_copy_answers_is_not_withdrawn():
    unit = desk(copies=(OLD, broken(2, -50)))
    unit.look(0)
    assert unit.look(20, copies=(OLD, broken(2, -50), copy(3, 5))) == []


def test_a_repair_that_was_never_asked_for_is_withdrawn_without_a_line():
    unit = desk(copies=(OLD, broken(2, -50)), volume=Volume(free_bytes=1, total_bytes=10**12), copy_count=2)
    assert set(unit.look(0)) == {("skip", "no-space")}
    assert ("repair", "withdrawn") not in unit.look(5, copies=(OLD, copy(2, -50)))


def test_a_temporary_that_is_broken_is_no_copy():
    unit = desk(copies=(OLD, broken(2, -50, temporary=True)))
    assert unit.look(0) == []


# ---- a broken answer


def test_a_broken_answer_closes_its_request_and_the_repair_inherits_its_cause():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=300),))
    unit.look(0)
    first = unit.request
    assert unit.look(46, copies=(OLD, broken(2, 5))) == [("repair", "risk.terminate")]
    assert unit.request.id > first.id
    assert (unit.request.kind, unit.request.deadline_s) == (RequestKind.REPAIR, T0 + 300)
    assert "step-2.pt is broken" in unit.told("repair")[0]
    assert unit.acked("risk.terminate") is None
    unit.look(93, copies=(OLD, broken(2, 5), copy(3, 52)))
    assert unit.acked("risk.terminate") == "served"


def test_a_repair_that_does_not_fit_before_the_inherited_deadline_is_refused():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=80),))
    unit.look(0)
    assert unit.look(46, copies=(OLD, broken(2, 5))) == [("skip", "no-time")]
    assert unit.request is None
    assert unit.acked("risk.terminate") == "unfit"
    assert unit.until(79) == []


def test_a_job_that_outlives_the_deadline_is_asked_to_repair_after_it():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=80),))
    unit.look(0)
    unit.look(46, copies=(OLD, broken(2, 5)))
    assert ("repair", "broken") in [line[1:] for line in unit.until(90)]


def test_a_repair_outlives_the_deadline_that_it_inherited():
    unit = desk(notices=(notice(Condition.TERMINATE, deadline_s=110),))
    unit.look(0)
    unit.look(46, copies=(OLD, broken(2, 5)))
    unit.until(115)
    assert unit.acked("risk.terminate") == "missed"
    assert (unit.request.kind, unit.request.deadline_s) == (RequestKind.REPAIR, None)


def test_a_write_of_the_jobs_own_that_breaks_is_repaired_as_well():
    unit = desk()
    unit.look(0)
    unit.look(5, copies=(OLD, writing(2, 4, changed_s=T0 + 5)))
    assert unit.look(60, copies=(OLD, broken(2, 4))) == [("repair", "broken")]


def test_a_broken_copy_beside_an_open_request_is_reported_and_shares_it():
    unit = desk(notices=(notice(),))
    unit.look(0)
    request_id = unit.request.id
    assert unit.look(5, copies=(OLD, broken(2, -3))) == [("repair", "risk.preempt")]
    assert "step-2.pt is broken" in unit.told("repair")[0]
    assert (unit.request.id, unit.request.kind) == (request_id, RequestKind.REPAIR)


# ---- again and again


def rubbish(unit: Desk, begins_s: float, count: int, every_s: float = 20) -> list[list[tuple[str, str]]]:
    """The lines at each of so many broken copies in a row, however they are asked for."""
    copies: tuple[Copy, ...] = unit.facts["copies"]
    lines = []
    for n in range(count):
        at_s = begins_s + every_s * n
        copies = (*copies, broken(len(copies) + 1, at_s, write_s=every_s - 2, bytes=n + 1))
        lines.append(unit.look(at_s + every_s - 1, copies=copies, copy_count=len(copies)))
    return lines


@pytest.mark.parametrize(
    "cause",
    [pytest.param({"notices": (notice(),)}, id="a notice"), pytest.param({}, id="none")],
)
def test_after_three_repairs_in_a_row_it_is_infeasible_and_nothing_more_is_asked_for(cause):
    unit = desk(volume=None, **cause)
    unit.look(0)
    lines = rubbish(unit, 1, 8)
    assert [said[0][0] for said in lines[:3]] == ["repair"] * 3
    assert lines[3] == [("infeasible", "broken")]
    assert "3 repairs in a row came out broken" in unit.told("infeasible")[0]
    assert {verdict for said in lines[3:] for verdict, _ in said} == {"infeasible"}
    assert unit.request is None


def test_whoever_waits_is_let_go_when_nothing_more_is_asked_for():
    unit = desk(volume=None, notices=(notice(),))
    unit.look(0)
    rubbish(unit, 1, 5)
    assert unit.acked("risk.preempt") == "missed"


def test_the_window_goes_on_a_whole_window_apart():
    unit = desk(volume=None, numbers=Numbers(with_us_s=1000.0))
    unit.until(60)
    asked = []
    for n in range(200):
        at_s = 61 + 20 * n
        copies = (OLD, *(broken(m, 61 + 20 * m, write_s=18) for m in range(max(2, n - 8), n + 2)))
        unit.look(at_s + 19, copies=copies)
        if unit.request is not None:
            asked.append(unit.request.id)
    ids = sorted(set(asked))
    assert 5 <= len(ids) <= 1 + 3 + 4061 / 1000 + 1


def test_a_sound_copy_starts_the_count_anew():
    unit = desk(volume=None, notices=(notice(),))
    unit.look(0)
    rubbish(unit, 1, 3)
    unit.look(80, copies=(*unit.facts["copies"], copy(5, 65, write_s=10)))
    assert unit.ledger.repairs_in_row == 0
    assert unit.look(120, copies=(*unit.facts["copies"], broken(6, 90))) == [("repair", "broken")]


def test_an_unknown_copy_is_no_broken_one():
    unit = desk(copies=(OLD, copy(2, -50, CopyStatus.UNKNOWN, why="two of eight shards are seen here")))
    assert unit.look(0) == []


def test_a_copy_that_is_broken_at_the_first_look_of_all_is_repaired():
    unit = Desk(knowing(), copies=(copy(1, -900, pre_existing=True), broken(2, -50, pre_existing=True)))
    assert unit.look(0) == [("repair", "broken")]


def test_a_broken_copy_is_not_repaired_while_a_temporary_grows():
    growing = writing(3, -5, changed_s=T0, temporary=True, name=".step-3.pt.tmp")
    unit = desk(copies=(OLD, broken(2, -50), growing))
    assert unit.look(0) == []


def test_a_broken_answer_leaves_a_placed_notice_where_it_is():
    asked, placed = notice(Condition.REQUEST, inode=12), notice(deadline_s=2000)
    unit = desk(notices=(asked, placed))
    assert unit.look(0) == [("save", "risk.request")]
    since_s = unit.cause("notice:file:risk.preempt:11").since_s
    assert unit.look(46, copies=(OLD, broken(2, 5))) == [("repair", "risk.request")]
    assert unit.cause("notice:file:risk.preempt:11").since_s == pytest.approx(since_s)
    assert unit.state("notice:file:risk.preempt:11") == "waiting"
