"""What files claim cannot make a deep check big or slow: many pieces, pieces over each other, bombs, endless holes."""

from __future__ import annotations

import io
import itertools
import json
import os
import struct
import tracemalloc
import zipfile
import zlib

import pytest
from formats.making import Shown, known, torch_zip
from formats.making_distributed import TWO_RANKS, index_of, tensor, write_dcp, write_deepspeed

from ckpt_governor.formats import deep, interface, zip_records
from ckpt_governor.formats.deep import check, each_byte_once, ranges
from ckpt_governor.formats.interface import NO_CHECKSUMS, TOO_MANY, Damage, Piece, Plan, gathered
from ckpt_governor.observe.copies import CopyScanner
from ckpt_governor.observe.deep import DeepStatus, check_copy
from ckpt_reader.manifest import write_manifest

LONG_AFTER_S = 2_000_000_000.0
TENSOR = tensor(5000)
SHARD = "__0_0.distcp"


def checked(copy):
    """What a deep check of this copy comes to."""
    scanner = CopyScanner(str(copy.parent), budget_s=60.0)
    scanner.look(LONG_AFTER_S, 0.0)
    root = os.open(copy.parent, os.O_RDONLY)
    try:
        return check_copy(*scanner.files_of(copy.name, root), threads=2)
    finally:
        os.close(root)


@pytest.fixture
def read_bytes(monkeypatch):
    """How many bytes of tensors were read, in all."""
    counted = []
    real = deep._Source.views

    def counting(self, offset, length):
        for view in real(self, offset, length):
            counted.append(len(view))
            yield view

    monkeypatch.setattr(deep._Source, "views", counting)
    return counted


@pytest.fixture
def parsed(monkeypatch):
    """The archives of which a table was read."""
    seen = []
    real = zip_records.read_records

    def counting(file, end):
        seen.append(end)
        return real(file, end)

    monkeypatch.setattr(zip_records, "read_records", counting)
    return seen


# The pieces of a whole plan


def pieces(count, at=0):
    """So many pieces, one after another."""
    return tuple(Piece("m", at + number, 1, "", 0) for number in range(count))


def test_after_too_many_pieces_no_further_plan_is_made(monkeypatch):
    monkeypatch.setattr(interface, "PIECES_MAX", 100)
    made = []

    def plans():
        for number in itertools.count():
            made.append(number)
            yield Plan(pieces(30, 30 * number))

    plan = gathered(plans())
    assert (len(plan.pieces), plan.why, made) == (100, TOO_MANY, [0, 1, 2, 3])
    assert "200,000" in TOO_MANY


def test_plans_without_a_piece_are_asked_for_to_the_end_and_their_reason_is_kept():
    plans = [NO_CHECKSUMS, Plan((), "has something odd"), Plan(pieces(2), "else"), NO_CHECKSUMS]
    assert gathered(plans) == Plan(pieces(2), "has something odd")
    assert gathered([NO_CHECKSUMS, NO_CHECKSUMS]) == NO_CHECKSUMS


@pytest.mark.parametrize("how", ["dcp", "folder", "dcp in a folder"])
def test_a_copy_with_too_many_checksums_is_checked_in_part_and_says_so(tmp_path, monkeypatch, how):
    monkeypatch.setattr(interface, "PIECES_MAX", 20)
    copy = tmp_path / "step_100"
    if how == "folder":
        copy.mkdir()
        for number in range(20):
            (copy / f"part{number}.pt").write_bytes(TENSOR)
    else:
        write_dcp(copy / "optimizer" if how == "dcp in a folder" else copy, {SHARD: [TENSOR] * 20})
    found = checked(copy)
    assert (found.status, found.why.endswith(TOO_MANY)) == (DeepStatus.SOUND, True)
    assert 20_000 < found.checked_bytes < 30_000


def test_a_copy_with_a_manifest_and_too_many_checksums_says_so_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(interface, "PIECES_MAX", 20)
    copy = write_dcp(tmp_path / "step_100", {SHARD: [TENSOR] * 20})
    assert write_manifest(copy)
    listed = json.loads((copy / "manifest.json").read_bytes())
    del listed["files"][SHARD]
    (copy / "manifest.json").write_text(json.dumps(listed))
    assert checked(copy).why == TOO_MANY


# Pieces that lie over each other


def data_of(tmp_path):
    """A file, and a piece of it with its checksum or another one."""
    path = tmp_path / "a"
    path.write_bytes(bytes(n % 251 for n in range(1000)))

    def piece(offset, length, *, wrong=0, member=""):
        crc = zlib.crc32(path.read_bytes()[offset : offset + length])
        return Piece(member, offset, length, f"{offset}+{length}", crc ^ wrong)

    return path, piece


def test_what_is_told_twice_in_the_same_way_is_read_once_and_nothing_is_said(tmp_path, read_bytes):
    path, piece = data_of(tmp_path)
    plan = each_byte_once(Plan((piece(0, 600), piece(0, 600), piece(600, 400))), Shown(path).members)
    assert (len(plan.pieces), plan.why) == (2, "")
    assert check(Shown(path), plan) == ("", 1000, None)
    assert sum(read_bytes) == 1000


def test_what_lies_over_another_is_left_out_and_told(tmp_path):
    path, piece = data_of(tmp_path)
    plan = Plan(
        (piece(500, 100), piece(0, 510), piece(505, 495), piece(3, 4, wrong=1), piece(600, 400)), "odd"
    )
    once = each_byte_once(plan, Shown(path).members)
    assert [one.what for one in once.pieces] == ["0+510", "600+400"]
    assert once.why == "odd; parts that lie over others are not checked: 3"


def test_bytes_with_two_checksums_are_damage(tmp_path):
    path, piece = data_of(tmp_path)
    with pytest.raises(Damage, match=r"^10\+20 has two checksums$"):
        each_byte_once(Plan((piece(10, 20), piece(10, 20, wrong=1))), Shown(path).members)


def test_pieces_without_bytes_and_pieces_of_no_member_stay_for_the_check_to_judge(tmp_path):
    path, piece = data_of(tmp_path)
    plan = Plan((piece(0, 1000), piece(5, 0), piece(5, 0, wrong=1), piece(5, 9, member="other")))
    assert each_byte_once(plan, Shown(path).members) is plan


def test_of_many_names_of_one_file_one_is_read(tmp_path, read_bytes, parsed):
    copy = tmp_path / "step_100"
    copy.mkdir()
    (copy / "model0.pt").write_bytes(TENSOR)
    for number in range(1, 50):
        os.link(copy / "model0.pt", copy / f"model{number}.pt")
    scanner = CopyScanner(str(tmp_path), budget_s=60.0)
    scanner.look(LONG_AFTER_S, 0.0)
    parsed.clear()
    assert checked(copy).status is DeepStatus.SOUND
    assert len(parsed) == 1 + 1  # once by the cheap check, and once for the plan
    assert sum(read_bytes) < len(TENSOR)


def test_of_many_names_of_one_file_in_a_manifest_one_is_read(tmp_path, read_bytes):
    copy = tmp_path / "step_100"
    copy.mkdir()
    (copy / "a.bin").write_bytes(b"numbers" * 100)
    os.link(copy / "a.bin", copy / "b.bin")
    assert write_manifest(copy)
    found = checked(copy)
    assert (found.status, found.why, found.checked_bytes, sum(read_bytes)) == (DeepStatus.SOUND, "", 700, 700)


@pytest.mark.parametrize("how", ["identical", "longer and longer", "one shard under many names"])
def test_items_of_an_index_that_lie_over_each_other_are_read_once(tmp_path, read_bytes, parsed, how):
    copy = write_dcp(tmp_path / "step_100", {SHARD: [TENSOR]})
    with (copy / SHARD).open("ab") as file:
        file.write(bytes(300))
    items = [("a", SHARD, 0, len(TENSOR))]
    for number in range(1, 300):
        name = f"__{number}_0.distcp"
        if how == "one shard under many names":
            os.link(copy / SHARD, copy / name)
            items.append((f"b{number}", name, 0, len(TENSOR)))
        else:
            items.append(
                (f"b{number}", SHARD, 0, len(TENSOR) + (number if how == "longer and longer" else 0))
            )
    (copy / ".metadata").write_bytes(index_of(items))
    found = checked(copy)
    assert (found.status, len(parsed)) == (DeepStatus.SOUND, 1)
    assert found.why == (
        "items that lie over others are not checked: 299" if how == "longer and longer" else ""
    )
    assert 5000 < sum(read_bytes) < len(TENSOR)


def test_an_item_of_a_shard_that_is_a_link_is_told_and_not_read(tmp_path):
    copy = write_dcp(tmp_path / "step_100", TWO_RANKS)
    os.rename(copy / "__1_0.distcp", tmp_path / "elsewhere")
    (copy / "__1_0.distcp").symlink_to(tmp_path / "elsewhere")
    found = checked(copy)
    assert (found.status, found.why) == (
        DeepStatus.SOUND,
        "__1_0.distcp is no file in it, and is not checked",
    )


def test_an_archive_whose_records_reach_into_each_other_is_damaged(tmp_path):
    data = bytearray(torch_zip({"data.pkl": b"\x80\x02.", "data/0": bytes(range(200))}))
    second = data.index(b"PK\3\4", 4)
    data[second + 28 : second + 30] = struct.pack("<H", 150)  # the extra field before its data
    (tmp_path / "a.pt").write_bytes(data)
    with pytest.raises(Damage, match="its records overlap"):
        known("torch-zip").plan(Shown(tmp_path / "a.pt"))


# Packed records


def packed(name, data, *, told=None, crc=None):
    """An archive with one packed record, of which the table tells another length when it is given."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    whole = bytearray(made.getvalue())
    entry = whole.index(b"PK\1\2")
    if told is not None:
        whole[entry + 24 : entry + 28] = struct.pack("<L", told)
    if crc is not None:
        whole[entry + 16 : entry + 20] = struct.pack("<L", crc)
    return bytes(whole)


def outcome(path, data):
    """What is wrong with these bytes as an archive, and how many of its bytes were read."""
    path.write_bytes(data)
    found = check(Shown(path), known("zip").plan(Shown(path)), threads=2)
    return found.wrong, found.checked_bytes


@pytest.mark.parametrize("told", [0, 1, 4999, 5001, 1 << 20, 0xFFFFFFF0])
def test_what_unpacks_to_another_length_than_the_table_tells_is_wrong(tmp_path, told):
    data = bytes(range(250)) * 20
    more = "more" if told < 5000 else "less"
    assert outcome(tmp_path / "a.npz", packed("x.npy", data, told=told))[0] == (
        f"x.npy unpacks to {more} than its table tells"
    )


def test_of_a_bomb_no_more_is_unpacked_than_the_table_tells(tmp_path, monkeypatch):
    unpacked = []
    real = zlib.crc32

    def counting(data, crc=0):
        unpacked.append(len(data))
        return real(data, crc)

    path = tmp_path / "a.npz"
    path.write_bytes(packed("x.npy", bytes(100 << 20), told=3 << 20))
    plan = known("zip").plan(Shown(path))
    monkeypatch.setattr(zip_records.zlib, "crc32", counting)
    tracemalloc.start()
    try:
        found = check(Shown(path), plan)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert found.wrong == "x.npy unpacks to more than its table tells"
    assert sum(unpacked) == (3 << 20) + 1


def with_packed_data(name, packed_data, plain, told=None):
    """An archive with one record of just these packed bytes."""
    crc, head = zlib.crc32(plain), name.encode()
    told = len(plain) if told is None else told
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, crc, len(packed_data), told, len(head), 0)
    entry = struct.pack(
        "<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 0, crc, len(packed_data), told, len(head), 0, 0, 0, 0, 0, 0
    )
    body, table = local + head + packed_data, entry + head
    return body + table + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(table), len(body), 0)


def deflated(data, *, end=True):
    """These bytes as a zip packs them; without ``end`` the stream is not closed."""
    pack = zlib.compressobj(wbits=-15)
    return pack.compress(data) + pack.flush(zlib.Z_FINISH if end else zlib.Z_SYNC_FLUSH)


def test_what_follows_the_end_of_packed_data_is_neither_read_nor_kept(tmp_path):
    path, follows = tmp_path / "a.npz", 64 << 20
    data = with_packed_data("x.npy", deflated(b"numbers" * 9) + bytes(follows), b"numbers" * 9)
    tracemalloc.start()
    try:
        path.write_bytes(data)
        del data
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        found = check(Shown(path), known("zip").plan(Shown(path)))
        assert tracemalloc.get_traced_memory()[1] - before < 8 << 20
    finally:
        tracemalloc.stop()
    assert found.wrong == ""
    assert found.checked_bytes < follows


def test_packed_data_that_is_not_closed_is_wrong_though_all_of_it_is_there(tmp_path):
    data = with_packed_data("x.npy", deflated(b"numbers", end=False), b"numbers")
    assert outcome(tmp_path / "a.npz", data)[0] == "x.npy unpacks to less than its table tells"


def test_packed_data_that_makes_no_sense_is_told_with_its_name(tmp_path):
    data = with_packed_data("x.npy", b"\xff" * 50, b"numbers")
    assert outcome(tmp_path / "a.npz", data)[0] == "x.npy cannot be unpacked"


def test_a_wrong_checksum_of_packed_data_is_told_as_any_other(tmp_path):
    assert outcome(tmp_path / "a.npz", packed("x.npy", b"numbers", crc=5))[0] == (
        "the checksum of x.npy is wrong"
    )


def test_blocks_without_bytes_are_gone_through_once(tmp_path):
    empty = b"\0\0\0\xff\xff"
    data = with_packed_data("x.npy", empty * 1_000_000 + deflated(b"numbers"), b"numbers")
    assert outcome(tmp_path / "a.npz", data) == ("", 5_000_000 + len(deflated(b"numbers")))


# Long records


def test_a_record_of_exbibytes_takes_no_memory_for_its_ranges():
    tracemalloc.start()
    try:
        tasks = ranges([Piece("m", 0, 1 << 62, "", 0)], set())
        first = list(itertools.islice(tasks, 3))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert [task[0].offset for task in first] == [0, deep.RANGE_BYTES, 2 * deep.RANGE_BYTES]


def test_the_checksum_of_a_long_record_is_joined_as_its_ranges_come(tmp_path, monkeypatch):
    monkeypatch.setattr(deep, "RANGE_BYTES", 1000)
    path = tmp_path / "a"
    path.write_bytes(os.urandom(500_000))
    held = []
    real = deep._Joined.add

    def watching(self, one, crc):
        done = real(self, one, crc)
        held.append(len(self._early))
        return done

    monkeypatch.setattr(deep._Joined, "add", watching)
    piece = Piece("", 0, 500_000, "r", zlib.crc32(path.read_bytes()))
    assert check(Shown(path), Plan((piece,)), threads=1).wrong == ""
    assert (len(held), max(held)) == (500, 0)


# Copies inside of a copy


@pytest.mark.parametrize("outer", ["run/step_100", "checkpoint-100"])
@pytest.mark.parametrize("inner", ["dcp", "deepspeed", "megatron"])
def test_the_shards_of_a_distributed_copy_inside_of_a_copy_are_checked(tmp_path, outer, inner):
    copy = tmp_path / outer.rpartition("/")[2]
    copy.mkdir()
    if outer == "checkpoint-100":
        (copy / "trainer_state.json").write_text("{}")
        (copy / "config.json").write_text("{}")
    (copy / "model.pt").write_bytes(TENSOR)
    folder = copy / ("global_step100" if inner == "deepspeed" else "optimizer_0")
    if inner == "deepspeed":
        write_deepspeed(folder)
        victim = folder / "mp_rank_00_model_states.pt"
    else:
        write_dcp(folder, TWO_RANKS)
        victim = folder / "__1_0.distcp"
    if inner == "megatron":
        (folder / "common.pt").write_bytes(TENSOR)
        (folder / "metadata.json").write_text('{"sharded_backend": "torch_dist"}')
    found = checked(copy)
    assert (found.status, found.why) == (DeepStatus.SOUND, "")
    inside = sum(path.stat().st_size for path in copy.rglob("*") if path.suffix in (".pt", ".distcp"))
    records = sum(path.read_bytes().count(b"PK\3\4") for path in copy.rglob("*.*"))
    assert found.checked_bytes > inside - 400 * records
    data = bytearray(victim.read_bytes())
    data[data.index(b"data/0") + 40] ^= 1
    victim.write_bytes(data)
    found = checked(copy)
    assert found.status is DeepStatus.BROKEN
    assert found.why.startswith(f"the checksum of {victim.relative_to(copy)}: ")


def test_a_cut_item_inside_of_a_copy_is_told_with_its_place(tmp_path):
    copy = tmp_path / "step_100"
    write_dcp(copy / "optimizer", TWO_RANKS)
    items = [("w", "__0_0.distcp", 0, 200)]
    (copy / "optimizer" / ".metadata").write_bytes(index_of(items))
    assert checked(copy).why == "optimizer: __0_0.distcp: w: no end record"
