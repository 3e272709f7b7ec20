"""TensorFlow bundles and SavedModels: what the index tells of the data, and what of it can be checked."""

from __future__ import annotations

import os
import struct
import time
from types import SimpleNamespace

import pytest
from formats.making_folders import (
    TENSORS,
    block,
    bundle,
    bundle_entry,
    bundle_index,
    only,
    saved_model,
    seen,
    table,
    varint,
)
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import Structure
from ckpt_governor.formats import deep, interface, tensorflow_bundle
from ckpt_governor.formats.crc32c import crc32c, fast_crc32c, masked
from ckpt_governor.observe.copies import CopyScanner

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
FIRST, SECOND = "ckpt-200.data-00000-of-00002", "ckpt-200.data-00001-of-00002"
HEADER = (b"", varint(1 << 3) + varint(1))


@pytest.fixture
def copy(tmp_path):
    """A folder with one bundle in it."""
    bundle(tmp_path, "ckpt-200")
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-200"\n')
    return tmp_path


def test_loose_files_of_one_prefix_are_one_copy(copy):
    found = only(copy)
    assert (found.name, found.format, found.step) == ("ckpt-200", "tensorflow", 200)
    assert (found.structure, found.why, found.bytes) == (COMPLETE, "", 1000)


def test_several_prefixes_are_several_copies(copy):
    bundle(copy, "ckpt-300")
    bundle(copy / "inner", "model.ckpt-7")
    assert sorted(seen(copy)) == ["ckpt-200", "ckpt-300", "inner/model.ckpt-7"]


@pytest.mark.parametrize("prefix", ["weights", "cp.ckpt", "my model.weights"])
def test_a_prefix_may_have_any_name(tmp_path, prefix):
    bundle(tmp_path, prefix)
    assert (only(tmp_path).name, only(tmp_path).structure) == (prefix, COMPLETE)


def test_an_index_alone_is_no_copy(copy):
    (copy / FIRST).unlink()
    (copy / SECOND).unlink()
    assert seen(copy) == {}


def test_the_index_ends_the_write_without_changing_the_copy(copy):
    index = (copy / "ckpt-200.index").read_bytes()
    (copy / "ckpt-200.index").unlink()
    scanner = CopyScanner(str(copy), budget_s=60.0)
    (before,) = scanner.look(2e9, 0.0).sightings
    (copy / "ckpt-200.index").write_bytes(index)
    (after,) = scanner.look(2e9 + 1, 0.0).sightings
    assert (before.structure, before.why) == (INCOMPLETE, "its index is missing")
    assert (after.structure, after.fingerprint) == (COMPLETE, before.fingerprint)


def test_a_missing_shard_is_named(copy):
    (copy / FIRST).unlink()
    assert (only(copy).structure, only(copy).why) == (INCOMPLETE, f"{FIRST} is missing")


def test_a_shard_that_is_a_link_is_neither_followed_nor_missing(copy, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "data"
    (copy / FIRST).rename(elsewhere)
    (copy / FIRST).symlink_to(elsewhere)
    assert only(copy).structure is SHAPELESS


def test_an_index_that_is_a_link_is_neither_followed_nor_missing(copy):
    (copy / "ckpt-200.index").rename(copy / "elsewhere")
    (copy / "ckpt-200.index").symlink_to(copy / "elsewhere")
    assert only(copy).structure is SHAPELESS


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_every_cut_of_the_data_is_incomplete(copy, name):
    size = (copy / name).stat().st_size
    for count in range(size - 1, -1, -7):
        os.truncate(copy / name, count)
        found = only(copy)
        assert (found.structure, found.why) == (
            INCOMPLETE,
            f"{name}: {size - count} of {size} bytes are missing",
        )


def test_every_cut_of_the_index_is_incomplete(copy):
    whole = (copy / "ckpt-200.index").read_bytes()
    for count in range(len(whole)):
        (copy / "ckpt-200.index").write_bytes(whole[:count])
        assert only(copy).structure is INCOMPLETE


def test_every_zeroed_end_of_the_index_is_incomplete(copy):
    whole = (copy / "ckpt-200.index").read_bytes()
    for count in range(0, len(whole), 3):
        (copy / "ckpt-200.index").write_bytes(whole[:count] + bytes(len(whole) - count))
        assert only(copy).structure is INCOMPLETE


def test_every_damaged_byte_of_a_block_of_the_index_is_found(copy):
    whole = (copy / "ckpt-200.index").read_bytes()
    end = whole.index(b"\0\0\0\0\1\0\0\0\0", whole.rindex(b"~"))  # of the block that lists the others
    passed = []
    for at in range(end):
        (copy / "ckpt-200.index").write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        if only(copy).structure is COMPLETE:
            passed.append(at)
    assert len(passed) <= 13  # a block about the table that nobody fills, and that is not read


def test_data_that_is_longer_or_newer_than_its_index_proves_nothing(copy):
    (copy / FIRST).write_bytes((copy / FIRST).read_bytes() + b"more")
    assert (only(copy).structure, only(copy).why) == (
        SHAPELESS,
        f"{FIRST} has 4 bytes more than its index tells",
    )
    bundle(copy, "ckpt-200")
    os.utime(copy / "ckpt-200.index", (1000, 1000))
    assert (only(copy).structure, only(copy).why) == (SHAPELESS, f"{FIRST} is newer than its index")


def test_a_packed_index_cannot_be_read(copy):
    (copy / "ckpt-200.index").write_bytes(bundle_index(TENSORS, kind=1))
    assert (only(copy).structure, only(copy).why) == (SHAPELESS, "its index is packed and cannot be checked")


def test_an_index_of_very_many_tiny_entries_is_not_read_to_its_end(copy):
    tiny = b"\0\1\0a" * 150_000 + struct.pack("<2L", 0, 1) + b"\0"
    data = tiny + struct.pack("<L", masked(crc32c(tiny)))
    end = block([(b"~", varint(0) + varint(len(data) - 5))])
    footer = varint(0) * 2 + varint(len(data)) + varint(len(end) - 5)
    (copy / "ckpt-200.index").write_bytes(data + end + footer.ljust(40, b"\0") + table([])[-8:])
    found = only(copy)
    assert (found.structure, found.why) == (
        SHAPELESS,
        "its index has more than 100000 tensors, too many to be checked",
    )


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [(b"a", bundle_entry(1, 0, 0, b"x"))],
        [HEADER, (b"a", bundle_entry(1, 7, 0, b"x"))],
        [(b"", varint(1 << 3) + varint(1 << 60))],
        [HEADER, (b"a", b"\x22\xff")],
        [HEADER, (b"a", b"\x0a")],
        [HEADER, (b"a", b"\x22\x01\x00")],
        [HEADER, (b"a", b"\xff" * 12)],
    ],
    ids=[
        "none",
        "no header",
        "no such shard",
        "shards without end",
        "cut",
        "no length",
        "bytes for a number",
        "no number",
    ],
)
def test_an_index_that_makes_no_sense_is_damaged(copy, entries):
    (copy / "ckpt-200.index").write_bytes(table(entries))
    assert (only(copy).structure, only(copy).why) == (INCOMPLETE, "its index is damaged")


def test_a_tensor_may_claim_to_lie_anywhere(copy):
    entry = varint(4 << 3) + varint((1 << 63) - 1) + varint(5 << 3) + varint((1 << 63) - 1)
    (copy / "ckpt-200.index").write_bytes(table([HEADER, (b"a", entry)]))
    assert only(copy).why == "ckpt-200.data-00000-of-00001 is missing"


def test_blocks_that_are_named_again_and_again_are_not_read_again(copy):
    whole = table([HEADER, *((b"%06d" % number, bytes(20)) for number in range(20_000))], in_block=20_001)
    handles = [(b"%05d" % number, varint(0) + varint(len(whole) // 2)) for number in range(20_000)]
    (copy / "ckpt-200.index").write_bytes(whole[:-48] + table(handles)[-48:])
    began_s = time.monotonic()
    assert only(copy).structure is INCOMPLETE
    assert time.monotonic() - began_s < 10.0


def test_a_very_long_index_is_not_read(copy):
    os.truncate(copy / "ckpt-200.index", 5 << 20)
    assert only(copy).structure is SHAPELESS


def test_a_large_index_is_believed_behind_what_is_summed(tmp_path):
    tensors = [bytes([number % 256]) * 3 for number in range(30_000)]
    bundle(tmp_path, "big", [tensors])
    assert (tmp_path / "big.index").stat().st_size > 1 << 20
    assert only(tmp_path).structure is COMPLETE


@given(st.binary(max_size=60), st.integers(0, 700))
def test_no_bytes_of_an_index_make_the_check_fail_in_another_way(tmp_path_factory, noise, at):
    folder = tmp_path_factory.mktemp("noise")
    bundle(folder, "ckpt-200")
    whole = (folder / "ckpt-200.index").read_bytes()
    (folder / "ckpt-200.index").write_bytes(whole[:at] + noise + whole[at + len(noise) :])
    assert only(folder).structure in (COMPLETE, INCOMPLETE, SHAPELESS)


@given(st.binary(max_size=300))
def test_bytes_that_end_as_an_index_does_are_no_trouble(tmp_path_factory, noise):
    folder = tmp_path_factory.mktemp("noise")
    bundle(folder, "ckpt-200")
    whole = (folder / "ckpt-200.index").read_bytes()
    (folder / "ckpt-200.index").write_bytes(noise + whole[-48:])
    assert only(folder).structure in (INCOMPLETE, SHAPELESS)


# In folders


def test_a_numbered_folder_with_one_bundle_is_one_copy(tmp_path):
    bundle(tmp_path / "step_100", "ckpt")
    found = only(tmp_path)
    assert (found.name, found.format, found.step, found.structure) == (
        "step_100",
        "tensorflow",
        100,
        COMPLETE,
    )
    os.truncate(tmp_path / "step_100" / "ckpt.data-00000-of-00002", 5)
    assert only(tmp_path).structure is INCOMPLETE


def test_a_numbered_folder_with_bundles_of_other_steps_is_a_place(tmp_path):
    bundle(tmp_path / "run_1", "ckpt-100")
    bundle(tmp_path / "run_1", "ckpt-200")
    assert sorted(seen(tmp_path)) == ["run_1/ckpt-100", "run_1/ckpt-200"]


def test_a_saved_model_is_one_copy(tmp_path):
    saved_model(tmp_path / "export")
    found = only(tmp_path)
    assert (found.name, found.format, found.structure, found.why) == ("export", "saved-model", COMPLETE, "")


def test_a_saved_model_without_variables_is_one_copy(tmp_path):
    saved_model(tmp_path / "export")
    for file in (tmp_path / "export" / "variables").iterdir():
        file.unlink()
    assert only(tmp_path).structure is COMPLETE


@pytest.mark.parametrize(
    "name", ["variables/variables.index", "variables/variables.data-00001-of-00002", "saved_model.pb"]
)
def test_every_cut_of_a_saved_model_is_incomplete(tmp_path, name):
    saved_model(tmp_path / "export")
    path = tmp_path / "export" / name
    for count in range(path.stat().st_size - 1, -1, -5):
        os.truncate(path, count)
        assert only(tmp_path).structure is INCOMPLETE


@pytest.mark.parametrize("name", ["variables/variables.index", "variables/variables.data-00001-of-00002"])
def test_a_part_that_a_saved_model_lacks_makes_it_incomplete(tmp_path, name):
    saved_model(tmp_path / "export")
    (tmp_path / "export" / name).unlink()
    assert (only(tmp_path).structure, "missing" in only(tmp_path).why) == (INCOMPLETE, True)


def test_a_saved_model_without_its_program_yet_is_incomplete(tmp_path):
    saved_model(tmp_path / "export")
    (tmp_path / "export" / "saved_model.pb").unlink()
    assert seen(tmp_path) == {}  # its variables alone are no copy
    (tmp_path / "export" / "assets").mkdir()
    assert only(tmp_path).why == "saved_model.pb is missing"


@pytest.mark.parametrize("data", [b"\x0b\x01\x0c", b"\x08\x01" * 500])
def test_a_program_of_an_unknown_kind_proves_nothing(tmp_path, data):
    saved_model(tmp_path / "export")
    (tmp_path / "export" / "saved_model.pb").write_bytes(data)
    assert only(tmp_path).structure is SHAPELESS


@given(st.binary(max_size=100))
def test_no_bytes_of_a_program_make_the_check_fail(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("noise")
    saved_model(folder / "export")
    (folder / "export" / "saved_model.pb").write_bytes(data)
    assert only(folder).structure in (COMPLETE, INCOMPLETE, SHAPELESS)


# Checksums


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """What a deep check of the one copy in the unit finds, with the slow checksum for a fast one."""
    monkeypatch.setattr(tensorflow_bundle, "fast_crc32c", lambda: crc32c)

    def check():
        scanner = CopyScanner(str(tmp_path), budget_s=60.0)
        (sighting,) = scanner.look(2e9, 0.0).sightings
        root = os.open(tmp_path, os.O_RDONLY)
        try:
            found = scanner.files_of(sighting.name, root)
            assert found is not None
            plan = deep.each_byte_once(found[0].plan(found[1]), found[1].members)
            return SimpleNamespace(why=plan.why, **deep.check(found[1], plan)._asdict())
        finally:
            os.close(root)

    return check


@pytest.mark.parametrize("where", ["ckpt-200", "export"])
def test_every_tensor_has_a_checksum(tmp_path, checked, where):
    if where == "export":
        saved_model(tmp_path / "export")
    else:
        bundle(tmp_path, where)
    assert (checked().wrong, checked().checked_bytes) == ("", 1000)


@pytest.mark.parametrize("at", [0, 199, 200, 499])
def test_a_changed_byte_is_found_by_its_checksum(copy, checked, at):
    data = bytearray((copy / FIRST).read_bytes())
    data[at] ^= 1
    (copy / FIRST).write_bytes(data)
    os.utime(copy / FIRST, (1000, 1000))
    assert only(copy).structure is COMPLETE
    assert checked().wrong == f"the checksum of tensor {0 if at < 200 else 1} in {FIRST} is wrong"


def test_texts_have_checksums_of_something_else(copy, checked):
    entry = bundle_entry(7, 0, 0, b"text")[:-4] + struct.pack("<L", 1)
    (copy / "ckpt-200.index").write_bytes(table([HEADER, (b"a", entry)]))
    (copy / "ckpt-200.data-00000-of-00001").write_bytes(b"text")
    assert (checked().wrong, checked().checked_bytes) == ("", 0)


def test_without_a_fast_checksum_no_tensor_is_read(copy, checked, monkeypatch):
    monkeypatch.setattr(tensorflow_bundle, "fast_crc32c", lambda: None)
    assert (checked().wrong, checked().checked_bytes) == ("", 0)


@pytest.mark.library("google_crc32c")
def test_with_the_module_of_the_extra_a_changed_byte_is_found(copy, checked, monkeypatch):
    monkeypatch.setattr(tensorflow_bundle, "fast_crc32c", fast_crc32c)
    assert (checked().wrong, checked().checked_bytes) == ("", 1000)
    data = bytearray((copy / FIRST).read_bytes())
    data[300] ^= 1
    (copy / FIRST).write_bytes(data)
    assert checked().wrong == f"the checksum of tensor 1 in {FIRST} is wrong"


ONE_SHARD = "ckpt-200.data-00000-of-00001"


def test_tensors_that_lie_over_each_other_are_read_once_and_told(copy, checked):
    entries = [(b"%03d" % n, bundle_entry(1, 0, n, bytes(500))) for n in range(100)]
    (copy / "ckpt-200.index").write_bytes(table([HEADER, *entries]))
    (copy / ONE_SHARD).write_bytes(bytes(600))
    assert (checked().why, checked().checked_bytes) == ("parts that lie over others are not checked: 99", 500)


def test_an_index_of_very_many_tensors_is_checked_in_part(copy, checked, monkeypatch):
    monkeypatch.setattr(interface, "PIECES_MAX", 10)
    entries = [(b"%03d" % n, bundle_entry(1, 0, n, b"x")) for n in range(100)]
    (copy / "ckpt-200.index").write_bytes(table([HEADER, *entries]))
    (copy / ONE_SHARD).write_bytes(b"x" * 100)
    assert (checked().wrong, checked().checked_bytes, checked().why) == ("", 10, interface.TOO_MANY)
