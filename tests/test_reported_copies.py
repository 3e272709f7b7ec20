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
from watching import Watched

from ckpt_governor.copies import newest, newest_sound
from ckpt_governor.facts import CopyStatus

SOUND, WRITING, BROKEN, UNKNOWN = CopyStatus.SOUND, CopyStatus.WRITING, CopyStatus.BROKEN, CopyStatus.UNKNOWN
BIG = torch_zip({"data.pkl": b"\x80\x02}q\x00.", "data/0": bytes(range(256)) * 400})


@pytest.fixture
def unit(tmp_path):
    return Watched(tmp_path)


def statuses(unit, seconds=1):
    return {name: status for name, (status, _) in unit.pass_s(seconds).items()}


def test_a_pointer_to_a_copy_that_is_still_flushed_makes_neither_sound_nor_broken(unit):
    """KempnerForge #102: latest was moved while the shards were still on their way."""
    write_dcp(unit.path / "step_100", TWO_RANKS)
    unit.pass_s(1)
    folder = unit.path / "step_200"
    folder.mkdir()
    (unit.path / "latest").symlink_to("step_200")
    for count in range(1, 60):
        for shard, items in TWO_RANKS.items():
            (folder / shard).write_bytes(b"".join(items)[: 5 * count])
        assert statuses(unit) == {"step_100": SOUND, "step_200": WRITING}
    assert newest_sound(unit.copies).name == "step_100"
    write_dcp(folder, TWO_RANKS)
    assert statuses(unit)["step_200"] is SOUND


def test_a_trainer_s_copy_that_was_killed_is_broken_and_the_one_before_is_the_newest_sound_one(unit):
    """transformers #35782, #35525: automatic resuming took the newer one, and died."""
    trainer_step(unit.path / "checkpoint-500")
    unit.pass_s(1)
    trainer_step(unit.path / "checkpoint-1000", state=False)
    for name in ("optimizer.pt", "rng_state.pth"):
        (unit.path / "checkpoint-1000" / name).unlink()
    assert statuses(unit) == {"checkpoint-500": SOUND, "checkpoint-1000": WRITING}
    assert statuses(unit, 31) == {"checkpoint-500": SOUND, "checkpoint-1000": BROKEN}
    assert newest_sound(unit.copies).name == "checkpoint-500"


@pytest.mark.parametrize("shift_s", [-7200.0, 86400.0 * 365 * 60], ids=["set back", "far in the future"])
def test_times_that_a_file_system_fakes_do_not_decide_which_copy_is_the_newest(unit, shift_s):
    """transformers #26961: the newest copy was deleted as the oldest."""
    for step in (800, 1000):
        trainer_step(unit.path / f"checkpoint-{step}")
    faked = unit.path / ("checkpoint-1000" if shift_s < 0 else "checkpoint-800")
    for path in (*faked.iterdir(), faked):
        os.utime(path, (path.stat().st_mtime + shift_s,) * 2)
    unit.pass_s(1)
    assert newest(unit.copies).name == newest_sound(unit.copies).name == "checkpoint-1000"
    trainer_step(unit.path / "checkpoint-1200")
    for path in (unit.path / "checkpoint-1200").iterdir():
        os.utime(path, (1000.0, 1000.0))
    unit.pass_s(1)
    assert newest_sound(unit.copies).name == "checkpoint-1200"


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
        for _ in range(500):
            unit.pass_s(1)
            assert all(copy.status is not BROKEN for copy in unit.copies)
            assert all(copy.temporary for copy in unit.copies if copy.name == "tmp-checkpoint-49")
    finally:
        over.set()
        thread.join()


def test_a_link_to_itself_is_told_and_the_real_copies_are_judged(unit):
    """Lightning #21110: last.ckpt pointed to last.ckpt."""
    (unit.path / "epoch=3.ckpt").write_bytes(torch_zip())
    (unit.path / "last.ckpt").symlink_to("last.ckpt")
    assert statuses(unit, 6) == {"epoch=3.ckpt": SOUND}
    assert unit.dangling == (("last.ckpt", "last.ckpt"),)


def test_a_file_of_the_right_size_whose_index_is_zeroed_is_not_sound(unit):
    """Lightning #21431: unreadable at once after the save, with nothing to be seen by its size."""
    good = torch_zip()
    at = good.rindex(b"PK\1\2")
    path = unit.path / "epoch=3.ckpt"
    path.write_bytes(good[:at] + bytes(64) + good[at + 64 :])
    assert path.stat().st_size == len(good)
    assert statuses(unit, 31) == {"epoch=3.ckpt": BROKEN}


def test_half_a_file_is_being_written_while_it_grows_and_broken_once_it_is_quiet(unit):
    """Lightning #688, #19970: a kill in the middle of a write."""
    (unit.path / "a.ckpt").write_bytes(BIG)
    unit.pass_s(1)
    for percent in range(2, 61):
        (unit.path / "b.ckpt").write_bytes(BIG[: len(BIG) * percent // 100])
        assert statuses(unit)["b.ckpt"] is WRITING
    assert statuses(unit, 29)["b.ckpt"] is WRITING
    assert statuses(unit, 2)["b.ckpt"] is BROKEN
    assert newest_sound(unit.copies).name == "a.ckpt"


def test_a_copy_that_a_full_disk_cut_is_broken_and_the_other_stays_the_newest_sound_one(unit):
    """ultralytics #5793: the disk was full in the middle of last.pt."""
    (unit.path / "best.pt").write_bytes(BIG)
    unit.pass_s(1)
    (unit.path / "last.pt").write_bytes(BIG[: len(BIG) * 3 // 5])
    assert statuses(unit, 32) == {"best.pt": SOUND, "last.pt": BROKEN}
    assert newest_sound(unit.copies).name == "best.pt"


def test_steps_may_go_back_after_a_failed_save(unit):
    """maxtext #5260: the failed save stayed in the list, and later, lower steps were refused in silence."""
    orbax_step(unit.path / "1800")
    unit.pass_s(1)
    orbax_step(unit.path / "1820")
    for mark in ("commit_success.txt", "_CHECKPOINT_METADATA"):
        (unit.path / "1820" / mark).unlink()
    assert statuses(unit, 32) == {"1800": SOUND, "1820": BROKEN}
    assert newest_sound(unit.copies).name == "1800"
    orbax_step(unit.path / "1620")
    assert statuses(unit)["1620"] is SOUND
    assert newest(unit.copies).name == newest_sound(unit.copies).name == "1620"


def test_a_copy_whose_tracker_was_never_written_is_sound(unit):
    """verl #7952: resuming began at 0, because the asynchronous save never wrote the tracker."""
    write_deepspeed(unit.path / "mine" / "global_step_100")
    write_deepspeed(unit.path / "other" / "global_step_100")
    (unit.path / "other" / "global_step_100" / "zero_to_fp32.py").write_text("")  # or they would be one copy
    (unit.path / "other" / "latest_checkpointed_iteration.txt").write_text("100")
    assert statuses(unit, 6)["mine/global_step_100"] is SOUND
    assert statuses(unit)["other/global_step_100"] is SOUND


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
