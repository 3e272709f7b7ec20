"""HDF5: the end that its beginning tells, in all its versions."""

from __future__ import annotations

import pytest
from formats.making import judged, word_of
from formats.making_binary import Counting, cuts_called_complete, hdf5, judged_bytes, with_zeroed_tail
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import SmallSize, Structure

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
WHOLES = {
    f"version {version}, {block} before": hdf5(version=version, user_block_bytes=block)
    for version in range(4)
    for block in (0, 512, 4096)
}
every_form = pytest.mark.parametrize("whole", WHOLES.values(), ids=WHOLES)


def judge(data):
    """What the format says about these bytes."""
    return judged_bytes("hdf5", data)


@every_form
def test_a_whole_file_is_complete(whole):
    assert judge(whole) == (COMPLETE, "", None, False, SmallSize.PROOF)


@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("version", range(4))
def test_addresses_may_be_of_any_width(version, width):
    assert judge(hdf5(version=version, width=width)).structure is COMPLETE
    assert judge(hdf5(version=version, width=width)[:-1]).structure is INCOMPLETE


def test_what_was_put_before_a_file_later_moves_its_end():
    assert judge(hdf5(user_block_bytes=512, base=0)).structure is COMPLETE
    assert judge(hdf5(user_block_bytes=0, base=512)).structure is COMPLETE
    assert judge(hdf5(user_block_bytes=512, base=0)[:-512]).structure is INCOMPLETE


@every_form
def test_every_cut_is_incomplete(whole):
    assert cuts_called_complete("hdf5", whole) == []
    begins = whole.index(b"\x89HDF")
    assert all(judge(whole[:count]).structure is INCOMPLETE for count in range(begins + 8, len(whole)))


@pytest.mark.parametrize(
    ("data", "structure", "why"),
    [
        (b"", INCOMPLETE, "empty"),
        (b"\x89HDF\r", INCOMPLETE, "its beginning is cut"),
        (hdf5()[:50], INCOMPLETE, "its beginning is cut"),
        (hdf5()[:-7], INCOMPLETE, f"7 of {len(hdf5())} bytes are missing"),
        (
            hdf5(end=2048),
            INCOMPLETE,
            f"its writer has not closed it: {len(hdf5()) - 2048} bytes more than its beginning tells",
        ),
        (hdf5(end=2**64 - 1), INCOMPLETE, "its writer has not closed it"),
        (hdf5(end=0), INCOMPLETE, "its writer has not closed it"),
        (hdf5(version=3, flags=1), INCOMPLETE, "its writer has not closed it"),
        (hdf5(version=3, flags=5), INCOMPLETE, "its writer has not closed it"),
        (hdf5(version=4 - 1)[:8] + b"\4" + bytes(200), SHAPELESS, "it is of version 4, which cannot be checked"),
        (hdf5()[:13] + b"\7" + hdf5()[14:], INCOMPLETE, "its beginning is damaged"),
        (hdf5(driver=96)[:-7], SHAPELESS, "it is one of several files, and cannot be checked alone"),
        (b"raw numbers" * 50, SHAPELESS, "it does not begin as HDF5 does, and cannot be checked"),
        (bytes(5000), SHAPELESS, "it does not begin as HDF5 does, and cannot be checked"),
    ],
    ids=[
        "empty", "cut signature", "cut beginning", "cut", "still open", "no end", "end at zero", "open flag",
        "open flag of many readers", "newer version", "absurd width", "one of a family", "something else", "zeros",
    ],
)  # fmt: skip
def test_what_is_no_whole_file_says_why(data, structure, why):
    assert judge(data)[:2] == (structure, why)


@pytest.mark.parametrize(("driver", "structure"), [(b"NCSAfami", SHAPELESS), (b"nothing.", INCOMPLETE)])
def test_a_newer_one_of_several_files_is_known_by_its_extension(driver, structure):
    whole = hdf5(version=3, second=100)
    assert judge(whole[:100] + driver + whole[108:-50]).structure is structure
    assert judge(whole[:100] + driver + whole[108:]).structure is COMPLETE


def test_a_mark_that_versions_before_the_third_do_not_use_means_nothing():
    assert [judge(hdf5(version=version, flags=1)).structure for version in range(3)] == [COMPLETE] * 3


def test_a_large_file_costs_as_much_as_a_small_one():
    file = Counting(hdf5(end=1 << 40), size=1 << 40)
    assert judge(file).structure is COMPLETE
    assert file.reads < 5
    nothing = Counting(b"x", size=1 << 50)
    assert judge(nothing).structure is SHAPELESS
    assert nothing.reads < 60


@given(st.binary(max_size=200), st.integers(0, 120), st.sampled_from(sorted(WHOLES)))
def test_no_bytes_make_the_check_fail_in_another_way(noise, at, which):
    whole = WHOLES[which]
    for data in (noise, whole[:at] + noise + whole[at + len(noise) :], whole[:at] + noise):
        assert judge(data).structure in (COMPLETE, INCOMPLETE, SHAPELESS)


def test_an_end_that_nobody_wrote_is_left_open_while_it_is_young(tmp_path):
    path = tmp_path / "model.h5"
    path.write_bytes(hdf5(200_000))
    with_zeroed_tail(path, 0.5, hole=True)
    assert judged("hdf5", path, age_s=1.0).structure is INCOMPLETE
    assert judged("hdf5", path, age_s=60.0).why.endswith("were never written and read as zeros")


def test_a_file_of_which_nothing_was_written_is_incomplete(tmp_path):
    path = tmp_path / "model.h5"
    with path.open("wb") as file:
        file.truncate(100_000)
    assert judged("hdf5", path)[:2] == (INCOMPLETE, "nothing of it was ever written")


def written_zeros(folder, name):
    """What the format says about such a file in this folder."""
    (folder / name).write_bytes(bytes(5000))
    return judged("hdf5", folder / name)


@pytest.mark.parametrize("name", ["model.h5", "step_3.weights.h5", "w_00003.hdf5"])
def test_a_file_alone_that_begins_with_nothing_but_zeros_is_incomplete(tmp_path, name):
    for step in range(3):
        (tmp_path / f"step_{step}.weights.h5").write_bytes(hdf5())
        (tmp_path / f"w_0000{step}.hdf5").write_bytes(hdf5(version=3))
    assert written_zeros(tmp_path, name)[:2] == (INCOMPLETE, "it begins with nothing but zeros")


@pytest.mark.parametrize(
    ("first", "part"),
    [("step_3_0.h5", "step_3_12.h5"), ("w0000-of.h5", "w0012-of.h5"), ("0_model.h5", "7_model.h5")],
)
@pytest.mark.parametrize("whole", [hdf5(driver=96), hdf5(version=3) + b"NCSAfami"], ids=["older", "newer"])
def test_zeros_may_be_a_raw_part_of_a_copy_whose_first_file_is_beside(tmp_path, first, part, whole):
    (tmp_path / first).write_bytes(whole[:96] + b"\0" * 8 + b"NCSAfami" + whole[112:])
    assert written_zeros(tmp_path, part).structure is SHAPELESS
    (tmp_path / first).unlink()
    assert written_zeros(tmp_path, part).structure is INCOMPLETE


@pytest.mark.parametrize("name", ["model-r.h5", "model.h5-r.h5", "step_3-g.hdf5"])
def test_zeros_under_a_name_for_raw_numbers_may_be_some(tmp_path, name):
    assert written_zeros(tmp_path, name).structure is SHAPELESS


@pytest.mark.parametrize("name", ["model.h5", "m.weights.h5", "a.hdf5", "old.keras", "ckpt_5", "model.ckpt"])
def test_it_is_recognised_by_its_bytes(name):
    assert word_of(name, hdf5()[:512]) == "hdf5"


def test_it_is_recognised_by_name_where_its_bytes_do_not_tell():
    assert word_of("model.h5", b"") == "hdf5"
    assert word_of("model.h5", hdf5(user_block_bytes=512)[:512]) == "hdf5"
    assert word_of("model.h5", b"PK\3\4" + bytes(40)) == "zip"
    assert word_of("results.nc", hdf5()[:512]) is None
