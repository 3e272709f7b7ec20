"""Archives of ``torch.save``: whole, cut, damaged, and what a deep check finds."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest
from formats.making import checked_deeply, end_of_zip, judged, torch_zip, word_of
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import SmallSize, Structure
from ckpt_governor.formats.zip_records import Damage, judge_archive

WHOLE = torch_zip()
COMPLETE, INCOMPLETE = Structure.COMPLETE, Structure.INCOMPLETE


class InMemory:
    """A file that counts what is read of it."""

    def __init__(self, data):
        self.data, self.size, self.mtime_ns, self.read_bytes = data, len(data), 0, 0

    def read_at(self, offset, count):
        """A piece of it."""
        piece = self.data[offset : offset + count] if offset >= 0 and count > 0 else b""
        self.read_bytes += len(piece)
        return piece

    def tail_hole(self, spared_bytes=0):
        """None: it is in memory."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def judge(data):
    """By the archive alone."""
    return judge_archive(InMemory(data), lambda _: "")


def deep(tmp_path, data):
    """The deep check of these bytes."""
    path = tmp_path / "a.pt"
    path.write_bytes(data)
    return checked_deeply("torch-zip", path)


def test_a_whole_archive_is_complete(tmp_path):
    (tmp_path / "a.pt").write_bytes(WHOLE)
    assert judged("torch-zip", tmp_path / "a.pt") == (COMPLETE, "", None, False, SmallSize.PROOF)


def test_every_cut_is_incomplete():
    assert all(judge(WHOLE[:count]).structure is INCOMPLETE for count in range(len(WHOLE)))


def test_a_cut_archive_says_what_is_missing():
    assert judge(WHOLE[: len(WHOLE) // 2]).why == "no end record"


def test_every_zeroed_tail_of_full_size_is_incomplete():
    for kept in range(0, len(WHOLE) - 60, 7):
        assert judge(WHOLE[:kept] + bytes(len(WHOLE) - kept)).structure is INCOMPLETE


def test_a_zeroed_piece_of_the_table_is_incomplete():
    at = WHOLE.index(b"PK\1\2") + 40
    assert judge(WHOLE[:at] + bytes(64) + WHOLE[at + 64 :]).why == "its table of records is damaged"


@pytest.mark.parametrize("count", [1, 8, 4096, 60_000])
def test_bytes_behind_the_end_are_doubtful_and_not_broken(count):
    judgement = judge(WHOLE + bytes(count))
    assert (judgement.structure, judgement.why) == (COMPLETE, f"{count} bytes follow its end record")


def test_bytes_before_the_archive_are_not_accepted():
    assert judge(b"x" * 16 + WHOLE).structure is INCOMPLETE


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (torch_zip({"byteorder": b"little"}), "no data.pkl in it"),
        (torch_zip(version=False), "no version record in it"),
    ],
    ids=["data.pkl", "version"],
)
def test_an_archive_without_what_torch_always_writes_is_incomplete(tmp_path, data, why):
    (tmp_path / "a.pt").write_bytes(data)
    assert judged("torch-zip", tmp_path / "a.pt")[:2] == (INCOMPLETE, why)


def test_the_version_may_stand_where_newer_releases_keep_it(tmp_path):
    (tmp_path / "a.pt").write_bytes(torch_zip({"data.pkl": b".", ".data/version": b"3"}, version=False))
    assert judged("torch-zip", tmp_path / "a.pt").structure is COMPLETE


def test_records_that_overlap_are_damage():
    at = WHOLE.rindex(b"PK\1\2") + 42
    assert judge(WHOLE[:at] + struct.pack("<L", 3) + WHOLE[at + 4 :]).structure is INCOMPLETE


def test_a_record_that_is_not_where_the_table_says_is_damage():
    name = WHOLE.index(b"archive/data/0")
    assert judge(WHOLE[:name] + b"x" + WHOLE[name + 1 :]).why == "a record is not where its table says"


def test_the_cheap_check_reads_only_the_ends():
    file = InMemory(torch_zip({"data.pkl": b".", "data/0": bytes(3_000_000)}))
    assert judge_archive(file, lambda _: "").structure is COMPLETE
    assert file.read_bytes < 4096


def test_an_archive_beyond_four_gigabytes_is_complete(tmp_path):
    big, small = 5 << 30, b"3\n"
    first = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, 0, 0, 0, 0, 0, 0, 12, 0) + b"big/data.pkl"
    version_at = len(first) + big
    second = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, 0, 0, 0, 0, 2, 2, 11, 0) + b"big/version" + small
    wide = struct.pack("<2H2Q", 1, 16, big, big)
    at = struct.pack("<2HQ", 1, 8, version_at)
    most = 0xFFFFFFFF
    table = struct.pack("<4s6H3L5H2L", b"PK\1\2", 45, 45, 0, 0, 0, 0, 0, most, most, 12, 20, 0, 0, 0, 0, 0)
    table += b"big/data.pkl" + wide
    table += struct.pack("<4s6H3L5H2L", b"PK\1\2", 45, 45, 0, 0, 0, 0, 0, 2, 2, 11, 12, 0, 0, 0, 0, most)
    table += b"big/version" + at
    table_at = version_at + len(second)
    with (tmp_path / "a.pt").open("wb") as file:  # a sparse file
        file.write(first)
        file.seek(version_at)
        file.write(second + end_of_zip(table_at, len(table), 2, table))
    assert judged("torch-zip", tmp_path / "a.pt") == (COMPLETE, "", None, False, SmallSize.PROOF)


def test_an_archive_of_the_standard_library_is_complete():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", b"numbers" * 99)
        archive.comment = b"with a comment"
    assert judge(made.getvalue()) == (COMPLETE, "", None, False, SmallSize.PROOF)
    assert judge(made.getvalue()[:-1]).structure is INCOMPLETE


def test_an_empty_archive_is_complete():
    made = io.BytesIO()
    zipfile.ZipFile(made, "w").close()
    assert judge(made.getvalue()).structure is COMPLETE


@given(st.binary(max_size=300), st.integers(0, len(WHOLE)), st.integers(0, 80))
def test_no_bytes_make_the_check_fail_in_another_way(noise, at, gone):
    for data in (noise, WHOLE[:at] + noise + WHOLE[at + gone :], noise + WHOLE[at:]):
        assert judge(data).structure in (COMPLETE, INCOMPLETE)


def test_a_deep_check_reads_every_record(tmp_path):
    data_bytes = sum(map(len, (b"\x80\x02}q\x00.", b"little", bytes(3072), b"3\n")))
    assert deep(tmp_path, WHOLE) == (COMPLETE, "", data_bytes)


@pytest.mark.parametrize("piece", [b"\x80\x02}q", bytes(range(100, 140))], ids=["pickle", "tensor"])
def test_a_deep_check_finds_a_flipped_bit(tmp_path, piece):
    at = WHOLE.index(piece)
    structure, why, _ = deep(tmp_path, WHOLE[:at] + bytes([WHOLE[at] ^ 4]) + WHOLE[at + 1 :])
    assert structure is INCOMPLETE
    assert "checksum of archive/data" in why


def test_an_archive_without_checksums_is_not_called_broken(tmp_path):
    assert deep(tmp_path, torch_zip(crc=False)) == (Structure.SHAPELESS, "has no checksums", 0)


def test_a_deep_check_of_a_cut_archive_says_so(tmp_path):
    assert deep(tmp_path, WHOLE[:-3])[0] is INCOMPLETE


def test_a_deep_check_unpacks_what_is_packed(tmp_path):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(3_000_000))
    assert deep(tmp_path, made.getvalue())[0] is COMPLETE
    spoilt = bytearray(made.getvalue())
    spoilt[60] ^= 0xFF
    assert deep(tmp_path, bytes(spoilt))[0] is INCOMPLETE


@pytest.mark.parametrize("count", [0, 2, 4, 20, 60, 500, len(WHOLE)])
def test_a_torch_file_is_recognised_however_little_of_it_is_there(count):
    assert word_of("step_1.pt", WHOLE[:count][:512]) == "torch-zip"


@pytest.mark.parametrize("name", ["weights.foo", "state", "model.bin"])
def test_a_torch_file_is_recognised_by_its_bytes_under_any_name(name):
    assert word_of(name, WHOLE[:512]) == "torch-zip"


def test_another_archive_under_a_name_of_torch_is_a_plain_zip():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("policy.pth", b"x")
    assert word_of("model_100_steps.zip", made.getvalue()) == "zip"
    assert word_of("a.ckpt", made.getvalue()) == "zip"
    assert word_of("sources.zip", made.getvalue()) is None


@pytest.mark.parametrize("name", ["step_1.npz", "step_1.keras"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 29])
def test_an_archive_is_recognised_by_its_name_however_little_of_it_is_there(tmp_path, name, count):
    (tmp_path / name).write_bytes(WHOLE[:count])
    assert word_of(name, WHOLE[:count]) == "zip"
    assert judged("zip", tmp_path / name).structure is INCOMPLETE


def test_shards_of_several_archives_are_not_taken_for_one():
    assert word_of("__0_0.distcp", WHOLE[:512]) == "file"


def test_damage_is_an_exception_with_a_clause():
    assert str(Damage("no end record")) == "no end record"


def test_more_records_than_the_table_has_room_for_are_damage(tmp_path):
    path = tmp_path / "step_1.pt"
    path.write_bytes(torch_zip()[:200] + end_of_zip(200, 40, 60_000, bytes(40)))
    assert judged("torch-zip", path).structure is INCOMPLETE
