"""safetensors files: the size that their index tells, and ends that nobody wrote."""

from __future__ import annotations

import os

import pytest
from formats.making import judged, safetensors, word_of
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import SmallSize, Structure

WHOLE = safetensors()
COMPLETE, INCOMPLETE = Structure.COMPLETE, Structure.INCOMPLETE


@pytest.fixture
def judge(tmp_path):
    """Judges these bytes."""

    def write_and_judge(data, **more):
        path = tmp_path / "model.safetensors"
        path.write_bytes(data)
        return judged("safetensors", path, **more)

    return write_and_judge


@pytest.mark.parametrize(
    "data",
    [WHOLE, safetensors(()), safetensors((5,), metadata={"format": "pt", "a": '"data_offsets":[0,9]'})],
    ids=["tensors", "none", "metadata that looks like an index"],
)
def test_a_whole_file_is_complete(judge, data):
    assert judge(data) == (COMPLETE, "", None, False, SmallSize.PROOF)


def test_every_cut_is_incomplete(judge):
    assert all(judge(WHOLE[:count]).structure is INCOMPLETE for count in range(0, len(WHOLE), 3))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "its index is not there yet"),
        (bytes(4096), "it does not begin with the length of its index"),
        (WHOLE[:50], "its index is cut"),
        (WHOLE[:8] + bytes(len(WHOLE) - 8), "its index is damaged"),
        (WHOLE[:-7], f"7 of {len(WHOLE)} bytes are missing"),
        (WHOLE + b"more", "4 bytes more than its index tells"),
        (WHOLE.replace(b"[1024,5120]", b"[1025,5120]"), "its index has gaps or overlaps"),
        (WHOLE.replace(b"[1024,5120]", b"[5120,1024]"), "its index is damaged"),
        ((1 << 40).to_bytes(8, "little") + WHOLE[8:], "it does not begin with the length of its index"),
    ],
    ids=[
        "empty",
        "zeros",
        "cut index",
        "zeroed index",
        "cut data",
        "more",
        "gap",
        "backwards",
        "absurd length",
    ],
)
def test_an_incomplete_file_says_why(judge, data, why):
    assert judge(data)[:2] == (INCOMPLETE, why)


def test_an_index_that_is_too_long_to_be_read_proves_nothing(judge, tmp_path):
    length = 20 << 20
    path = tmp_path / "long.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + b"{")
    os.truncate(path, 8 + length)
    assert judged("safetensors", path).structure is Structure.SHAPELESS


@given(st.binary(max_size=200), st.integers(0, len(WHOLE)))
def test_no_bytes_make_the_check_fail_in_another_way(tmp_path_factory, noise, at):
    path = tmp_path_factory.mktemp("noise") / "model.safetensors"
    path.write_bytes(WHOLE[:at] + noise + WHOLE[at + len(noise) :])
    assert judged("safetensors", path).structure in (COMPLETE, INCOMPLETE)


BIG = safetensors((1 << 20,))


@pytest.fixture
def with_hole(tmp_path):
    """Writes a file of full size with only its first bytes written; skips where holes cannot be seen."""
    path = tmp_path / "model.safetensors"

    def write(count):
        with path.open("r+b" if path.exists() else "wb") as file:
            file.truncate(len(BIG))
            file.write(BIG[:count])
        with path.open("rb") as file:
            if os.lseek(file.fileno(), 0, os.SEEK_HOLE) >= len(BIG):
                pytest.skip("holes: this file system shows none")
        return path

    return write


@pytest.mark.usefixtures("volume_that_stores_zeros_as_holes")
def test_a_young_file_with_an_unwritten_end_is_left_open(with_hole):
    judgement = judged("safetensors", with_hole(100_000), age_s=1.0)
    assert (judgement.structure, judgement.provisional) == (INCOMPLETE, True)
    assert judgement.why.endswith("bytes were never written")


@pytest.mark.usefixtures("volume_that_stores_zeros_as_holes")
def test_an_unwritten_end_that_moved_is_a_write_and_stays_incomplete_when_it_stops(with_hole):
    first = judged("safetensors", with_hole(100_000), age_s=1.0)
    second = judged("safetensors", with_hole(500_000), age_s=1.0, former=first)
    third = judged("safetensors", with_hole(500_000), age_s=9999.0, former=second)
    assert [one.structure for one in (second, third)] == [INCOMPLETE, INCOMPLETE]
    assert not second.provisional


@pytest.mark.usefixtures("volume_that_stores_zeros_as_holes")
def test_an_unwritten_end_that_never_moved_is_believed_to_be_zeros(with_hole):
    first = judged("safetensors", with_hole(100_000), age_s=1.0)
    judgement = judged("safetensors", with_hole(100_000), age_s=60.0, former=first)
    assert judgement.structure is COMPLETE
    assert judgement.why.endswith("were never written and read as zeros")


@pytest.mark.usefixtures("volume_that_stores_zeros_as_holes")
def test_a_sparse_copy_that_is_old_is_complete_at_first_sight(with_hole):
    assert judged("safetensors", with_hole(100_000), age_s=60.0).structure is COMPLETE


def test_a_write_that_went_on_to_the_end_is_complete(with_hole, judge):
    first = judged("safetensors", with_hole(100_000), age_s=1.0)
    assert judge(BIG, former=first, age_s=0.1) == (COMPLETE, "", None, False, SmallSize.PROOF)


def test_it_is_recognised_by_name_or_by_bytes():
    assert word_of("model.safetensors", b"") == "safetensors"
    assert word_of(".tmpAbCdEf", WHOLE[:512]) == "safetensors"
    assert word_of("notes.txt2", b"{ a text in braces") is None


@pytest.mark.usefixtures("volume_that_stores_what_is_written")
def test_where_written_zeros_stay_an_unwritten_end_is_never_whole_however_old(with_hole):
    for age_s in (1.0, 9999.0):
        judgement = judged("safetensors", with_hole(100_000), age_s=age_s)
        assert (judgement.structure, judgement.provisional) == (INCOMPLETE, False)
    path = with_hole(100_000)
    path.write_bytes(BIG)
    assert judged("safetensors", path).structure is COMPLETE
