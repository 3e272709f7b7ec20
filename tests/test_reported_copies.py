"""What users of other tools have reported of their copies, rebuilt small; each test says what a right governor does.

The numbers are those of the public reports: ``project #number``.
"""

from __future__ import annotations

import os
import shutil
import threading
import time

import pytest
from formats.making import torch_zip
from formats.making_distributed import TWO_RANKS, write_dcp, write_deepspeed
from formats.making_folders import orbax_step, trainer_step
from governed import Governed
from watching import NOW_S, Watched

from ckpt_governor.copies import newest_sound
from ckpt_governor.facts import CopyStatus
from ckpt_governor.observe.copies import CopyScanner
from ckpt_governor.pointers import LAG_S

SOUND, WRITING, BROKEN, UNKNOWN = CopyStatus.SOUND, CopyStatus.WRITING, CopyStatus.BROKEN, CopyStatus.UNKNOWN
BIG = torch_zip({"data.pkl": b"\x80\x02}q\x00.", "data/0": bytes(range(256)) * 400})


@pytest.fixture
def unit(tmp_path):
    return Watched(tmp_path)


@pytest.fixture
def governed(tmp_path):
    """Begins a governor over the unit."""
    begun = []

    def begin(**settings):
        begun.append(Governed(tmp_path, **settings))
        return begun[-1]

    yield begin
    for one in begun:
        one.unit.release()


def statuses(unit, seconds=1):
    return {name: status for name, (status, _) in unit.pass_s(seconds).items()}


def test_a_copy_that_is_still_flushed_is_neither_repaired_nor_the_newest_sound_one(governed):
    """KempnerForge #102: latest was moved while the shards were still on their way."""
    unit = governed()
    write_dcp(unit.path / "step_100", TWO_RANKS)
    unit.pass_s(1)
    unit.drop("risk.preempt")
    assert unit.pass_s(2) == [("save", "risk.preempt")]
    folder = unit.path / "step_200"
    folder.mkdir()
    (unit.path / "latest").symlink_to("step_200")
    for count in range(1, 200):
        for shard, items in TWO_RANKS.items():
            (folder / shard).write_bytes(b"".join(items)[:count])
        assert unit.pass_s(2) == []
        assert unit.statuses() == {"step_100": SOUND, "step_200": WRITING}
    assert unit.newest() == ("step_200", "step_100")
    look = CopyScanner(str(unit.path)).look(NOW_S, 0.0)
    assert {sighting.name: sighting.also for sighting in look.sightings}["step_200"] == ("latest",)
    write_dcp(folder, TWO_RANKS)
    unit.pass_s(1)
    assert (unit.newest(), unit.ack("risk.preempt")) == (("step_200", "step_200"), "served")


def test_a_trainer_s_copy_that_was_killed_is_repaired_and_staleness_counts_from_the_one_before(governed):
    """transformers #35782, #35525: automatic resuming took the newer one, and died."""
    unit = governed(with_us="10m", settle_s=30.0)
    trainer_step(unit.path / "checkpoint-500")
    unit.pass_s(200)
    trainer_step(unit.path / "checkpoint-1000", state=False)
    for name in ("optimizer.pt", "rng_state.pth"):
        (unit.path / "checkpoint-1000" / name).unlink()
    assert unit.pass_s(29) == []
    assert unit.statuses() == {"checkpoint-500": SOUND, "checkpoint-1000": WRITING}
    unit.pass_s(5)
    assert unit.statuses() == {"checkpoint-500": SOUND, "checkpoint-1000": BROKEN}
    assert unit.newest() == ("checkpoint-1000", "checkpoint-500")
    (text,) = unit.texts("repair")
    assert text.startswith("checkpoint-1000 is broken: ")
    assert "; the last sound copy is checkpoint-500" in text
    unit.pass_s(300)
    assert unit.unit.ledger.run.stalest_s >= 530  # and not the 330 since the other one appeared


@pytest.mark.parametrize(
    ("name", "shift_s"),
    [("checkpoint-1000", -7200.0), ("checkpoint-800", 86400.0), ("checkpoint-1000", 86400.0)],
    ids=["the newest set back", "the older one in the future", "the newest in the future"],
)
def test_times_that_a_file_system_fakes_decide_neither_order_nor_age(governed, tmp_path, name, shift_s):
    """transformers #26961: the newest copy was deleted as the oldest."""
    for step in (800, 1000):
        trainer_step(tmp_path / f"checkpoint-{step}")
    for path in (*(tmp_path / name).iterdir(), tmp_path / name):
        os.utime(path, (path.stat().st_mtime + shift_s,) * 2)
    unit = governed(with_us="10m")
    unit.pass_s(1)
    assert unit.newest() == ("checkpoint-1000", "checkpoint-1000")
    assert unit.pass_s(440) == []  # the window counts from the governor's begin: not from two hours ago
    assert ("save", "window") in unit.pass_s(200)  # and not from tomorrow
    trainer_step(tmp_path / "checkpoint-1200")
    for path in (tmp_path / "checkpoint-1200").iterdir():
        os.utime(path, (1000.0, 1000.0))
    assert unit.pass_s(440) == []
    assert unit.newest() == ("checkpoint-1200", "checkpoint-1200")


def test_a_staging_folder_that_is_renamed_all_the_time_is_no_copy_and_stops_no_look(unit):
    """transformers #27925, #28015, #36076: it vanished between two steps of several ranks."""
    staged, final = unit.path / "tmp-checkpoint-49", unit.path / "checkpoint-49"
    trainer_step(staged)
    over = threading.Event()

    def rename():
        here, there = staged, final
        while not over.is_set():
            here.rename(there)
            here, there = there, here

    thread = threading.Thread(target=rename)
    thread.start()
    try:
        for _ in range(2000):
            unit.pass_s(1)
            assert all(copy.status is not BROKEN for copy in unit.copies)
            assert all(copy.temporary for copy in unit.copies if copy.name == "tmp-checkpoint-49")
    finally:
        over.set()
        thread.join()


def test_a_link_to_itself_is_told_once_and_the_real_copies_are_judged(governed):
    """Lightning #21110: last.ckpt pointed to last.ckpt."""
    unit = governed()
    (unit.path / "epoch=3.ckpt").write_bytes(torch_zip())
    (unit.path / "last.ckpt").symlink_to("last.ckpt")
    assert unit.pass_s(60) == [("unknown", "copies")]
    assert unit.texts("unknown") == ["last.ckpt points to last.ckpt, which is not there"]
    assert unit.statuses() == {"epoch=3.ckpt": SOUND}


def test_a_file_of_the_right_size_whose_index_is_zeroed_is_repaired(governed):
    """Lightning #21431: unreadable at once after the save, with nothing to be seen by its size."""
    unit = governed(settle_s=30.0)
    path = unit.path / "epoch=3.ckpt"
    path.write_bytes(BIG)
    unit.pass_s(1)
    assert unit.statuses() == {path.name: SOUND}
    found, at = path.stat(), BIG.rindex(b"PK\1\2")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes(64))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (found.st_size, found.st_mtime_ns)
    assert ("repair", "broken") in unit.pass_s(40)
    assert unit.statuses() == {path.name: BROKEN}
    unit.unit.release()
    after = Governed(unit.path, settle_s=30.0)
    after.pass_s(40)
    assert after.statuses() == {path.name: BROKEN}
    assert after.newest() == (path.name, "")
    after.unit.release()


def test_half_a_file_is_being_written_while_it_grows_and_repaired_once_it_is_quiet(governed):
    """Lightning #688, #19970: a kill in the middle of a write."""
    unit = governed(settle_s=30.0)
    (unit.path / "a.ckpt").write_bytes(BIG)
    unit.pass_s(1)
    for percent in range(2, 61):
        (unit.path / "b.ckpt").write_bytes(BIG[: len(BIG) * percent // 100])
        assert unit.pass_s(1) == []
        assert unit.statuses()["b.ckpt"] is WRITING
    assert unit.pass_s(29) == []
    assert ("repair", "broken") in unit.pass_s(2)
    assert unit.statuses() == {"a.ckpt": SOUND, "b.ckpt": BROKEN}
    assert unit.newest() == ("b.ckpt", "a.ckpt")


def test_steps_may_go_back_after_a_failed_save(governed):
    """maxtext #5260: the failed save stayed in the list, and later, lower steps were refused in silence."""
    unit = governed(settle_s=30.0)
    orbax_step(unit.path / "1800")
    unit.pass_s(1)
    orbax_step(unit.path / "1820")
    for mark in ("commit_success.txt", "_CHECKPOINT_METADATA"):
        (unit.path / "1820" / mark).unlink()
    assert ("repair", "broken") in unit.pass_s(32)
    assert unit.statuses() == {"1800": SOUND, "1820": BROKEN}
    assert unit.newest() == ("1820", "1800")
    for step in (1615, 1620):
        unit.drop(f"risk.request.{step}")
        unit.pass_s(2)
        orbax_step(unit.path / f"{step}")
        unit.pass_s(2)
        assert unit.newest() == (f"{step}", f"{step}")
        assert unit.ack(f"risk.request.{step}") == "served"
    assert len(unit.texts("repair")) == 1


def test_a_copy_whose_tracker_was_never_written_is_sound_and_told_once(governed, tmp_path):
    """verl #7952: resuming began at 0, because the asynchronous save never wrote the tracker."""
    write_deepspeed(tmp_path / "other" / "global_step_90")
    (tmp_path / "other" / "latest_checkpointed_iteration.txt").write_text("90")
    unit = governed(with_us="10m")
    unit.pass_s(1)
    write_deepspeed(tmp_path / "mine" / "global_step_100")
    (tmp_path / "mine" / "global_step_100" / "mp_rank_00_model_states.pt").write_bytes(BIG)
    assert unit.pass_s(int(LAG_S)) == []
    assert unit.pass_s(350) == [("unknown", "copies")]
    assert unit.texts("unknown") == [
        "mine has no latest_checkpointed_iteration.txt, as other has:"
        " a job may not find mine/global_step_100, which is sound"
    ]
    assert unit.newest() == ("mine/global_step_100", "mine/global_step_100")
    assert unit.unit.ledger.run.stalest_s < 420  # it counts from that copy


def test_a_tracker_that_comes_late_is_not_told(governed, tmp_path):
    write_deepspeed(tmp_path / "other" / "global_step_90")
    (tmp_path / "other" / "latest").write_text("global_step_90")
    unit = governed()
    unit.pass_s(1)
    write_deepspeed(tmp_path / "mine" / "global_step_100")
    (tmp_path / "mine" / "global_step_100" / "mp_rank_00_model_states.pt").write_bytes(BIG)
    unit.pass_s(int(LAG_S) - 5)
    (tmp_path / "mine" / "latest").write_text("global_step_100")
    assert unit.pass_s(300) == []


def test_staleness_runs_from_the_governor_s_begin_and_not_from_the_age_of_a_copy(governed, tmp_path):
    """NeMo #14718: every resume saved after one step."""
    write_dcp(tmp_path / "step_100", TWO_RANKS)
    for path in (*(tmp_path / "step_100").iterdir(), tmp_path / "step_100"):
        os.utime(path, (path.stat().st_mtime - 3 * 3600,) * 2)
    unit = governed(with_us="10m")
    unit.pass_s(1)
    assert unit.statuses() == {"step_100": SOUND}
    assert unit.pass_s(440) == []
    assert unit.pass_s(200)[0] == ("save", "window")


def test_a_copy_that_retention_deletes_while_the_next_is_written_breaks_nothing(unit):
    """Most trainers delete the oldest copy after the newest is complete, file by file."""
    for step in (100, 200):
        write_deepspeed(unit.path / f"global_step{step}")
        unit.pass_s(1)
    for file in sorted((unit.path / "global_step100").iterdir()):
        file.unlink()
        assert BROKEN not in statuses(unit).values()
    shutil.rmtree(unit.path / "global_step100")
    assert statuses(unit, 60) == {"global_step200": SOUND}


def test_a_copy_of_another_user_that_may_not_be_read_is_unknown_and_never_broken(unit, monkeypatch):
    """safetensors #782: files came with a mode that only their owner may read."""
    (unit.path / "step_100.safetensors").write_bytes(b"x" * 100)
    real = os.open

    def refused(path, *more, **how):
        if str(path).endswith(".safetensors"):
            raise PermissionError(13, "Permission denied")
        return real(path, *more, **how)

    monkeypatch.setattr(os, "open", refused)
    assert unit.pass_s(60) == {"step_100.safetensors": (CopyStatus.UNKNOWN, "permission denied")}


@pytest.mark.parametrize("lost", ["trainer_state.json", "model.safetensors", "optimizer.pt"])
def test_an_old_copy_that_was_being_deleted_when_the_governor_came_is_no_broken_write(unit, lost):
    """Without a ledger: the folder of the old copy was changed after the newer one was written."""
    for step in (100, 200, 300):
        trainer_step(unit.path / f"checkpoint-{step}")
    time.sleep(0.02)  # more than a step of the volume's clock
    (unit.path / "checkpoint-200" / lost).unlink()
    unit.begin()
    assert unit.pass_s(1)["checkpoint-200"] == (WRITING, "being deleted")
    assert unit.pass_s(31)["checkpoint-200"] == (UNKNOWN, "half deleted")
    assert newest_sound(unit.copies).name == "checkpoint-300"


def test_an_old_copy_whose_write_died_is_broken_also_when_the_governor_comes_later(unit):
    for step in (100, 200, 300):
        trainer_step(unit.path / f"checkpoint-{step}")
        if step == 200:
            (unit.path / "checkpoint-200" / "trainer_state.json").unlink()
            time.sleep(0.02)
    unit.begin()
    assert statuses(unit, 32) == {"checkpoint-100": SOUND, "checkpoint-200": BROKEN, "checkpoint-300": SOUND}


def test_an_old_copy_of_which_one_file_is_cut_is_broken(unit):
    """Who deletes a folder removes files, and cuts none."""
    for step in (100, 200):
        trainer_step(unit.path / f"checkpoint-{step}")
        time.sleep(0.02)
    os.truncate(unit.path / "checkpoint-100" / "model.safetensors", 100)
    unit.begin()
    assert statuses(unit, 32) == {"checkpoint-100": BROKEN, "checkpoint-200": SOUND}


def test_something_that_was_added_to_an_old_whole_copy_is_no_deletion(unit):
    for step in (1, 2):
        (unit.path / f"step_{step}").mkdir()
        (unit.path / f"step_{step}" / "state").write_bytes(BIG if step == 2 else bytes(range(256)) * 400)
        (unit.path / f"step_{step}" / "moved").write_text("notes")
    time.sleep(0.02)
    (unit.path / "step_1" / "moved").rename(unit.path / "step_1" / "note")
    (unit.path / "step_2" / "moved").rename(unit.path / "step_2" / "note")
    unit.begin()
    assert statuses(unit, 12) == {"step_1": SOUND, "step_2": SOUND}
