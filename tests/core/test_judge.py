"""The value of each condition: 1, 0 or unknown, with its reason and its source."""

from __future__ import annotations

import pytest
from attrs import evolve
from core.build import GB, T0, Desk, broken, copy, knowing, notice, reading, writing

from ckpt_governor.conditions import Condition
from ckpt_governor.copies import LEFTOVER
from ckpt_governor.estimate import costs
from ckpt_governor.facts import CopyStatus, Job, Reading, Trouble, Volume
from ckpt_governor.judge import conditions, copies_that_matter, levels
from ckpt_governor.ledger import Edge
from ckpt_governor.numbers import Numbers

GIB = 1 << 30


def values(desk: Desk) -> dict[Condition, Reading]:
    """All conditions at the desk's last look."""
    world = desk.world(desk.now_s)
    told = conditions(world, desk.numbers, desk.ledger, costs(world, desk.numbers, desk.ledger))
    assert [value.condition for value in told] == list(Condition)
    return {value.condition: value for value in told}


def value(condition: Condition, ledger=None, numbers=None, at_s: float = 1, **facts: object) -> Reading:
    """One condition after one look."""
    desk = Desk(ledger, numbers, **facts)
    desk.look(at_s)
    return values(desk)[condition]


def test_nothing_is_known_where_nothing_was_identified():
    told = values(Desk())
    zero = {Condition.TERMINATE, Condition.REQUEST, Condition.SPACE}
    assert {condition for condition, one in told.items() if one.value is False} == zero
    assert {condition for condition, one in told.items() if one.value is None} == set(Condition) - zero
    assert all(one.why and one.source for one in told.values())


@pytest.mark.parametrize("condition", list(Condition), ids=lambda condition: condition.value)
def test_each_can_be_set_through_glue(condition):
    told = value(condition, notices=(notice(condition, seen_s=0, text="told", deadline_s=5000),))
    assert (told.value, told.why, told.source) == (True, "told", "glue")
    assert (told.read_s, told.deadline_s) == (T0, T0 + 5000)


@pytest.mark.parametrize("condition", list(Condition), ids=lambda condition: condition.value)
def test_glue_that_is_damaged_makes_it_unknown(condition):
    damage = Trouble(key="k", reason=condition.value, text="glue/x: not JSON", condition=condition)
    seen = (reading(condition, False),)
    told = value(condition, troubles=(damage,), readings=seen)
    assert (told.value, told.why) == (None, "glue/x: not JSON")


def test_an_announcement_outweighs_damage_beside_it():
    damage = Trouble(key="k", reason="risk.preempt", text="not JSON", condition=Condition.PREEMPT)
    assert value(Condition.PREEMPT, troubles=(damage,), notices=(notice(),)).value is True


@pytest.mark.parametrize("told", [True, False, None])
def test_a_source_that_was_identified_is_believed(told):
    assert value(Condition.THERMAL, readings=(reading(Condition.THERMAL, told),)).value is told


def test_a_notice_that_is_gone_is_no_condition_any_more():
    desk = Desk(notices=(notice(),))
    desk.look(1)
    desk.look(2, notices=())
    assert values(desk)[Condition.PREEMPT].value is None


def test_a_served_notice_stays_while_its_file_is_there():
    desk = Desk(copies=(copy(1, -900),), notices=(notice(),))
    desk.look(1)
    desk.look(60, copies=(copy(1, -900), copy(2, 5)))
    assert desk.state("notice:file:risk.preempt:11") == "served"
    assert values(desk)[Condition.PREEMPT].value is True


def test_a_request_counts_only_while_it_is_open():
    desk = Desk(copies=(copy(1, -900),), notices=(notice(Condition.REQUEST),))
    desk.look(1)
    assert values(desk)[Condition.REQUEST].value is True
    desk.look(60, copies=(copy(1, -900), copy(2, 5)))
    assert values(desk)[Condition.REQUEST].value is False


def test_the_newest_announcement_is_the_one_that_is_told():
    first, second = notice(text="first"), notice(name="risk.preempt.b", inode=12, text="second", seen_s=1)
    desk = Desk(notices=(first,))
    desk.look(1)
    desk.look(2, notices=(first, second))
    assert values(desk)[Condition.PREEMPT].why == "second"


# ---- walltime


@pytest.mark.parametrize(
    ("numbers", "job", "source"),
    [
        pytest.param(Numbers(duration_s=3600 + 9000.0), Job(), "duration", id="duration"),
        pytest.param(Numbers(), Job(ends_s=T0 + 9000), "job.json", id="job.json"),
    ],
)
def test_an_end_that_is_known_and_far_is_zero(numbers, job, source):
    told = value(Condition.WALLTIME, numbers=numbers, job=job)
    assert (told.value, told.source) == (False, source)


@pytest.mark.parametrize(
    ("numbers", "job", "source"),
    [
        pytest.param(Numbers(duration_s=3600 + 300.0), Job(), "duration", id="duration"),
        pytest.param(Numbers(), Job(ends_s=T0 + 300), "job.json", id="job.json"),
    ],
)
def test_an_end_inside_the_look_ahead_is_one(numbers, job, source):
    told = value(Condition.WALLTIME, numbers=numbers, job=job)
    assert (told.value, told.source, told.deadline_s) == (True, source, T0 + 300)


def test_an_end_that_has_passed_is_not_said_to_be_far():
    desk = Desk(numbers=Numbers(duration_s=3600 + 100.0), copies=(copy(1, -900),))
    desk.until(150)
    assert values(desk)[Condition.WALLTIME].value is True


# ---- space


@pytest.mark.parametrize(
    ("copies_free", "latched", "low"),
    [
        pytest.param(2.6, False, False, id="above 2.5"),
        pytest.param(2.4, False, True, id="below 2.5"),
        pytest.param(2.6, True, True, id="not yet above 3"),
        pytest.param(3.1, True, False, id="above 3 again"),
    ],
)
def test_space_is_low_below_two_and_a_half_copies(copies_free, latched, low):
    edges = {"risk.space": Edge(since_s=T0 - 50, written_s=T0 - 50)} if latched else {}
    volume = Volume(free_bytes=int(copies_free * 14 * GB) + GIB, total_bytes=2000 * GB)
    desk = Desk(evolve(knowing(), edges=edges), volume=volume)
    world = desk.world(1)
    cost = costs(world, desk.numbers, desk.ledger)
    told = next(
        one for one in levels(world, desk.numbers, desk.ledger, cost) if one.condition is Condition.SPACE
    )
    assert (told.value, told.source) == (low, "statvfs")
    assert "14.0 GB" in told.why


@pytest.mark.parametrize(
    ("ledger", "volume"),
    [
        pytest.param(knowing(), None, id="no free space"),
        pytest.param(knowing(bytes=None), Volume(free_bytes=0, total_bytes=10), id="no size"),
    ],
)
def test_space_is_unknown_where_it_cannot_be_told(ledger, volume):
    assert value(Condition.SPACE, ledger, volume=volume).value is None


# ---- flap


@pytest.mark.parametrize(
    ("starts_s", "restarts", "flaps"),
    [
        pytest.param((), None, None, id="nothing known"),
        pytest.param((-100,), None, False, id="one start"),
        pytest.param((-200, -100), None, False, id="two starts"),
        pytest.param((-300, -200, -100), None, True, id="three starts"),
        pytest.param((-30000, -200, -100), None, False, id="one of them over six hours ago"),
        pytest.param((), 1, False, id="one restart"),
        pytest.param((), 2, True, id="two restarts"),
        pytest.param((-100,), 2, True, id="two restarts that the job tells"),
    ],
)
def test_three_starts_in_six_hours_are_a_flap(starts_s, restarts, flaps):
    ledger = evolve(knowing(), starts_s=tuple(T0 + start_s for start_s in starts_s))
    assert value(Condition.FLAP, ledger, job=Job(restarts=restarts)).value is flaps


# ---- which copies matter


def serials(copies) -> list[int]:
    """The serials of the copies that matter."""
    return [one.serial for one in copies_that_matter(tuple(copies))]


def test_the_newest_dozen_copies_matter():
    assert serials(copy(n, n) for n in range(1, 21)) == list(range(9, 21))


def test_the_newest_sound_copy_matters_however_old():
    assert serials([copy(1, 0), *(broken(n, n) for n in range(2, 30))])[:2] == [1, 18]


def test_a_write_in_progress_matters_however_old():
    assert serials([writing(1, 0), *(copy(n, n) for n in range(2, 30))])[:2] == [1, 18]


def test_leftovers_are_no_copies():
    left = copy(2, 5, CopyStatus.UNKNOWN, temporary=True, why=LEFTOVER)
    assert serials([copy(1, 0), left, copy(3, 9)]) == [1, 3]


def test_the_order_stays_oldest_first():
    mixed = [copy(1, 0), writing(2, 1), *(broken(n, n) for n in range(3, 40))]
    assert serials(mixed) == sorted(serials(mixed))
