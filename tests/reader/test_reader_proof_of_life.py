"""A request that a dead governor left is not answered: the beat must move before a request counts."""

from __future__ import annotations


def test_a_request_that_is_there_at_the_first_look_waits_for_the_beat(asker, unit):
    unit.write(7)
    assert [asker.ask() for _ in range(3)] == [False] * 3
    unit.write(7)
    assert [asker.ask() for _ in range(3)] == [True, False, False]


def test_a_job_that_resumes_without_a_governor_never_answers_the_old_request(new_job, unit):
    unit.write(7)
    job = new_job(unit)
    assert not any(job.ask(after_s) for after_s in [0.1, 1, 10, 60, 3600, 86400])


def test_a_new_id_counts_at_once_when_the_beat_was_seen_to_move(asker, unit):
    unit.write(7)
    assert asker.ask() is False
    unit.write(8)
    assert asker.ask() is True


def test_another_governor_is_a_movement_even_with_an_equal_beat(asker, unit):
    unit.write(7, beat=1)
    assert asker.ask() is False
    unit.write(7, beat=1, governor={"id": "host-4712-1764424999", "alive": True})
    assert asker.ask() is True


def test_a_beat_that_goes_back_is_a_movement(asker, unit):
    unit.write(7, beat=1000)
    assert asker.ask() is False
    unit.write(7, beat=1)
    assert asker.ask() is True


def test_a_file_that_appears_while_the_job_runs_is_its_own_proof(asker, unit):
    assert asker.ask() is False
    unit.write(7)
    assert asker.ask() is True


def test_a_file_that_could_not_be_read_at_first_is_no_proof(asker, unit):
    unit.put("state.json", "damaged")
    assert asker.ask() is False
    unit.write(7)
    assert asker.ask() is False
    unit.write(7)
    assert asker.ask() is True


def test_an_old_file_that_comes_back_unchanged_is_no_movement(asker, unit):
    unit.write(7)
    data = unit.state_path.read_bytes()
    assert asker.ask() is False
    unit.state_path.unlink()
    assert asker.ask() is False
    unit.put("state.json", data)
    assert asker.ask() is False


def test_the_same_beat_in_a_new_file_is_no_movement(asker, unit):
    unit.write(7, beat=5)
    assert asker.ask() is False
    unit.write(7, beat=5)
    assert asker.ask() is False


def test_while_nothing_is_proven_neither_a_request_nor_the_own_period_counts(asker, unit):
    unit.write(7, no_us_s=10.0)
    assert asker.ask(after_s=3600.0) is False  # the period is over, but the governor may live
    assert asker.ask(after_s=29.0) is False
    assert asker.ask(after_s=1.0) is True  # six beats: it does not, and the period is over
