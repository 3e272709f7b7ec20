"""Copies followed over time: what is one write and what another, when it began, and what it is worth."""

from __future__ import annotations

import pytest
from attrs import evolve

from ckpt_governor.copies import (
    COPIES_MAX,
    Settle,
    being_written,
    follow,
    newest,
    newest_sound,
)
from ckpt_governor.facts import Copy, CopyStatus, Sighting, SmallSize, Structure
from ckpt_governor.leftovers import leftovers

SETTLE = Settle(broken_s=30.0, sound_s=10.0)
SOUND, WRITING, BROKEN, UNKNOWN = CopyStatus.SOUND, CopyStatus.WRITING, CopyStatus.BROKEN, CopyStatus.UNKNOWN
WHOLE, CUT, PLAIN, SHUT = (
    Structure.COMPLETE,
    Structure.INCOMPLETE,
    Structure.SHAPELESS,
    Structure.UNREADABLE,
)


def seen(name="a.pt", structure=WHOLE, size=100, mark=0, inode=None, written_s=0.0, **more):
    """One sighting; ``mark`` stands for the time of its last change."""
    inode = inode if inode is not None else name
    temporary = more.pop("temporary", name.endswith(".tmp"))
    return Sighting(
        **{
            "name": name,
            "format": "torch-zip" if structure is not PLAIN else "file",
            "step": None,
            "bytes": size,
            "structure": structure,
            "why": {CUT: "no end record", SHUT: "permission denied"}.get(structure, ""),
            "fingerprint": f"{inode}.{size}.{mark}",
            "inode": inode,
            "written_s": written_s,
            "temporary": temporary,
            **more,
        }
    )


class Watch:
    """A governor that looks at moments of the test's choice; it began long ago at an empty unit."""

    def __init__(self, *first, at_s=0.0, settle=SETTLE):
        self.settle, self.last_serial = settle, 0
        self.copies: tuple[Copy, ...] = ()
        self.look_s: float | None = None
        self.asked_s: float | None = None
        self.at(at_s, *first)

    def at(self, now_s, *sightings):
        """The copies after a look that shows these."""
        self.copies = follow(
            self.copies,
            tuple(sightings),
            now_s=now_s,
            former_look_s=self.look_s,
            asked_s=self.asked_s,
            settle=self.settle,
            last_serial=self.last_serial,
        )
        self.look_s = now_s
        self.last_serial = max((self.last_serial, *(copy.serial for copy in self.copies)))
        return self.copies

    def every_second(self, since_s, until_s, *sightings):
        """Looks once a second at what does not change."""
        for now_s in range(int(since_s), int(until_s) + 1):
            self.at(float(now_s), *sightings)
        return self.copies


def top(copies):
    """Names of the newest copy and of the newest sound one."""
    copy, sound = newest(copies), newest_sound(copies)
    return (copy.name if copy is not None else "", sound.name if sound is not None else "")


def statuses(copies):
    """Name and status, oldest first."""
    return [(copy.name, copy.status) for copy in copies]


# The first look


def test_copies_of_the_first_look_were_there_before():
    (copy,) = Watch(seen(written_s=-50.0), at_s=0.0).copies
    assert (copy.pre_existing, copy.began_s, copy.status, copy.write_s) == (True, -50.0, SOUND, None)


def test_a_write_time_in_the_future_is_now():
    (copy,) = Watch(seen(written_s=9999.0), at_s=5.0).copies
    assert copy.began_s == 5.0


def test_steps_order_the_copies_of_the_first_look_even_when_times_are_faked():
    older = seen("checkpoint-800", step=800, written_s=7200.0)
    newer = seen("checkpoint-1000", step=1000, written_s=0.0)
    assert top(Watch(newer, older, at_s=8000.0).copies) == ("checkpoint-1000", "checkpoint-1000")


def test_times_order_them_when_one_has_no_step():
    early = seen("step-9", step=9, written_s=1.0)
    late = seen("last", written_s=2.0)
    assert [copy.name for copy in Watch(late, early, at_s=10.0).copies] == ["step-9", "last"]


def test_a_temporary_comes_after_all_copies_of_the_first_look():
    copies = Watch(
        seen("step-9", step=9, written_s=5.0), seen("step-3.tmp", step=3, written_s=1.0), at_s=9.0
    ).copies
    assert [copy.name for copy in copies] == ["step-9", "step-3.tmp"]


def test_an_old_shapeless_copy_of_the_first_look_is_sound_and_a_young_one_is_waited_for():
    copies = Watch(
        seen("a", PLAIN, written_s=80.0), seen("b", PLAIN, written_s=95.0, inode="b"), at_s=100.0
    ).copies
    assert statuses(copies) == [("a", SOUND), ("b", WRITING)]


def test_an_incomplete_copy_of_the_first_look_is_broken_only_after_the_governor_s_own_time():
    watch = Watch(seen(structure=CUT, written_s=-9999.0), at_s=0.0)
    assert watch.every_second(1, 29, seen(structure=CUT))[0].status is WRITING
    assert watch.at(30.0, seen(structure=CUT))[0].status is BROKEN


# When a write began


def test_a_write_seen_at_its_first_byte_began_then():
    watch = Watch()
    watch.at(1.0, seen(structure=CUT, size=10, mark=1))
    watch.at(2.0, seen(structure=CUT, size=50, mark=2))
    (copy,) = watch.at(3.0, seen(size=100, mark=3))
    assert (copy.status, copy.began_s, copy.write_s, copy.serial) == (SOUND, 1.0, 2.0, 1)


def test_a_copy_that_appears_whole_began_at_the_request_that_it_answers():
    watch = Watch()
    watch.asked_s = 3.0
    watch.at(4.0)
    (copy,) = watch.at(5.0, seen())
    assert (copy.began_s, copy.answered, copy.status) == (3.0, True, SOUND)


def test_a_copy_that_appears_whole_without_a_request_began_when_it_appeared():
    (copy,) = Watch().at(4.0, seen())
    assert (copy.began_s, copy.answered, copy.write_s) == (4.0, False, None)


def test_a_write_that_was_seen_growing_answers_no_request_before_its_first_byte():
    watch = Watch()
    watch.at(1.0, seen(structure=CUT, size=10))
    watch.asked_s = 2.0
    (copy,) = watch.at(3.0, seen(mark=1))
    assert (copy.began_s, copy.answered) == (1.0, False)


def test_a_shapeless_copy_that_came_whole_is_an_answer_once_it_is_sound():
    watch = Watch()
    watch.asked_s = 2.0
    assert watch.at(3.0, seen(structure=PLAIN))[0].began_s == 3.0
    (copy,) = watch.every_second(4, 13, seen(structure=PLAIN))
    assert (copy.status, copy.began_s, copy.answered) == (SOUND, 2.0, True)


def test_a_shapeless_copy_that_grew_is_dated_by_its_first_byte():
    watch = Watch()
    watch.asked_s = 2.0
    watch.at(3.0, seen(structure=PLAIN, size=10))
    watch.at(4.0, seen(structure=PLAIN, size=99, mark=1))
    (copy,) = watch.every_second(5, 14, seen(structure=PLAIN, size=99, mark=1))
    assert (copy.status, copy.began_s, copy.answered, copy.write_s) == (SOUND, 3.0, False, 1.0)


def test_a_shapeless_copy_does_not_answer_a_request_that_came_after_it():
    watch = Watch()
    watch.at(3.0, seen(structure=PLAIN))
    watch.asked_s = 5.0
    (copy,) = watch.every_second(4, 13, seen(structure=PLAIN))
    assert (copy.began_s, copy.answered) == (3.0, False)


def test_a_copy_that_came_while_nobody_looked_began_when_the_volume_says_within_that_time():
    for written_s, began_s in ((50.0, 50.0), (-9.0, 0.0), (999.0, 100.0)):
        (copy,) = Watch().at(100.0, seen(written_s=written_s))
        assert (copy.began_s, copy.pre_existing, copy.write_s) == (began_s, False, None)


def test_a_copy_that_was_overwritten_while_nobody_looked_is_another_write():
    watch = Watch(seen())
    (copy,) = watch.at(100.0, seen(mark=1, written_s=60.0))
    assert (copy.serial, copy.began_s) == (2, 60.0)


def test_new_inode_numbers_after_a_remount_are_no_new_writes():
    watch = Watch(seen(inode="8:1"))
    assert watch.at(100.0, seen(inode="9:7"))[0].serial == 1


def test_a_new_inode_under_our_eyes_is_a_new_write():
    watch = Watch(seen(inode="8:1"))
    assert watch.at(1.0, seen(inode="8:2"))[0].serial == 2


# By rename


def test_a_rename_into_place_continues_the_temporary():
    watch = Watch()
    watch.at(1.0, seen("a.pt.tmp", CUT, 50, inode="7"))
    watch.at(2.0, seen("a.pt.tmp", CUT, 100, mark=1, inode="7"))
    (copy,) = watch.at(4.0, seen("a.pt", size=100, mark=1, inode="7"))
    assert (copy.serial, copy.began_s, copy.first_seen_s, copy.write_s) == (1, 1.0, 1.0, 3.0)
    assert (copy.status, copy.temporary, copy.longest_quiet_s) == (SOUND, False, 2.0)


def test_a_rename_with_a_new_inode_continues_the_temporary_of_the_same_look():
    watch = Watch()
    watch.at(1.0, seen("d/step_10.tmp", CUT, 50, inode="7"), seen("d/step_1.tmp", CUT, 50, inode="8"))
    copies = watch.at(2.0, seen("d/step_1", inode="17"), seen("d/step_10", inode="18"))
    assert [(copy.name, copy.began_s) for copy in copies] == [("d/step_1", 1.0), ("d/step_10", 1.0)]
    assert {copy.serial for copy in copies} == {1, 2}


def test_a_rename_over_an_old_copy_is_a_new_write_from_the_temporary_s_beginning():
    watch = Watch(seen("a.pt", inode="1"))
    watch.at(1.0, seen("a.pt", inode="1"), seen("a.pt.tmp", CUT, 50, inode="2"))
    (copy,) = watch.at(3.0, seen("a.pt", inode="2", mark=5))
    assert (copy.serial, copy.began_s, copy.status) == (2, 1.0, SOUND)


def test_a_dead_temporary_whose_name_is_used_again_is_another_write():
    watch = Watch(seen("a.pt.tmp", CUT, 50, inode="7"))
    watch.every_second(1, 30, seen("a.pt.tmp", CUT, 50, inode="7"))
    assert [copy.name for copy in leftovers(watch.copies)] == ["a.pt.tmp"]
    watch.at(31.0, seen("a.pt.tmp", CUT, 60, mark=9, inode="7"))
    (copy,) = watch.at(32.0, seen("a.pt", mark=10, inode="7"))
    assert (copy.serial, copy.began_s, copy.write_s) == (2, 31.0, 1.0)


def test_a_final_copy_under_another_name_is_the_same_copy():
    watch = Watch(seen("a.pt", inode="1", step=5))
    (copy,) = watch.at(1.0, seen("best.pt", inode="1"))
    assert (copy.serial, copy.name, copy.step, copy.status) == (1, "best.pt", 5, SOUND)


def test_an_inode_number_that_went_to_another_file_is_another_copy():
    watch = Watch(seen("step_1.pt", inode="1"))
    (copy,) = watch.at(1.0, seen("step_9.pt", inode="1", mark=1))
    assert (copy.serial, copy.name, copy.began_s) == (2, "step_9.pt", 1.0)


def test_a_copy_that_was_moved_by_copying_is_the_same_copy():
    watch = Watch(seen("a/step_5.pt", inode="1", step=5))
    (copy,) = watch.at(1.0, seen("b/step_5.pt", inode="2", step=5))
    assert (copy.serial, copy.name, copy.changed_s, copy.status) == (1, "b/step_5.pt", 0.0, SOUND)


def test_a_sound_copy_under_a_temporary_name_is_none_any_more():
    watch = Watch(seen("old.pt", inode="1", step=1), seen("new.pt", inode="2", step=2))
    copies = watch.at(1.0, seen("old.pt", inode="1", step=1), seen("new.pt.tmp", inode="2", step=2))
    assert top(copies) == ("old.pt", "old.pt")


# What a change is


def test_an_overwritten_sound_copy_is_a_new_write():
    watch = Watch(seen())
    (copy,) = watch.at(4.0, seen(structure=CUT, size=3, mark=1))
    assert (copy.serial, copy.status, copy.began_s, copy.pre_existing) == (2, WRITING, 4.0, False)


def test_an_overwritten_sound_copy_that_is_whole_again_at_the_next_look_answers_the_request():
    watch = Watch(seen())
    watch.at(2.0, seen())
    watch.asked_s = 2.0
    (copy,) = watch.at(3.0, seen(mark=1))
    assert (copy.serial, copy.answered, copy.began_s) == (2, True, 2.0)


def test_times_set_back_at_the_end_of_a_write_are_part_of_it():
    watch = Watch()
    watch.at(1.0, seen(structure=CUT, size=10))
    watch.at(2.0, seen(mark=2))
    (copy,) = watch.at(3.0, seen(mark=1))
    assert (copy.serial, copy.began_s, copy.sound_s, copy.status) == (1, 1.0, 2.0, SOUND)
    assert watch.at(4.0, seen(mark=3))[0].serial == 2


def test_the_longest_pause_of_a_write_is_remembered():
    watch = Watch()
    watch.at(1.0, seen(structure=CUT, size=10))
    watch.every_second(2, 7, seen(structure=CUT, size=10))
    watch.at(8.0, seen(structure=CUT, size=20, mark=1))
    assert watch.at(10.0, seen(mark=2))[0].longest_quiet_s == 7.0


def test_a_broken_copy_that_grows_is_being_written_again():
    watch = Watch(seen(structure=CUT, size=10))
    watch.every_second(1, 40, seen(structure=CUT, size=10))
    assert watch.copies[0].status is BROKEN
    (copy,) = watch.at(41.0, seen(structure=CUT, size=20, mark=1))
    assert (copy.serial, copy.status) == (1, WRITING)
    assert watch.at(42.0, seen(mark=2))[0].status is SOUND


def test_a_broken_copy_that_is_cut_to_nothing_begins_anew():
    watch = Watch(seen(structure=CUT, size=10))
    watch.every_second(1, 40, seen(structure=CUT, size=10))
    (copy,) = watch.at(41.0, seen(structure=CUT, size=0, mark=1))
    assert (copy.serial, copy.began_s, copy.status) == (2, 41.0, WRITING)


def test_a_write_that_starts_over_under_its_name_is_another_write():
    watch = Watch()
    watch.at(1.0, seen(structure=CUT, size=80))
    watch.every_second(2, 20, seen(structure=CUT, size=80))
    (copy,) = watch.at(21.0, seen(structure=CUT, size=2, mark=1))
    assert (copy.serial, copy.began_s) == (2, 21.0)


def test_a_sound_copy_that_lost_its_end_behind_an_unchanged_time_is_broken():
    watch = Watch(seen())
    assert watch.at(1.0, seen(structure=CUT))[0].status is WRITING
    (copy,) = watch.every_second(2, 31, seen(structure=CUT))
    assert (copy.serial, copy.status, copy.why) == (1, BROKEN, "no end record")


def test_a_pause_longer_than_thought_does_not_make_two_writes_of_one():
    watch = Watch()
    watch.at(1.0, seen(structure=PLAIN, size=50))
    watch.every_second(2, 12, seen(structure=PLAIN, size=50))
    assert watch.copies[0].status is SOUND
    (copy,) = watch.at(13.0, seen(structure=PLAIN, size=90, mark=1))
    assert (copy.serial, copy.status, copy.began_s, copy.longest_quiet_s) == (1, WRITING, 1.0, 12.0)


def test_a_shapeless_copy_that_changes_after_a_request_is_its_answer_and_not_a_late_part():
    watch = Watch()
    watch.every_second(1, 12, seen(structure=PLAIN, size=50))
    watch.asked_s = 12.0
    (copy,) = watch.at(13.0, seen(structure=PLAIN, size=90, mark=1))
    assert (copy.serial, copy.began_s) == (2, 13.0)


# Deleting


def two_folders(size=100, mark=0, structure=PLAIN):
    """An older copy and a newer sound one."""
    old = seen("step_1", structure, size, mark, step=1, written_s=-100.0)
    return old, seen("step_2", PLAIN, step=2, written_s=-90.0)


@pytest.mark.parametrize("structure", [PLAIN, CUT], ids=["shapeless", "incomplete"])
def test_an_older_copy_that_loses_its_members_is_being_deleted(structure):
    watch = Watch(*two_folders())
    for now_s, size in ((1.0, 60), (2.0, 20)):
        old, new = watch.at(now_s, *two_folders(size, int(now_s), structure))
        assert (old.serial, old.status, old.why, new.status) == (1, WRITING, "being deleted", SOUND)
    assert being_written(watch.copies) == ()
    (copy,) = watch.at(3.0, two_folders()[1])
    assert copy.name == "step_2"


def test_a_deletion_that_stops_halfway_breaks_nothing():
    watch = Watch(*two_folders())
    old, _ = watch.every_second(1, 60, *two_folders(20, 1, CUT))
    assert (old.status, old.why) == (UNKNOWN, "half deleted")


def test_an_older_name_that_is_cut_to_nothing_and_grows_is_a_write_from_then_on():
    watch = Watch(*two_folders())
    watch.at(1.0, *two_folders(0, 1, CUT))
    copies = watch.at(2.0, *two_folders(30, 2, CUT))
    assert (copies[-1].name, copies[-1].began_s, copies[-1].serial) == ("step_1", 1.0, 3)


def test_a_broken_older_copy_that_is_deleted_is_no_write():
    watch = Watch(seen("step_1", CUT, 80, step=1), seen("step_2", step=2))
    watch.every_second(1, 31, seen("step_1", CUT, 80, step=1), seen("step_2", step=2))
    old, _ = watch.at(32.0, seen("step_1", CUT, 10, mark=1, step=1), seen("step_2", step=2))
    assert (old.serial, old.why) == (1, "being deleted")


# What it is worth


def test_an_incomplete_copy_is_broken_once_it_was_quiet_for_long_enough():
    watch = Watch()
    watch.at(1.0, seen(structure=CUT))
    assert watch.every_second(2, 30, seen(structure=CUT))[0].status is WRITING
    (copy,) = watch.at(31.0, seen(structure=CUT))
    assert (copy.status, copy.why) == (BROKEN, "no end record")


def test_time_in_which_the_volume_hung_does_not_make_a_copy_broken_at_once():
    watch = Watch()
    watch.at(1.0, seen(structure=CUT))
    assert watch.at(500.0, seen(structure=CUT))[0].status is WRITING
    assert watch.at(501.0, seen(structure=CUT))[0].status is BROKEN


def test_an_unreadable_copy_is_unknown_and_never_broken():
    watch = Watch()
    (copy,) = watch.every_second(1, 99, seen(structure=SHUT))
    assert (copy.status, copy.why) == (UNKNOWN, "permission denied")
    assert watch.at(100.0, seen())[0].status is SOUND


def test_a_doubtful_copy_is_sound_and_says_why():
    (copy,) = Watch().at(1.0, evolve(seen(), why="8 bytes follow its end record"))
    assert (copy.status, copy.why) == (SOUND, "8 bytes follow its end record")


def shapeless_steps(*sizes):
    """Copies of one kind, each seen first ten seconds after the one before."""
    return [seen(f"step_{n}.bin", PLAIN, size, step=n) for n, size in enumerate(sizes, 1)]


def follow_one_by_one(steps):
    watch = Watch()
    for n in range(1, len(steps) + 1):
        watch.every_second(100 * n, 100 * n + 40, *steps[:n])
    return watch.copies


def test_a_shapeless_copy_that_is_far_smaller_than_the_former_ones_is_broken():
    copies = follow_one_by_one(shapeless_steps(100, 100, 62))
    assert [copy.status for copy in copies] == [SOUND, SOUND, BROKEN]
    assert copies[-1].why == "62 % of the former copies' bytes"


def test_a_small_copy_whose_parts_all_have_their_ends_is_sound():
    *whole, small = shapeless_steps(100, 100, 50)
    copies = follow_one_by_one([*whole, evolve(small, small=SmallSize.NOTHING)])
    assert [copy.status for copy in copies] == [SOUND, SOUND, SOUND]


def test_a_small_copy_of_compressed_bytes_is_unknown():
    *whole, small = shapeless_steps(100, 100, 50)
    copies = follow_one_by_one([*whole, evolve(small, small=SmallSize.DOUBT)])
    assert [copy.status for copy in copies] == [SOUND, SOUND, UNKNOWN]
    assert copies[-1].why == "50 % of the former copies' bytes"


def test_twice_the_same_small_size_is_the_new_normal():
    copies = follow_one_by_one(shapeless_steps(100, 100, 62, 61))
    assert [copy.status for copy in copies] == [SOUND, SOUND, BROKEN, SOUND]


def test_a_small_first_copy_is_compared_with_nothing():
    assert follow_one_by_one(shapeless_steps(5))[0].status is SOUND


def test_copies_of_another_kind_are_not_compared():
    steps = [*shapeless_steps(100), seen("ema_2.bin", PLAIN, 10, step=2)]
    assert [copy.status for copy in follow_one_by_one(steps)] == [SOUND, SOUND]


def test_a_temporary_is_never_the_newest_copy():
    watch = Watch(seen("a.pt"))
    copies = watch.at(1.0, seen("a.pt"), seen("b.pt.tmp", CUT))
    assert top(copies) == ("a.pt", "a.pt")
    assert [copy.name for copy in being_written(copies)] == ["b.pt.tmp"]


def test_a_copy_that_is_gone_is_dropped_and_its_serial_is_not_given_again():
    watch = Watch(seen())
    assert watch.at(1.0) == ()
    assert watch.at(2.0, seen(inode="other"))[0].serial == 2


# Very many


def test_no_more_than_the_bound_are_followed_and_the_newest_stay():
    many = [seen(f"step_{n}", step=n, written_s=float(n)) for n in range(COPIES_MAX + 50)]
    watch = Watch(*many, at_s=9999.0)
    assert len(watch.copies) == COPIES_MAX
    assert top(watch.copies)[1] == f"step_{COPIES_MAX + 49}"


def test_old_copies_beyond_the_bound_do_not_come_back_as_new_ones():
    many = [seen(f"step_{n}", step=n, written_s=float(n)) for n in range(COPIES_MAX + 50)]
    watch = Watch(*many, at_s=9999.0)
    before = watch.copies
    assert watch.at(10_000.0, *many) == before


def test_the_newest_sound_copy_is_kept_however_many_broken_ones_follow():
    watch = Watch(seen("good", written_s=0.0))
    broken = [seen(f"bad_{n}", CUT) for n in range(COPIES_MAX + 20)]
    watch.every_second(1, 40, seen("good"), *broken[:100])
    watch.every_second(41, 42, seen("good"), *broken)
    assert len(watch.copies) == COPIES_MAX
    assert top(watch.copies)[1] == "good"


def test_the_records_are_those_of_the_contract():
    (copy,) = Watch(seen(step=7)).copies
    assert isinstance(copy, Copy)
    assert (copy.bytes, copy.step, copy.format, copy.inode) == (100, 7, "torch-zip", "a.pt")
