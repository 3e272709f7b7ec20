"""What hosts show becomes 1, 0 or unknown: one row a case; onsets, clearings and restarts by whole decisions."""

from __future__ import annotations

import pytest
from attrs import evolve
from core.build import GB, T0, Desk, copy, knowing

from ckpt_governor.conditions import Condition
from ckpt_governor.estimate import costs
from ckpt_governor.facts import AllottedEnd, Job, Notice, Reading, Report
from ckpt_governor.judge import conditions
from ckpt_governor.ledger import Edge
from ckpt_governor.memory import encode_ledger, parse_ledger
from ckpt_governor.signs import Count, Heat, Memory, Node, Part, Sensor, Storage

MIB = 1 << 20
OLD_COPY = (copy(1, -900),)


def report(at_s: float, source: str = "host", **says: object) -> Report:
    """What a source read then, in seconds after T0."""
    return Report(source=source, read_s=T0 + at_s, **says)  # type: ignore[arg-type]


def memory(share: float, **more: object) -> dict[str, Memory]:
    """A job that uses this share of its 100 GB."""
    return {"memory": Memory(used_bytes=int(share * 100 * GB), limit_bytes=100 * GB, **more)}  # type: ignore[arg-type]


def node(**free: object) -> dict[str, Node]:
    """A node of 64 GiB with room everywhere but where it is told."""
    room = {
        "memory_available_bytes": 30 << 30,
        "memory_total_bytes": 64 << 30,
        "disk_free_share": 0.5,
        "inodes_free_share": 0.5,
    }
    return {"node": Node(**{**room, **free})}  # type: ignore[arg-type]


def heat(current_c: float) -> dict[str, Heat]:
    """One sensor with its critical temperature at 100 degrees."""
    return {"heat": Heat(sensors=(Sensor(name="cpu", current_c=current_c, critical_c=100.0),))}


def counts(
    value: int, *, per_hour_max: float = 0.0, condition: Condition = Condition.HARDWARE
) -> dict[str, object]:
    """One counter of errors."""
    count = Count(
        name="ue", condition=condition, value=value, per_hour_max=per_hour_max, text="memory errors"
    )
    return {"counts": (count,)}


def parts(*silent_s: float) -> dict[str, object]:
    """Ranks that have been silent for so long."""
    return {"parts": tuple(Part(name=f"rank {n}", silent_s=each) for n, each in enumerate(silent_s))}


def shown(desk: Desk, condition: Condition) -> Reading:
    """The condition as it is shown at the desk's last look."""
    world = desk.world(desk.now_s)
    cost = costs(world, desk.numbers, desk.ledger)
    return next(
        one for one in conditions(world, desk.numbers, desk.ledger, cost) if one.condition is condition
    )


def play(*says: tuple[float, dict[str, object]], condition: Condition, latched: bool = False) -> bool | None:
    """Several reports in a row; what holds after the last, before any latch is considered."""
    edges = {condition.value: Edge(since_s=T0 - 50, written_s=T0 - 50)} if latched else {}
    desk = Desk(evolve(knowing(), edges=edges), copies=OLD_COPY)
    for at_s, what in says:
        desk.look(at_s, reports=(report(at_s, **what),))
    if latched:  # the latch itself is the intake's affair: what matters is whether it began to open
        return desk.ledger.edges[condition.value].off_since_s is None
    return shown(desk, condition).value


M, E, S, D = Condition.MEMORY, Condition.EVICT, Condition.STORAGE, Condition.DEVICE
T, H, P = Condition.THERMAL, Condition.HARDWARE, Condition.PEER


@pytest.mark.parametrize(
    ("condition", "says", "value"),
    [
        pytest.param(M, [(1, memory(0.5))], False, id="memory: half"),
        pytest.param(M, [(1, memory(0.919))], False, id="memory: just below 92 %"),
        pytest.param(M, [(1, memory(0.92))], True, id="memory: 92 %"),
        pytest.param(
            M, [(n * 10, memory(0.4 + n * 0.02)) for n in range(5)], False, id="memory: full in 260 s"
        ),
        pytest.param(
            M, [(n * 10, memory(0.4 + n * 0.05)) for n in range(7)], True, id="memory: full in 60 s"
        ),
        pytest.param(M, [(n * 10, memory(0.6 - n * 0.05)) for n in range(7)], False, id="memory: falling"),
        pytest.param(
            M,
            [
                (1, memory(0.8, limit_hits=3, full_avg10=20.0)),
                (2, memory(0.8, limit_hits=3, full_avg10=20.0)),
            ],
            False,
            id="memory: hits from before are a baseline",
        ),
        pytest.param(
            M,
            [
                (1, memory(0.8, limit_hits=3, full_avg10=20.0)),
                (2, memory(0.8, limit_hits=4, full_avg10=20.0)),
            ],
            True,
            id="memory: hits rise under pressure",
        ),
        pytest.param(
            M,
            [(1, memory(0.8, limit_hits=3, full_avg10=2.0)), (2, memory(0.8, limit_hits=4, full_avg10=2.0))],
            False,
            id="memory: hits rise without pressure",
        ),
        pytest.param(M, [(1, {"covers": (M,), "failed": "no cgroup"})], None, id="memory: unreadable"),
        pytest.param(E, [(1, node())], False, id="evict: room"),
        pytest.param(E, [(1, node(evicts=False, disk_free_share=0.01))], False, id="evict: no kubelet"),
        pytest.param(E, [(1, node(disk_free_share=0.11))], False, id="evict: low for a moment"),
        pytest.param(
            E, [(n, node(disk_free_share=0.11)) for n in (1, 11, 21)], True, id="evict: disk low for 20 s"
        ),
        pytest.param(
            E, [(n, node(inodes_free_share=0.06)) for n in (1, 21)], True, id="evict: inodes low for 20 s"
        ),
        pytest.param(
            E,
            [(n, node(memory_available_bytes=200 * MIB)) for n in (1, 21)],
            True,
            id="evict: memory low for 20 s",
        ),
        pytest.param(
            E,
            [(1, node(disk_free_share=0.11)), (11, node()), (21, node(disk_free_share=0.11))],
            False,
            id="evict: it was not low all the time",
        ),
        pytest.param(E, [(1, {"node": Node()})], None, id="evict: nothing can be read"),
        pytest.param(
            S, [(1, {"storage": Storage(read_only=False, canary_s=0.01)})], False, id="storage: well"
        ),
        pytest.param(S, [(1, {"storage": Storage(read_only=True)})], True, id="storage: read-only"),
        pytest.param(S, [(1, {"storage": Storage(error="ESTALE")})], True, id="storage: stale handle"),
        pytest.param(
            S,
            [(n * 30, {"storage": Storage(canary_s=0.1 if n < 6 else 1.1)}) for n in range(8)],
            True,
            id="storage: ten times slower, twice",
        ),
        pytest.param(
            S,
            [(n * 30, {"storage": Storage(canary_s=0.1 if n != 6 else 1.1)}) for n in range(7)],
            False,
            id="storage: slow once",
        ),
        pytest.param(
            S,
            [(n * 30, {"storage": Storage(canary_s=0.001 if n < 6 else 0.1)}) for n in range(8)],
            False,
            id="storage: a hundred times slower, but quick",
        ),
        pytest.param(S, [(1, {"storage": Storage()})], None, id="storage: nothing can be read"),
        pytest.param(H, [(1, counts(7))], False, id="hardware: the first reading is the baseline"),
        pytest.param(H, [(1, counts(7)), (2, counts(8))], True, id="hardware: it rises"),
        pytest.param(H, [(1, counts(7)), (2, counts(0))], False, id="hardware: a reboot"),
        pytest.param(H, [(1, counts(7)), (2, counts(8)), (310, counts(8))], False, id="hardware: flat since"),
        pytest.param(
            H,
            [(1, counts(0, per_hour_max=100)), (1800, counts(100, per_hour_max=100))],
            False,
            id="hardware: a hundred in half an hour",
        ),
        pytest.param(
            H,
            [(1, counts(0, per_hour_max=100)), (1800, counts(101, per_hour_max=100))],
            True,
            id="hardware: over a hundred in half an hour",
        ),
        pytest.param(
            H,
            [(n * 1900, counts(n * 60, per_hour_max=100)) for n in range(6)],
            False,
            id="hardware: sixty in each half hour... and each hour begins anew",
        ),
        pytest.param(
            D, [(1, counts(0, condition=D)), (2, counts(1, condition=D))], True, id="device: it rises"
        ),
        pytest.param(D, [(1, counts(1, condition=D))], False, id="device: baseline"),
        pytest.param(D, [(1, {"covers": (D,), "failed": "no device"})], None, id="device: none"),
        pytest.param(T, [(1, heat(60))], False, id="thermal: cool"),
        pytest.param(T, [(1, heat(97))], False, id="thermal: hot for a moment"),
        pytest.param(T, [(1, heat(97)), (61, heat(97))], True, id="thermal: hot for 60 s"),
        pytest.param(T, [(1, heat(96)), (61, heat(96))], False, id="thermal: four degrees below"),
        pytest.param(
            T,
            [(n, {"heat": Heat(slowed=True, why="power brake")}) for n in (1, 61)],
            True,
            id="thermal: the hardware slows itself down",
        ),
        pytest.param(T, [(1, {"heat": Heat()})], None, id="thermal: no sensor"),
        pytest.param(P, [(1, parts(1, 2, 3))], False, id="peer: all fresh"),
        pytest.param(P, [(1, parts(1, 61, 3))], True, id="peer: one is silent"),
        pytest.param(P, [(1, parts(61, 62))], None, id="peer: all are silent"),
        pytest.param(P, [(1, parts(1))], False, id="peer: one alone is fresh"),
    ],
)
def test_what_a_host_shows_is_judged(condition, says, value):
    assert play(*says, condition=condition) is value


@pytest.mark.parametrize(
    ("condition", "says", "holds"),
    [
        pytest.param(M, [(1, memory(0.86))], True, id="memory: above 85 %"),
        pytest.param(M, [(1, memory(0.84))], False, id="memory: below 85 %"),
        pytest.param(M, [(1, memory(0.84, full_avg10=6.0))], True, id="memory: pressure stays"),
        pytest.param(E, [(1, node(disk_free_share=0.14))], True, id="evict: disk below 15 %"),
        pytest.param(E, [(1, node(disk_free_share=0.16))], False, id="evict: disk above 15 %"),
        pytest.param(T, [(1, heat(93))], True, id="thermal: seven degrees below"),
        pytest.param(T, [(1, heat(91))], False, id="thermal: nine degrees below"),
        pytest.param(
            S,
            [(n, {"storage": Storage(canary_s=0.01)}) for n in (1, 2)],
            True,
            id="storage: two good canaries",
        ),
        pytest.param(
            S, [(n, {"storage": Storage(canary_s=0.01)}) for n in (1, 2, 3)], False, id="storage: three"
        ),
        pytest.param(M, [(1, {"covers": (M,), "failed": "gone"})], True, id="memory: unknown clears nothing"),
    ],
)
def test_what_holds_is_judged_by_its_exit(condition, says, holds):
    assert play(*says, condition=condition, latched=True) is holds


EDGES = {
    M: (memory(0.95), memory(0.5)),
    S: ({"storage": Storage(error="EIO")}, {"storage": Storage(canary_s=0.01)}),
    P: (parts(1, 90), parts(1, 2)),
}


@pytest.mark.parametrize("condition", list(EDGES), ids=lambda condition: condition.value)
def test_an_onset_is_one_write_and_clears_after_300_s(condition):
    bad, good = EDGES[condition]
    desk = Desk(copies=OLD_COPY)
    assert desk.look(0, reports=(report(0, **good),)) == []
    assert desk.look(10, reports=(report(10, **bad),)) == [("save", condition.value)]
    desk.look(60, copies=(*OLD_COPY, copy(2, 15)), reports=(report(60, **bad),))
    assert desk.request is None
    for at_s in range(90, 390, 30):
        assert desk.look(at_s, reports=(report(at_s, **good),)) == []
    assert shown(desk, condition).value is True
    for at_s in range(390, 600, 30):
        desk.look(at_s, reports=(report(at_s, **good),))
    assert shown(desk, condition).value is False


@pytest.mark.parametrize("condition", list(EDGES), ids=lambda condition: condition.value)
def test_a_restart_in_the_middle_repeats_nothing(condition):
    bad, _ = EDGES[condition]
    desk = Desk(copies=OLD_COPY, reports=(report(0, **bad),))
    assert desk.look(1) == [("save", condition.value)]
    desk.look(50, copies=(*OLD_COPY, copy(2, 5)), reports=(report(50, **bad),))
    desk.ledger = parse_ledger(encode_ledger(desk.ledger))
    assert desk.look(60, reports=(report(60, **bad),)) == []
    assert shown(desk, condition).value is True


def test_a_counter_keeps_its_baseline_over_a_restart():
    desk = Desk(copies=OLD_COPY, reports=(report(0, **counts(7)),))
    desk.look(1)
    desk.ledger = parse_ledger(encode_ledger(desk.ledger))
    assert desk.look(30, reports=(report(30, **counts(8)),)) == [("save", "risk.hardware")]


def test_what_the_job_tells_of_its_memory_comes_before_the_host():
    told = Memory(used_bytes=99, limit_bytes=100, source="job.json")
    desk = Desk(copies=OLD_COPY, job=Job(memory=told), reports=(report(1, **memory(0.1)),))
    desk.look(1)
    assert (shown(desk, M).value, shown(desk, M).source) == (True, "job.json")


def test_a_report_that_is_too_old_is_unknown_and_says_for_how_long():
    desk = Desk(copies=OLD_COPY, reports=(report(0, covers=(T,), **heat(50)),))
    desk.look(31)
    assert shown(desk, T).value is None
    assert "has not answered for 31s" in shown(desk, T).why


# ---- announcements of sources


def spot(source: str = "aws", deadline_s: float = 120, name: str = "spot") -> Notice:
    """A machine that is taken away."""
    return Notice(
        identity=f"{source}:{name}",
        condition=Condition.PREEMPT,
        seen_s=T0,
        deadline_s=T0 + deadline_s,
        source=source,
    )


def quiet_report(at_s: float, source: str = "aws") -> Report:
    """A platform that was identified and announces nothing."""
    none = Reading(
        condition=Condition.PREEMPT, value=False, why="nothing announced", source=source, read_s=T0 + at_s
    )
    return report(at_s, source, covers=(Condition.PREEMPT,), readings=(none,))


def telling(at_s: float, *notices: Notice, source: str = "aws") -> Report:
    """A platform that announces."""
    return report(at_s, source, covers=(Condition.PREEMPT,), notices=notices)


def blind(at_s: float, source: str = "aws") -> Report:
    """A platform that does not answer."""
    return report(at_s, source, covers=(Condition.PREEMPT,), failed="no answer in 1s")


def saves(desk: Desk) -> int:
    """How many writes were asked for so far."""
    return len(desk.told("save"))


def test_a_platform_that_announces_nothing_is_zero_and_one_that_fails_is_unknown():
    desk = Desk(copies=OLD_COPY, reports=(quiet_report(0),))
    desk.look(1)
    assert shown(desk, Condition.PREEMPT).value is False
    desk.look(2, reports=(blind(2),))
    assert (shown(desk, Condition.PREEMPT).value, shown(desk, Condition.PREEMPT).why) == (
        None,
        "no answer in 1s",
    )


def test_fifty_polls_of_three_sources_within_five_seconds_are_one_write():
    desk = Desk(copies=OLD_COPY)
    for poll in range(50):
        seen = (
            telling(poll, spot("aws", 120)),
            telling(poll, spot("slurm", 123), source="slurm"),
            telling(poll, spot("kubernetes", 118), source="kubernetes"),
        )
        desk.look(poll, reports=seen)
    desk.until(115)
    assert saves(desk) == 1


def test_a_notice_withdrawn_before_it_is_served_is_no_write():
    desk = Desk(copies=OLD_COPY, reports=(telling(0, spot()),))
    desk.look(1)
    assert desk.request is None, "it is placed for later: 120 s are left"
    desk.look(10, reports=(quiet_report(10),))
    desk.until(125, every_s=5, reports=(quiet_report(60),))
    assert saves(desk) == 0


def test_a_source_that_falls_silent_withdraws_nothing():
    desk = Desk(copies=OLD_COPY, reports=(telling(0, spot()),))
    desk.look(1)
    desk.until(70, reports=(blind(5),))
    assert saves(desk) == 1
    assert shown(desk, Condition.PREEMPT).value is True


def test_an_undated_announcement_ends_a_fixed_time_after_it_was_first_seen():
    preempted = evolve(spot("gcp"), deadline_s=None, within_s=200.0)
    desk = Desk(copies=OLD_COPY, reports=(telling(0, preempted, source="gcp"),))
    desk.look(0)
    desk.ledger = parse_ledger(encode_ledger(desk.ledger))
    later = evolve(preempted, seen_s=T0 + 20)  # a governor that was started again sees it for its first time
    desk.look(20, reports=(telling(20, later, source="gcp"),))
    assert desk.cause("notice:gcp:spot").deadline_s == T0 + 200


@pytest.mark.parametrize(
    ("hours", "causes"),
    [pytest.param(25, 0, id="in 25 hours"), pytest.param(23, 1, id="in 23 hours")],
)
def test_a_maintenance_counts_from_a_day_before(hours, causes):
    stop = evolve(spot(deadline_s=hours * 3600), condition=Condition.MAINTENANCE)
    desk = Desk(copies=OLD_COPY, reports=(telling(0, stop),))
    desk.look(1)
    assert len(desk.ledger.causes) == causes
    assert saves(desk) == 0


def test_an_end_that_is_moved_away_after_its_write_is_served_again_near_the_new_end():
    def ends(at_s: float, end_s: float) -> Report:
        end = AllottedEnd(identity="slurm:1.0:end", source="slurm", end_s=T0 + end_s)
        return report(at_s, "slurm", ends=(end,))

    desk = Desk(copies=OLD_COPY, reports=(ends(0, 200),))
    desk.until(150, reports=(ends(100, 200),))
    assert saves(desk) == 1
    desk.look(190, copies=(*OLD_COPY, copy(2, 145)), reports=(ends(190, 5000),))
    assert desk.request is None
    desk.until(4900, every_s=20, reports=(ends(4900, 5000),))
    desk.until(4950, reports=(ends(4950, 5000),))
    assert saves(desk) == 2


def test_an_announcement_that_did_not_come_true_counts_no_more():
    desk = Desk(copies=OLD_COPY, reports=(telling(0, spot(deadline_s=100)),))
    desk.until(60)
    desk.look(95, copies=(*OLD_COPY, copy(2, 55)), reports=(telling(95, spot(deadline_s=100)),))
    assert shown(desk, Condition.PREEMPT).value is True
    stale = evolve(quiet_report(170), notices=(spot(deadline_s=100),))
    desk.look(170, reports=(stale,))
    assert shown(desk, Condition.PREEMPT).value is False


def test_restarts_that_the_batch_system_counts_are_a_flap():
    desk = Desk(copies=OLD_COPY, reports=(report(0, "slurm", restarts=2),))
    desk.look(1)
    assert (shown(desk, Condition.FLAP).value, shown(desk, Condition.FLAP).source) == (True, "slurm")
