"""Whatever a unit shows and whenever it is looked at, some things hold for the copies that are followed."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpt_governor.copies import COPIES_MAX, Settle, being_written, follow, newest, newest_sound
from ckpt_governor.facts import Copy, CopyStatus, Sighting, Structure
from ckpt_governor.leftovers import leftovers

SETTLE = Settle(broken_s=30.0, sound_s=10.0)
NAMES = ("step_1", "step_2", "step_3", "last", "step_2.tmp", "x.tmp")

sightings = st.builds(
    lambda name, structure, size, mark, inode, written_s, lost: Sighting(
        name=name,
        format="torch-zip",
        step=int(name[5]) if name.startswith("step") else None,
        bytes=size,
        structure=structure,
        why="" if structure is Structure.COMPLETE else "a reason",
        fingerprint=f"{inode}.{size}.{mark}",
        inode=str(inode),
        written_s=written_s,
        temporary=name.endswith(".tmp"),
        lost=lost if size < 3 else "",
    ),
    name=st.sampled_from(NAMES),
    structure=st.sampled_from(Structure),
    size=st.integers(0, 3),
    mark=st.integers(0, 2),
    inode=st.integers(0, 5),
    written_s=st.floats(-1e6, 1e6),
    lost=st.sampled_from(["", "", "a file is missing since it was sound"]),
)
looks = st.lists(sightings, max_size=6, unique_by=(lambda one: one.name, lambda one: one.inode))
steps = st.tuples(looks, st.sampled_from([0.1, 1.0, 4.0, 11.0, 31.0]), st.booleans())
histories = st.lists(steps, max_size=12)


def live(history, start_s=0.0):
    """The copies after every look, with the look."""
    now_s, last = start_s, 0
    copies: tuple[Copy, ...] = ()
    former_look_s: float | None = None
    for look, wait_s, asks in history:
        now_s += wait_s
        asked_s = now_s - wait_s / 2 if asks and former_look_s is not None else None
        former = copies
        copies = follow(
            former,
            tuple(look),
            now_s=now_s,
            former_look_s=former_look_s,
            asked_s=asked_s,
            settle=SETTLE,
            last_serial=last,
        )
        last = max((last, *(copy.serial for copy in copies)))
        yield former, tuple(look), copies, now_s
        former_look_s = now_s


@given(histories)
def test_serials_only_grow_and_order_the_copies(history):
    highest = 0
    for former, _, copies, _ in live(history):
        serials = [copy.serial for copy in copies]
        assert serials == sorted(set(serials))
        known = {copy.serial for copy in former}
        assert all(serial > highest for serial in serials if serial not in known)
        highest = max((highest, *serials))


@given(histories)
def test_every_sighting_is_one_copy_and_every_copy_is_sighted(history):
    for _, look, copies, _ in live(history):
        assert sorted(copy.name for copy in copies) == sorted(sighting.name for sighting in look)


@given(histories)
def test_a_whole_copy_is_never_called_broken(history):
    for _, look, copies, _ in live(history):
        complete = [one for one in look if one.structure is Structure.COMPLETE and not one.lost]
        whole = {one.name for one in complete if not one.temporary}
        assert all(copy.status is CopyStatus.SOUND for copy in copies if copy.name in whole)


@given(histories)
def test_an_incomplete_copy_is_never_called_sound(history):
    for _, look, copies, _ in live(history):
        cut = {one.name for one in look if one.structure is Structure.INCOMPLETE}
        assert all(copy.status is not CopyStatus.SOUND for copy in copies if copy.name in cut)


@given(histories)
def test_a_copy_that_has_lost_something_is_never_called_sound(history):
    for _, look, copies, _ in live(history):
        less = {one.name for one in look if one.lost}
        assert all(copy.status is not CopyStatus.SOUND for copy in copies if copy.name in less)


@given(histories)
def test_an_unreadable_copy_is_never_called_broken(history):
    for _, look, copies, _ in live(history):
        shut = {one.name for one in look if one.structure is Structure.UNREADABLE}
        assert all(copy.status is not CopyStatus.BROKEN for copy in copies if copy.name in shut)


@given(histories, st.lists(st.sampled_from([0.1, 1.0, 4.0, 11.0, 31.0, 5000.0]), min_size=1, max_size=8))
def test_a_sound_copy_that_does_not_change_stays_as_it_is(history, waits):
    final = list(live(history))
    if not final:
        return
    _, look, copies, now_s = final[-1]
    for wait_s in waits:
        after = follow(copies, look, now_s=now_s + wait_s, former_look_s=now_s, asked_s=None, settle=SETTLE)
        now_s += wait_s
        sound = [copy for copy in copies if copy.status is CopyStatus.SOUND and not copy.temporary]
        assert all(copy in after for copy in sound)
        copies = after


@given(histories, st.data())
def test_the_wall_clock_plays_no_role_under_our_eyes(history, data):
    begun = [([], 1.0, False), *((look, min(wait_s, 4.0), asks) for look, wait_s, asks in history)]
    faked = [
        ([evolve(one, written_s=data.draw(st.floats(-1e9, 1e9))) for one in look], wait_s, asks)
        for look, wait_s, asks in begun
    ]

    def told(run):
        return [[evolve(copy, written_s=0.0) for copy in copies] for _, _, copies, _ in live(run)]

    assert told(begun) == told(faked)


@given(histories)
def test_no_write_began_after_it_was_seen_and_no_copy_was_sound_before(history):
    for _, _, copies, now_s in live(history):
        for copy in copies:
            assert copy.began_s <= now_s
            assert copy.first_seen_s <= now_s
            assert (copy.sound_s is not None) or copy.status is not CopyStatus.SOUND or copy.temporary
            assert copy.write_s is None or copy.write_s > 0


@given(histories)
def test_temporaries_are_never_the_newest_and_leftovers_are_only_temporaries(history):
    for _, _, copies, _ in live(history):
        for top in (newest(copies), newest_sound(copies)):
            assert top is None or not top.temporary
        assert all(copy.temporary for copy in leftovers(copies))
        assert all(copy.status is CopyStatus.WRITING for copy in being_written(copies))


@settings(max_examples=10)
@given(st.integers(COPIES_MAX, COPIES_MAX + 60), st.integers(0, COPIES_MAX - 1))
def test_no_more_than_the_bound_are_kept(count, good):
    look = [
        Sighting(
            name=f"step_{n}",
            format="torch-zip",
            step=n,
            bytes=1,
            structure=Structure.COMPLETE if n == good else Structure.INCOMPLETE,
            why="",
            fingerprint=str(n),
            inode=str(n),
            written_s=float(n),
        )
        for n in range(count)
    ]
    for _, _, copies, _ in live([([look[good]], 1.0, False), (look, 1.0, False), (look, 31.0, False)]):
        assert len(copies) <= COPIES_MAX
        top = newest_sound(copies)
        assert top is not None
        assert top.name == f"step_{good}"
