"""The governor is gone: the job goes on by its own number, or writes nothing when that is none."""

from __future__ import annotations

import itertools
import os
import time

import pytest

import ckpt_reader

HALF_HOUR_S = 1800.0


def remove(unit):
    unit.state_path.unlink()


def stop(unit):
    unit.write(alive=False, no_us_s=HALF_HOUR_S)


def kill(unit):
    """Nothing happens any more."""


gone = pytest.mark.parametrize(
    ("leave", "after_s"),
    [
        pytest.param(stop, 0.1, id="stopped cleanly"),
        pytest.param(remove, 0.1, id="no state.json"),
        pytest.param(kill, 30.0, id="silent for six beats"),
    ],
)


@gone
def test_the_job_saves_once_a_period(asker, unit, leave, after_s):
    asker.prove(no_us_s=HALF_HOUR_S)
    leave(unit)
    assert asker.ask(after_s) is False
    saves = [minute for minute in range(120) if asker.ask(after_s=60.0)]
    assert len(saves) == 4
    assert [later - sooner for sooner, later in itertools.pairwise(saves)] == [30, 30, 30]


@gone
def test_the_job_writes_nothing_when_no_us_is_none(asker, unit, leave, after_s):
    asker.prove()
    unit.numbers("30m")  # what a governor said stands above the file
    leave_quietly = leave if leave is not stop else lambda unit: unit.write(alive=False)
    leave_quietly(unit)
    assert not any(asker.ask(max(after_s, 3600.0)) for _ in range(20))


def test_a_request_that_a_stopped_governor_left_is_not_answered(asker, unit):
    asker.prove()
    unit.write(7, alive=False)
    assert not any(asker.ask(after_s=60.0) for _ in range(20))


def test_a_request_that_a_killed_governor_left_waits_for_the_next_one(asker, unit):
    unit.write(7, no_us_s=100.0)
    answers = [asker.ask(after_s=10.0) for _ in range(20)]
    assert answers.count(True) == 2  # its own period, twice
    unit.write(7, no_us_s=100.0)
    assert asker.ask() is True


def test_a_killed_governor_is_gone_after_six_beats_and_not_before(asker):
    asker.prove(no_us_s=1.0)
    assert [asker.ask(after_s=5.0) for _ in range(5)] == [False] * 5
    assert asker.ask(after_s=4.9) is False
    assert asker.ask(after_s=0.1) is True


def test_the_period_counts_from_the_last_save_of_any_kind(asker, unit):
    asker.prove(no_us_s=HALF_HOUR_S)
    asker.clock.advance(HALF_HOUR_S)
    unit.write(7, no_us_s=HALF_HOUR_S)
    assert asker.ask() is True
    stop(unit)
    assert asker.ask(after_s=HALF_HOUR_S - 1.0) is False
    assert asker.ask(after_s=1.0) is True


def test_the_period_counts_from_the_start_of_the_process(should_save, unit):
    unit.numbers("30m")
    assert should_save(unit.path, after_s=HALF_HOUR_S - 1.0) is False  # its first call, long after the import
    assert should_save(unit.path, after_s=1.0) is True
    assert should_save(unit.path, after_s=HALF_HOUR_S - 1.0) is False
    assert should_save(unit.path, after_s=1.0) is True


def test_the_period_is_kept_to_50_ms(should_save, unit):
    unit.numbers(2)
    saves = [call for call in range(1000) if should_save(unit.path, after_s=0.01)]
    assert len(saves) == 4
    assert all(200 <= later - sooner <= 206 for sooner, later in itertools.pairwise(saves))


def test_an_own_save_leaves_no_word_for_a_governor(asker, unit):
    unit.numbers(10)
    assert asker.ask(after_s=10.0) is True
    assert unit.left() == []


def test_without_any_number_nothing_is_written(should_save, tmp_path):
    assert not any(should_save(tmp_path, after_s=1e6) for _ in range(10))


def test_what_a_dead_governor_said_is_believed_before_the_file(asker, unit):
    unit.numbers("1h")
    unit.write(alive=False, no_us_s=600.0)
    assert asker.ask(after_s=599.0) is False
    assert asker.ask(after_s=1.0) is True


def test_the_number_of_a_state_is_kept_when_the_state_is_gone(asker, unit):
    unit.numbers("1h")
    asker.prove(no_us_s=600.0)
    remove(unit)
    assert asker.ask(after_s=600.0) is True


@pytest.mark.parametrize("number", [-1, 0, "soon", True, [], 1e300])
def test_a_damaged_number_in_the_state_leaves_the_one_before(asker, unit, number):
    asker.prove(no_us_s=600.0)
    unit.write(alive=False, no_us_s=number)
    assert asker.ask(after_s=500.0) is False
    assert asker.ask(after_s=100.0) is True


@pytest.mark.parametrize(
    ("no_us", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("1h30m", 5400),
        ("4h", 14400),
        ("2d", 172800),
        ("2d1h1m1s", 176461),
        ("1.5h", 5400),
        ("1800", 1800),
        (1800, 1800),
        (2.5, 2.5),
        ("3650d", 3650 * 86400),
        (1, 1),
    ],
)
def test_numbers_json_gives_the_period(asker, unit, no_us, seconds):
    unit.numbers(no_us)
    assert asker.ask(after_s=seconds - 0.25) is False
    assert asker.ask(after_s=0.25) is True


@pytest.mark.parametrize(
    "no_us",
    [
        "none",
        None,
        "auto",
        "",
        "0",
        "0s",
        "0.9s",
        "soon",
        "30 minutes",
        "h",
        "m30",
        "30m1h",
        "1h1h",
        "1.2.3s",
        "-5m",
        "²s",
        "inf",
        "nan",
        0,
        -1,
        0.5,
        True,
        float("nan"),
        float("inf"),
        10**30,
        pytest.param(10**400, id="10**400"),
        "3651d",
        [],
        {},
        ["30m"],
    ],
    ids=repr,
)
def test_anything_else_in_numbers_json_reads_as_none(asker, unit, no_us):
    unit.numbers(no_us)
    assert asker.ask(after_s=1e12) is False


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"null", b"3", b'"30m"', b"{}", b"\xff\xfe\x00"),
        pytest.param(b"[" * 60000, id="deep lists"),
        pytest.param(b'{"no_us": "30m", "padding": "%s"}' % (b"x" * 66000), id="huge"),
    ],
)
def test_a_damaged_numbers_json_reads_as_none(asker, unit, data):
    unit.put("numbers.json", data)
    assert asker.ask(after_s=1e12) is False


def test_the_governor_comes_back(asker, unit):
    asker.prove(no_us_s=60.0)
    assert asker.ask(after_s=100.0) is True  # gone: its own period
    unit.write(7, no_us_s=60.0, governor={"id": "host-9-1764429999", "alive": True})
    assert asker.ask() is True  # back, with a request
    for _ in range(100):
        unit.write(no_us_s=60.0)
        assert asker.ask(after_s=20.0) is False  # the period has stopped
    unit.write(8, no_us_s=60.0)
    assert asker.ask() is True


def test_a_restarted_governor_s_open_request_is_answered_once(asker, unit):
    asker.prove()
    unit.write(7)
    assert asker.ask() is True
    assert asker.ask(after_s=1000.0) is False
    unit.write(7, governor={"id": "host-9-1764429999", "alive": True})
    assert asker.ask() is False
    unit.write(8)
    assert asker.ask() is True


def test_a_job_that_did_not_look_for_an_hour_finds_its_governor_alive(asker, unit):
    asker.prove(no_us_s=60.0)
    for _ in range(3):
        unit.write(no_us_s=60.0)
        assert asker.ask(after_s=3600.0) is False
    unit.write(7, no_us_s=60.0)
    assert asker.ask(after_s=3600.0) is True


def test_a_job_that_did_not_look_for_an_hour_finds_its_governor_gone(asker):
    asker.prove(no_us_s=60.0)
    assert asker.ask(after_s=3600.0) is True


def test_a_slow_volume_does_not_make_the_governor_look_dead(asker, monkeypatch):
    asker.prove(no_us_s=1.0)
    read = ckpt_reader._read

    def slow(path):
        data = read(path)
        asker.clock.advance(60.0)  # the answer is as old as the question
        return data

    monkeypatch.setattr(ckpt_reader, "_read", slow)
    assert asker.ask() is False


@pytest.mark.parametrize("wall_s", [0, 1, 1e9, 4e9, 1e18, -1e9, float("nan"), float("inf"), "noon", None])
def test_no_clock_but_the_reader_s_own_is_asked(asker, unit, wall_s):
    asker.prove(no_us_s=60.0, written_at=wall_s)
    unit.write(7, no_us_s=60.0, written_at=wall_s)
    os.utime(unit.state_path, (0, 4e9))
    assert asker.ask() is True
    assert [asker.ask(after_s=5.0) for _ in range(5)] == [False] * 5
    assert asker.ask(after_s=35.0) is True


def test_the_wall_clock_may_jump(asker, unit, monkeypatch):
    asker.prove(no_us_s=60.0)
    for jump_s in (1e6, -1e6):
        now = time.time() + jump_s
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert asker.ask(after_s=1.0) is False
    unit.write(7, no_us_s=60.0)
    assert asker.ask() is True


@pytest.mark.parametrize(
    ("beat_every_s", "gone_after_s"),
    [
        (5, 30.0),
        (0.5, 3.0),
        (60.0, 360.0),
        (0, 30.0),
        (-5.0, 30.0),
        (float("nan"), 30.0),
        (float("inf"), 30.0),
        (1e300, 3600.0),
        pytest.param(10**400, 3600.0, id="10**400"),
        (1e-300, 0.3125),
        ("5", 30.0),
        (None, 30.0),
        (True, 30.0),
        ([5], 30.0),
        ({}, 30.0),
    ],
)
def test_a_hostile_beat_every_s_breaks_nothing(asker, unit, beat_every_s, gone_after_s):
    asker.prove(no_us_s=1.0, beat_every_s=beat_every_s)
    unit.write(7, no_us_s=1.0, beat_every_s=beat_every_s)
    assert asker.ask() is True
    asker.reader.saved_at -= 1.0  # so that only the beat decides
    assert asker.ask(after_s=gone_after_s - 0.125) is False
    assert asker.ask(after_s=0.125) is True


def test_a_file_that_stays_damaged_is_gone_after_six_beats(asker, unit):
    asker.prove(no_us_s=10.0)
    unit.put("state.json", "damaged")
    assert [asker.ask(after_s=5.0) for _ in range(5)] == [False] * 5
    assert asker.ask(after_s=5.0) is True
