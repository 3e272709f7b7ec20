"""Folders of torch.distributed.checkpoint: sizes by the index, and what the times of the files may say."""

from __future__ import annotations

import os
import time

import pytest
from formats.making import safetensors, torch_zip
from formats.making_distributed import (
    TWO_RANKS,
    WRITTEN_S,
    called,
    index_of,
    object_of,
    set_times,
    tensor,
    write_dcp,
)
from formats.making_folders import only, seen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckpt_governor.facts import Structure
from ckpt_governor.formats import dcp, dcp_index
from ckpt_governor.formats.deep import check
from ckpt_governor.formats.interface import Damage, TakesLong
from ckpt_governor.formats.reading import RegularFile
from ckpt_governor.observe.copies import CopyScanner

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
LONG_AFTER_S = 2_000_000_000.0


@pytest.fixture
def copy(tmp_path):
    """A whole copy of two ranks in a unit of its own."""
    return write_dcp(tmp_path / "step_100", TWO_RANKS)


def verdict(folder):
    """Of the one copy that holds this folder: structure and why."""
    sighting = only(folder.parent)
    return sighting.structure, sighting.why


def test_a_whole_folder_is_one_complete_copy(copy):
    sighting = only(copy.parent)
    assert (sighting.name, sighting.format, sighting.step) == ("step_100", "dcp", 100)
    assert (sighting.structure, sighting.why) == (COMPLETE, "")
    assert sighting.bytes == sum(path.stat().st_size for path in copy.iterdir())


@pytest.mark.parametrize("name", ["__0_0.distcp", "__1_0.distcp"])
def test_every_cut_of_a_shard_is_incomplete(copy, name):
    whole = (copy / name).read_bytes()
    for count in range(0, len(whole), 3):
        (copy / name).write_bytes(whole[:count])
        assert verdict(copy) == (
            INCOMPLETE,
            f"{name}: {len(whole) - count} of {len(whole)} bytes are missing",
        )


def test_every_cut_of_the_index_is_incomplete(copy):
    whole = (copy / ".metadata").read_bytes()
    for count in range(len(whole)):
        (copy / ".metadata").write_bytes(whole[:count])
        assert verdict(copy) == (INCOMPLETE, ".metadata is cut")


def test_a_missing_shard_is_named(copy):
    (copy / "__1_0.distcp").unlink()
    assert verdict(copy) == (INCOMPLETE, "__1_0.distcp is missing")


def test_a_shard_that_is_a_link_is_neither_followed_nor_missed(copy, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "shard"
    (copy / "__1_0.distcp").rename(elsewhere)
    (copy / "__1_0.distcp").symlink_to(elsewhere)
    assert verdict(copy) == (SHAPELESS, "__1_0.distcp is a link or cannot be read")


@pytest.mark.parametrize("others", [[], [".metadata.tmp"]])
def test_without_its_index_a_folder_is_incomplete(copy, others):
    (copy / ".metadata").unlink()
    for name in others:
        (copy / name).touch()
    assert verdict(copy) == (INCOMPLETE, "its .metadata is not there yet")


def test_an_index_that_is_left_alone_is_incomplete(copy):
    for name in TWO_RANKS:
        (copy / name).unlink()
    assert verdict(copy) == (INCOMPLETE, "__0_0.distcp is missing")


def test_a_folder_that_only_holds_a_file_of_that_name_is_no_copy(tmp_path):
    (tmp_path / "run" / "step_5.pt").parent.mkdir()
    (tmp_path / "run" / "step_5.pt").write_bytes(torch_zip())
    (tmp_path / "run" / ".metadata").touch()
    assert list(seen(tmp_path)) == ["run/step_5.pt"]


def test_ranks_may_have_empty_shards_or_none_and_old_shards_may_be_left(tmp_path):
    copy = write_dcp(tmp_path / "step_100", {"__2_0.distcp": [tensor()], "__7_1.distcp": [tensor()]})
    (copy / "__1_0.distcp").touch()
    (copy / "__9_0.distcp").write_bytes(tensor())
    set_times(copy, "__1_0.distcp", "__9_0.distcp")
    assert verdict(copy) == (COMPLETE, "")


def test_a_folder_of_no_items_is_complete(tmp_path):
    copy = write_dcp(tmp_path / "step_100", {})
    (copy / "__0_0.distcp").touch()
    os.utime(copy / "__0_0.distcp", (WRITTEN_S, WRITTEN_S))
    assert verdict(copy) == (COMPLETE, "")


@pytest.mark.parametrize(
    ("zeros", "why"), [(200, "has no end record"), (1000, "was never written"), (1300, "was never written")]
)
def test_a_tail_of_zeros_is_incomplete(copy, zeros, why):
    whole = (copy / "__1_0.distcp").read_bytes()
    zeros = min(zeros, len(whole))
    (copy / "__1_0.distcp").write_bytes(whole[:-zeros] + bytes(zeros))
    set_times(copy, *TWO_RANKS, ".metadata")
    assert verdict(copy) == (INCOMPLETE, f"__1_0.distcp: its last item {why}")


def test_items_that_are_no_archives_are_judged_by_their_sizes(tmp_path):
    copy = write_dcp(tmp_path / "step_100", {"__0_0.distcp": [bytes(100), b"\x28\xb5\x2f\xfd" + bytes(60)]})
    assert verdict(copy) == (COMPLETE, "")


def test_a_shard_with_more_bytes_than_the_index_tells_has_no_shape(copy):
    with (copy / "__0_0.distcp").open("ab") as file:
        file.write(b"more")
    set_times(copy, *TWO_RANKS, ".metadata")
    assert verdict(copy) == (SHAPELESS, "__0_0.distcp has 4 bytes more than .metadata tells")


def test_a_shard_that_is_longer_and_newer_than_the_index_is_being_written_over(copy):
    with (copy / "__0_0.distcp").open("ab") as file:
        file.write(b"more")
    assert verdict(copy)[0] is INCOMPLETE
    assert "is being written over: 4 bytes more" in verdict(copy)[1]


def test_shards_of_safetensors_are_judged_as_such(copy):
    data = safetensors((1000, 3000))
    (copy / "__0_0.distcp").write_bytes(data)
    (copy / ".metadata").write_bytes(
        index_of([("a", "__0_0.distcp", 0, 3000), ("b", "__0_0.distcp", 0, 1000)])
    )
    (copy / "__1_0.distcp").unlink()
    set_times(copy, "__0_0.distcp", ".metadata")
    assert verdict(copy) == (COMPLETE, "")
    (copy / "__0_0.distcp").write_bytes(data[:-500])
    assert verdict(copy) == (INCOMPLETE, f"__0_0.distcp: 500 of {len(data)} bytes are missing")


@pytest.mark.parametrize("path", ["/etc/passwd", "../step_99/__0_0.distcp", "a/../../b", "", "a//b", "a\0b"])
def test_an_index_that_names_a_file_outside_is_not_followed(copy, path):
    (copy / ".metadata").write_bytes(index_of([("a", path, 0, 10)]))
    structure, why = verdict(copy)
    assert (structure, "names a file outside" in why) == (SHAPELESS, True)


def test_a_path_that_begins_here_is_the_same(copy):
    (copy / ".metadata").write_bytes(
        index_of([("a", "./__1_0.distcp", 0, (copy / "__1_0.distcp").stat().st_size)])
    )
    assert verdict(copy)[0] is COMPLETE


@pytest.mark.parametrize(
    ("offset", "length"), [(-1, 10), (0, -5), (None, 3), ("1", 3), (0, called("builtins", "len", "x"))]
)
def test_sizes_that_are_no_sizes_are_not_believed(copy, offset, length):
    (copy / ".metadata").write_bytes(index_of([("a", "__0_0.distcp", offset, length)]))
    assert verdict(copy)[0] is SHAPELESS


def test_a_hostile_size_is_just_a_size(copy):
    (copy / ".metadata").write_bytes(index_of([("a", "__0_0.distcp", 1 << 62, 1 << 200)]))
    structure, why = verdict(copy)
    assert structure is INCOMPLETE
    assert why.endswith("bytes are missing")


@pytest.mark.parametrize(
    "index",
    [
        b"\x80\x02}.",
        b"\x80\x02" + object_of("a", "Metadata", {"storage_data": None}) + b".",
        b"\x80\x02" + object_of("a", "Metadata", {"storage_data": {"a": 1}}) + b".",
    ],
)
def test_an_index_of_another_kind_has_no_shape(copy, index):
    (copy / ".metadata").write_bytes(index)
    assert verdict(copy)[0] is SHAPELESS


def test_an_index_that_holds_too_much_is_read_once_and_then_ends_alone_tell(copy, monkeypatch):
    monkeypatch.setattr(dcp_index, "_OPCODES_MAX", 20)
    os.utime(copy / ".metadata", (WRITTEN_S + 50, WRITTEN_S + 50))
    structure, why = verdict(copy)
    assert (structure, "too many objects" in why) == (SHAPELESS, True)
    monkeypatch.setattr(dcp_index, "_OPCODES_MAX", 2_000_000)
    assert verdict(copy) == (SHAPELESS, why)
    whole = (copy / "__1_0.distcp").read_bytes()
    for count in range(40, len(whole), 9):
        (copy / "__1_0.distcp").write_bytes(whole[:count])
        os.utime(copy / "__1_0.distcp", (WRITTEN_S, WRITTEN_S))
        assert verdict(copy) == (INCOMPLETE, "__1_0.distcp: its last item has no end record")


def test_an_index_of_a_monstrous_size_is_not_read(copy):
    os.truncate(copy / ".metadata", 1 << 40)
    os.utime(copy / ".metadata", (WRITTEN_S + 50, WRITTEN_S + 50))
    assert verdict(copy) == (SHAPELESS, f".metadata: it has {1 << 40} bytes, too many to be checked")


@pytest.mark.parametrize("damage", [b"\xff", b"\x00", b"t"])
def test_a_damaged_index_is_incomplete(copy, damage):
    whole = (copy / ".metadata").read_bytes()
    (copy / ".metadata").write_bytes(whole[:2] + damage + whole[3:])
    assert verdict(copy) == (INCOMPLETE, ".metadata is damaged")


def test_an_index_that_would_run_something_runs_nothing(copy, tmp_path):
    trace = tmp_path / "trace"
    evil = called("os", "system", f"touch {trace}")
    (copy / ".metadata").write_bytes(b"\x80\x02" + evil + b".")
    assert verdict(copy)[0] is SHAPELESS
    (copy / ".metadata").write_bytes(index_of([("a", "__0_0.distcp", 0, evil)]))
    assert verdict(copy)[0] is SHAPELESS
    assert not trace.exists()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.integers(0, 600), st.integers(0, 40))
def test_no_index_makes_the_check_fail_in_another_way(copy, noise, at, gone):
    whole = index_of((name, shard, 0, 10) for name, shard in [("a", "__0_0.distcp"), ("b", "__1_0.distcp")])
    (copy / ".metadata").write_bytes(whole[:at] + noise + whole[at + gone :])
    assert verdict(copy)[0] in (COMPLETE, INCOMPLETE, SHAPELESS)


# What the times of the files say


class Watched:
    """A unit that is looked at again and again."""

    def __init__(self, unit):
        self.scanner, self.now_s = CopyScanner(str(unit), budget_s=60.0), LONG_AFTER_S

    def look(self):
        """Structure and why of its one copy, ten seconds later."""
        self.now_s += 10.0
        (sighting,) = self.scanner.look(self.now_s, 0.0).sightings
        return sighting.structure, sighting.why


def test_a_shard_that_becomes_newer_than_its_index_is_being_written_over(copy):
    watched = Watched(copy.parent)
    assert watched.look() == (COMPLETE, "")
    (copy / "__0_0.distcp").write_bytes(b"".join(TWO_RANKS["__0_0.distcp"]))
    expected = (INCOMPLETE, "it is being written over: __0_0.distcp is newer than its .metadata")
    assert watched.look() == expected
    (copy / "__1_0.distcp").write_bytes(b"".join(TWO_RANKS["__1_0.distcp"]))
    assert watched.look() == expected
    (copy / ".metadata.tmp").write_bytes((copy / ".metadata").read_bytes())
    assert watched.look() == (INCOMPLETE, "its .metadata is being replaced")
    (copy / ".metadata.tmp").replace(copy / ".metadata")
    assert watched.look() == (COMPLETE, "")


def test_a_shard_of_a_rank_that_is_new_to_the_folder_is_a_write_too(copy):
    watched = Watched(copy.parent)
    assert watched.look() == (COMPLETE, "")
    (copy / "__2_0.distcp").write_bytes(tensor())
    assert watched.look()[0] is INCOMPLETE


def test_a_temporary_index_that_is_older_than_the_index_is_an_old_leftover(copy):
    (copy / ".metadata.tmp").touch()
    os.utime(copy / ".metadata.tmp", (WRITTEN_S, WRITTEN_S))
    assert verdict(copy) == (COMPLETE, "")


@pytest.fixture
def written_over(copy, monkeypatch):
    """A copy whose shards are newer than its index by more than copying could take, all times being true."""
    monkeypatch.setattr(dcp, "_COPY_PAUSE_NS", 50_000_000)
    monkeypatch.setattr(dcp, "_CLOCKS_NS", 50_000_000)
    for name in (".metadata", *TWO_RANKS):
        data = (copy / name).read_bytes()
        (copy / name).unlink()
        (copy / name).write_bytes(data)
        time.sleep(0.5)
    return copy


def test_shards_a_whole_save_newer_than_the_index_at_first_sight_are_being_written_over(written_over):
    assert verdict(written_over) == (
        INCOMPLETE,
        "it is being written over: __0_0.distcp is 0 s newer than its .metadata",
    )


def test_an_index_whose_time_was_set_by_hand_proves_no_write_at_first_sight(written_over):
    os.utime(written_over / ".metadata", (WRITTEN_S, WRITTEN_S))
    assert verdict(written_over) == (SHAPELESS, "__0_0.distcp is newer than its .metadata")


def test_copies_whose_files_got_new_times_in_any_order_are_not_called_incomplete(copy):
    for name in (".metadata", *TWO_RANKS):
        (copy / name).write_bytes((copy / name).read_bytes())
    now_s = (copy / "__1_0.distcp").stat().st_mtime
    os.utime(copy / ".metadata", (now_s - 20, now_s - 20))
    assert verdict(copy) == (SHAPELESS, "__0_0.distcp is newer than its .metadata")


def test_times_that_were_set_by_hand_say_nothing(copy):
    os.utime(copy / "__0_0.distcp", (WRITTEN_S + 90_000, WRITTEN_S + 90_000))
    assert verdict(copy) == (COMPLETE, "")


def test_equal_times_and_clocks_that_differ_a_little_say_nothing(copy):
    for name in TWO_RANKS:
        (copy / name).write_bytes((copy / name).read_bytes())
    now_s = (copy / "__1_0.distcp").stat().st_mtime
    os.utime(copy / ".metadata", (now_s - 1, now_s - 1))
    assert verdict(copy) == (COMPLETE, "")


def test_a_copy_that_grows_again_after_a_restart_of_the_governor_is_judged_by_its_sizes(copy):
    (copy / "__0_0.distcp").write_bytes(b"PK")
    assert verdict(copy)[0] is INCOMPLETE


# What lies with it


def test_ranks_that_save_without_each_other_have_an_index_each(tmp_path):
    copy = write_dcp(tmp_path / "step_100", {"__0_0.distcp": [tensor()]}, "__0.metadata")
    write_dcp(copy, {"__3_0.distcp": [tensor(9)]}, "__3.metadata")
    assert verdict(copy) == (COMPLETE, "")
    (copy / "__3.metadata").unlink()
    assert verdict(copy) == (INCOMPLETE, "__3.metadata is not there yet")


def test_of_two_ways_to_save_into_one_folder_the_newer_counts(tmp_path):
    copy = write_dcp(tmp_path / "step_100", {"__0_0.distcp": [tensor(9)]}, "__0.metadata")
    write_dcp(copy, {"__0_0.distcp": [tensor(300)]})
    os.utime(copy / "__0.metadata", (WRITTEN_S - 500, WRITTEN_S - 500))
    assert verdict(copy) == (COMPLETE, "")


def test_a_bad_file_beside_the_shards_is_named(copy):
    (copy / "extra.pt").write_bytes(torch_zip()[:-30])
    assert verdict(copy) == (INCOMPLETE, "extra.pt: no end record")


def test_a_sharded_folder_of_lightning_needs_its_state(tmp_path):
    copy = write_dcp(tmp_path / "epoch=0-step=4.ckpt", TWO_RANKS)
    assert verdict(copy) == (INCOMPLETE, "its meta.pt is not there yet")
    (copy / "meta.pt").write_bytes(torch_zip())
    assert verdict(copy) == (COMPLETE, "")
    assert only(tmp_path).step == 4


def test_a_copy_that_lies_loose_in_the_unit_is_one_copy(tmp_path):
    write_dcp(tmp_path, TWO_RANKS)
    (tmp_path / "train.log").write_text("a line\n")
    sighting = only(tmp_path)
    assert (sighting.format, sighting.structure, sighting.why) == ("dcp", COMPLETE, "")
    (tmp_path / ".metadata").rename(tmp_path / ".metadata.tmp")
    both = {one.name: (one.structure, one.temporary) for one in seen(tmp_path).values()}
    assert both == {sighting.name: (INCOMPLETE, False), ".metadata.tmp": (INCOMPLETE, True)}


def test_a_loose_copy_is_judged_anew_when_its_index_comes(tmp_path):
    write_dcp(tmp_path, TWO_RANKS)
    (tmp_path / ".metadata").rename(tmp_path / "kept.txt")
    watched = Watched(tmp_path)
    assert watched.look()[0] is INCOMPLETE
    (tmp_path / "kept.txt").rename(tmp_path / ".metadata")
    assert watched.look() == (COMPLETE, "")


@pytest.mark.parametrize("inside", ["model", "optimizer/state"])
def test_a_distributed_copy_inside_of_a_folder_is_judged_with_it(tmp_path, inside):
    write_dcp(tmp_path / "step_100" / inside, TWO_RANKS)
    (tmp_path / "step_100" / "trainer.pt").write_bytes(torch_zip())
    assert (only(tmp_path).format, only(tmp_path).structure) == ("folder", SHAPELESS)
    (tmp_path / "step_100" / inside / "__1_0.distcp").write_bytes(b"PK")
    sighting = only(tmp_path)
    assert (sighting.structure, sighting.why.startswith(f"{inside}: __1_0.distcp: ")) == (INCOMPLETE, True)


# What it costs


def test_an_index_is_read_once_while_it_stays_the_same(copy, monkeypatch):
    read = []
    real = dcp_index.Reading
    monkeypatch.setattr(dcp_index, "Reading", lambda told: read.append(1) or real(told))
    os.utime(copy / ".metadata", (WRITTEN_S + 77, WRITTEN_S + 77))
    watched = Watched(copy.parent)
    for count in (3, 2, 1):
        (copy / "__1_0.distcp").write_bytes(bytes(count))
        assert watched.look()[0] is INCOMPLETE
    assert len(read) == 1


def test_only_a_bounded_number_of_indexes_is_remembered(copy):
    known = dcp_index.Indexes()

    def open_index():
        read.append(1)
        return RegularFile(root, ".metadata")

    read: list[int] = []
    root = os.open(copy, os.O_RDONLY)
    try:
        for number in (*range(40), 39, 39, 0):
            assert sorted(known.get((number,), open_index, no_hurry).shards) == sorted(TWO_RANKS)
    finally:
        os.close(root)
    assert len(read) == 41


def no_hurry():
    """There is time."""


def test_a_large_index_is_read_from_look_to_look_and_the_others_wait_for_it(tmp_path):
    class Later(TakesLong):
        """Not now."""

    def hurry():
        raise Later

    many = [(f"tensor {n}", f"__{n % 8}_0.distcp", 7 * n, 7) for n in range(8000)]
    root = os.open(tmp_path, os.O_RDONLY)
    (tmp_path / "large").write_bytes(index_of(many))
    (tmp_path / "small").write_bytes(index_of([("only", "__0_0.distcp", 0, 7)]))
    known, looks = dcp_index.Indexes(), 0
    try:
        while True:
            try:
                index = known.get(("large",), lambda: RegularFile(root, "large"), hurry)
                break
            except Later:
                looks += 1
            with pytest.raises(TakesLong):
                known.get(("small",), lambda: RegularFile(root, "small"), no_hurry)
        assert sorted(known.get(("small",), lambda: RegularFile(root, "small"), no_hurry).shards) == [
            "__0_0.distcp"
        ]
    finally:
        os.close(root)
    assert looks > 2
    assert {name: shard.bytes for name, shard in index.shards.items()} == {
        f"__{rank}_0.distcp": 7 * (7992 + rank + 1) for rank in range(8)
    }


# What a deep check finds


def planned(copy):
    """What a deep check of this copy's folder says, and how many bytes it read."""
    scanner = CopyScanner(str(copy.parent), budget_s=60.0)
    scanner.look(LONG_AFTER_S, 0.0)
    root = os.open(copy.parent, os.O_RDONLY)
    try:
        format, files = scanner.files_of(copy.name, root)
        found = check(files, format.plan(files))
    finally:
        os.close(root)
    return found.wrong, found.checked_bytes


def test_a_deep_check_reads_every_item(copy):
    wrong, checked = planned(copy)
    assert wrong == ""
    assert checked >= 100 + 7 + 300


def test_a_deep_check_names_the_item_with_a_flipped_bit(copy):
    whole = bytearray((copy / "__1_0.distcp").read_bytes())
    at = whole.index(bytes((5 * n + 1) % 251 for n in range(100)))
    whole[at + 50] ^= 4
    (copy / "__1_0.distcp").write_bytes(whole)
    assert "__1_0.distcp: __1_0.distcp.0" in planned(copy)[0]


def test_a_deep_check_of_a_damaged_index_says_so(copy):
    (copy / ".metadata").write_bytes(b"\x80\x02\xff")
    scanner = CopyScanner(str(copy.parent), budget_s=60.0)
    scanner.look(LONG_AFTER_S, 0.0)
    root = os.open(copy.parent, os.O_RDONLY)
    try:
        _, files = scanner.files_of(copy.name, root)
        with pytest.raises(Damage, match=r"\.metadata: "):
            dcp.Dcp().plan(files)
    finally:
        os.close(root)
