"""The runner of deep checks: every planned byte is read once, by any number of threads, whatever the files do."""

from __future__ import annotations

import io
import os
import threading
import zipfile
import zlib
from pathlib import Path

import pytest
from formats.making import Shown, known, torch_zip
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.formats import deep
from ckpt_governor.formats.deep import Range, check, ranges
from ckpt_governor.formats.interface import NO_CHECKSUMS, Damage, Piece, Plan
from ckpt_governor.formats.zip_records import plan_archive

DATA = bytes(n * 31 % 251 for n in range(100_000))


@pytest.fixture
def small(monkeypatch):
    """Ranges and buffers so small that little data makes many of them."""
    monkeypatch.setattr(deep, "RANGE_BYTES", 1000)
    monkeypatch.setattr(deep, "BUFFER_BYTES", 300)


@pytest.fixture
def file(tmp_path):
    """A file with known bytes."""
    path = tmp_path / "a.bin"
    path.write_bytes(DATA)
    return path


def piece(offset, length, *, wrong=False, member="", what=""):
    """A piece of the file with its checksum, or with another."""
    crc = zlib.crc32(DATA[offset : offset + length])
    return Piece(member, offset, length, what or f"{offset}+{length}", crc ^ wrong)


def run(path, *pieces, threads=2, **more):
    """The outcome of a plan of these pieces."""
    return check(Shown(path), Plan(pieces), threads=threads, **more)


# The plan as tasks


spans = st.lists(st.tuples(st.integers(0, 20 << 20), st.integers(0, 20 << 20)), max_size=12)


@given(spans, st.sets(st.integers(0, 11)))
def test_every_byte_of_every_piece_is_in_one_range_of_a_bounded_task(spans, skipped):
    pieces = [Piece("m", offset, length, "", 0) for offset, length in spans]
    without = {number for number in skipped if number < len(pieces)}
    tasks = list(ranges(pieces, without))
    for number, one in enumerate(pieces):
        mine = sorted(part for task in tasks for part in task if part.piece == number)
        if number in without:
            assert mine == []
            continue
        reached = one.offset
        for part in mine:
            assert part.offset == reached
            reached += part.length
        assert reached == one.offset + one.length
    for task in tasks:
        assert task == sorted(task, key=lambda part: part.offset)
        assert task[-1].offset + task[-1].length - task[0].offset <= deep.RANGE_BYTES


def test_neighbours_are_read_together_and_what_lies_apart_is_not():
    pieces = [
        Piece("m", 0, 10, "", 0),
        Piece("m", 20, 10, "", 0),
        Piece("m", 4 << 20, 10, "", 0),
        Piece("n", 30, 10, "", 0),
    ]
    assert list(ranges(pieces, set())) == [
        [Range(0, 0, 10), Range(1, 20, 10)],
        [Range(2, 4 << 20, 10)],
        [Range(3, 30, 10)],
    ]


def test_a_long_piece_is_cut_only_when_its_checksum_can_be_joined():
    long = 3 * deep.RANGE_BYTES
    assert len(list(ranges([Piece("m", 0, long, "", 0)], set()))) == 3
    assert list(ranges([Piece("m", 0, long, "", str)], set())) == [[Range(0, 0, long)]]


def test_a_check_of_the_formats_own_has_its_task_for_itself():
    pieces = [Piece("m", 0, 10, "", 0), Piece("m", 10, 10, "", str), Piece("m", 20, 10, "", 0)]
    assert list(ranges(pieces, set())) == [[Range(0, 0, 10)], [Range(1, 10, 10)], [Range(2, 20, 10)]]


# The check


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_right_checksums_are_right_however_many_threads_look(small, file, threads):
    pieces = [piece(0, 50_000), piece(50_000, 1), piece(50_001, 0), piece(60_000, 40_000)]
    assert run(file, *pieces, threads=threads) == ("", 90_001, None)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_first_wrong_one_is_named_and_the_others_counted(small, file, threads):
    pieces = [piece(0, 50), piece(100, 5000, wrong=True, what="b"), piece(9000, 50, wrong=True, what="c")]
    assert run(file, *pieces, threads=threads).wrong == "the checksum of b is wrong, and 1 more like it"


@given(st.integers(0, len(DATA) - 1))
def test_every_flipped_byte_is_found(at):
    class Flipped:
        members = Shown(Path(__file__)).members[:0]

        def open(self, member):
            return self

        def read_once(self):
            pass

        def read_into(self, buffer, offset):
            data = bytearray(DATA[offset : offset + len(buffer)])
            if offset <= at < offset + len(data):
                data[at - offset] ^= 1
            buffer[: len(data)] = data
            return len(data)

        def __exit__(self, *_):
            pass

    files = Flipped()
    files.members = (Shown(Path(__file__)).members[0]._replace(bytes=len(DATA)),)
    halves = Plan((piece(0, 50_000, what="one"), piece(50_000, 50_000, what="two")))
    assert check(files, halves).wrong == f"the checksum of {'one' if at < 50_000 else 'two'} is wrong"


def test_an_empty_plan_reads_nothing(file):
    assert run(file) == ("", 0, None)


@pytest.mark.parametrize(
    ("offset", "length"), [(99_000, 1001), (-1, 5), (5, -1), (1 << 62, 1), (0, 1 << 62)], ids=str
)
def test_what_reaches_beyond_the_file_is_cut_and_not_counted_through(file, offset, length):
    assert run(file, Piece("", offset, length, "r", 5)) == ("r is cut", 0, None)


def test_a_piece_of_no_member_is_cut(file):
    assert run(file, piece(0, 5, member="other", what="r")).wrong == "r is cut"


def test_a_file_that_is_cut_while_it_is_read_has_a_cut_piece(small, file):
    shown = Shown(file)
    os.truncate(file, 70_000)
    assert check(shown, Plan((piece(0, 100_000, what="r"),)), threads=2).wrong == "r is cut"


def test_a_file_that_vanished_is_said_and_nothing_is_wrong(file):
    shown = Shown(file)
    file.unlink()
    found = check(shown, Plan((piece(0, 100_000),)), threads=2)
    assert (found.wrong, found.checked_bytes) == ("", 0)
    assert isinstance(found.unread, FileNotFoundError)


def test_a_read_that_fails_ends_the_check(small, file, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("ckpt_governor.formats.reading.RegularFile.read_into", fail)
    found = run(file, piece(0, 50_000), piece(50_000, 50_000))
    assert (found.wrong, found.unread is not None) == ("", True)


def test_a_check_of_the_formats_own_gets_the_bytes_in_order(small, file):
    got = []

    def own(views):
        got.append(b"".join(bytes(view) for view in views))
        return "cannot be unpacked"

    plan = Plan((Piece("", 10, 5000, "r", own), piece(0, 100), piece(4000, 9000)))
    assert check(Shown(file), plan, threads=3) == ("r cannot be unpacked", 14_100, None)
    assert got == [DATA[10:5010]]


def test_a_mistake_in_a_check_is_raised_and_not_swallowed(file):
    def mistaken(views):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(file, Piece("", 0, 5, "r", mistaken), piece(0, 100_000))
    assert threading.active_count() == 1


def test_an_interrupt_leaves_no_thread_behind(small, file):
    going, taken = threading.Event(), []

    def slow(views):
        for view in views:
            going.set()
            taken.append(len(view))
            threading.Event().wait(0.02)
        return ""

    def interrupt(_):
        assert going.wait(10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(file, Piece("", 0, 100_000, "r", slow), progress=interrupt)
    assert threading.active_count() == 1
    assert sum(taken) < 100_000


def test_progress_grows_to_no_more_than_there_is(small, file):
    told = []

    def slow(views):
        for _ in views:
            threading.Event().wait(0.001)
        return ""

    found = run(file, Piece("", 0, 60_000, "r", slow), piece(60_000, 40_000), progress=told.append)
    assert found.checked_bytes == 100_000
    assert told == sorted(told)
    assert all(0 <= count <= 100_000 for count in told)


# What archives plan


def planned(data, **more):
    """The plan of these bytes."""
    path = more.pop("path")
    path.write_bytes(data)
    with Shown(path).open("") as opened:
        return plan_archive(opened, **more)


def test_a_plan_names_every_record_and_where_its_data_is(tmp_path):
    data = torch_zip({"data.pkl": b"\x80\x02.", "data/0": DATA})
    plan = planned(data, path=tmp_path / "a.pt")
    assert [(one.what, one.expected) for one in plan.pieces] == [
        ("archive/data.pkl", zlib.crc32(b"\x80\x02.")),
        ("archive/data/0", zlib.crc32(DATA)),
        ("archive/version", zlib.crc32(b"3\n")),
    ]
    assert data[plan.pieces[1].offset :][: plan.pieces[1].length] == DATA


def test_an_archive_within_a_file_is_planned_where_it_lies(tmp_path):
    whole = torch_zip({"data.pkl": b"\x80\x02.", "data/0": DATA})
    plan = planned(
        b"x" * 77 + whole + whole, path=tmp_path / "__0_0.distcp", member="m", at=77, length=len(whole)
    )
    assert {one.member for one in plan.pieces} == {"m"}
    assert [one.offset - 77 for one in plan.pieces] == [
        one.offset for one in planned(whole, path=tmp_path / "a.pt").pieces
    ]


@pytest.mark.parametrize("length", [0, 21, 500])
def test_an_archive_within_a_file_that_is_not_whole_is_damage(tmp_path, length):
    with pytest.raises(Damage):
        planned(torch_zip(), path=tmp_path / "a", length=length)


def test_an_archive_without_checksums_has_none_and_is_not_broken(tmp_path):
    assert planned(torch_zip(crc=False), path=tmp_path / "a.pt") == NO_CHECKSUMS


def test_a_record_without_a_checksum_among_others_is_left_out(tmp_path):
    data = bytearray(torch_zip({"data.pkl": b"\x80\x02.", "data/0": DATA}))
    crc_at = data.rindex(b"archive/data/0") - 46 + 16
    data[crc_at : crc_at + 4] = bytes(4)
    names = [one.what for one in planned(bytes(data), path=tmp_path / "a.pt").pieces]
    assert names == ["archive/data.pkl", "archive/version"]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_what_is_packed_is_summed_as_it_was_before(tmp_path, method):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a.npy", DATA)
        archive.writestr("zeros.npy", bytes(5_000_000))
    plan = known("zip").plan(Shown(path))
    found = check(Shown(path), plan, threads=2)
    assert (found.wrong, found.checked_bytes) == ("", sum(one.length for one in plan.pieces))


def test_what_is_packed_in_an_unknown_way_is_not_called_broken(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", DATA)
        archive.writestr("b.npy", DATA, zipfile.ZIP_STORED)
    plan = known("zip").plan(Shown(path))
    assert ([one.what for one in plan.pieces], "not known here" in plan.why) == (["b.npy"], True)
    assert check(Shown(path), plan).wrong == ""


@pytest.mark.parametrize("beyond", [-1, 0, 1, 5, 10, 20, 50, 100, 258])
def test_what_unpacks_to_a_little_more_than_is_unpacked_at_once_is_summed_to_its_end(tmp_path, beyond):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes((1 << 20) + beyond))
    assert check(Shown(path), known("zip").plan(Shown(path))).wrong == ""


def test_what_is_encrypted_is_not_called_broken(tmp_path):
    data = bytearray(torch_zip())
    for at in (data.index(b"PK\1\2") + 8, 6):
        data[at] |= 1
    plan = planned(bytes(data), path=tmp_path / "a.pt")
    assert "archive/data.pkl" not in [one.what for one in plan.pieces]
    assert "encrypted" in plan.why


def test_every_flipped_byte_of_packed_data_is_found(tmp_path):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", DATA[:3000])
    (one,) = planned(made.getvalue(), path=tmp_path / "a.npz").pieces
    path = tmp_path / "a.npz"
    for at in range(one.offset, one.offset + one.length, 3):
        data = bytearray(made.getvalue())
        data[at] ^= 4
        path.write_bytes(data)
        assert check(Shown(path), known("zip").plan(Shown(path))).wrong


@given(st.binary(max_size=200), st.integers(0, 3000), st.integers(0, 60))
def test_no_bytes_make_a_plan_fail_in_another_way(noise, at, gone):
    class InMemory:
        mtime_ns = 0

        def __init__(self, data):
            self.data, self.size = data, len(data)

        def read_at(self, offset, count):
            return self.data[offset : offset + count] if offset >= 0 and count > 0 else b""

    whole = torch_zip()
    for data in (noise, whole[:at] + noise + whole[at + gone :]):
        try:
            plan = plan_archive(InMemory(data))
        except Damage as damage:
            said = str(damage)
        else:
            said = "planned" if all(one.offset >= 0 for one in plan.pieces) else ""
        assert said
