"""NumPy's .npy: sizes by type and shape, of any type that can be told without evaluating its text."""

from __future__ import annotations

import pickle
import time

import pytest
from formats.making import judged, word_of
from formats.making_binary import DATA, Counting, cuts_called_complete, judged_bytes, npy, with_zeroed_tail
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import SmallSize, Structure

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
WHOLE = npy()
NO_TYPE = "its type is none that can be checked"


def judge(data):
    """What the format says about these bytes."""
    return judged_bytes("npy", data)


@pytest.mark.parametrize(
    ("kind", "shape", "size"),
    [
        ("'<f4'", "(10, 100)", 4000),
        ("'<f8'", "()", 8),
        ("'|b1'", "(7,)", 7),
        ("'>c16'", "(3L, 2L)", 96),
        ("'<U5'", "(3,)", 60),
        ("'|S5'", "(3,)", 15),
        ("'<M8[ns]'", "(3,)", 24),
        ("'<m8[25s]'", "(3,)", 24),
        ("'<V2'", "(8,)", 16),
        ("'|V0'", "(8,)", 0),
        ("'<f4'", "(0, 3)", 0),
        ("'i8'", "(2,)", 16),
        ("[('a', '<i4'), ('b', '<f8', (2, 3))]", "(2,)", 104),
        ("[('a', '|i1'), ('', '|V7'), ('b', '<f8')]", "(2,)", 32),
        ("[('a', [('x', '<i4'), ('y', '<U3')]), (('title', 'name'), '<f4')]", "(2,)", 40),
        ("[('a', '<f4', (3,)), ('b', '<f4', ()),]", "(1,)", 16),
        ("[('a', ('<f4', (2, 2)))]", "(1,)", 16),
        ("[]", "(3,)", 0),
    ],
)
def test_a_whole_array_of_any_type_is_complete_and_a_byte_less_is_not(kind, shape, size):
    for version in (1, 2, 3):
        whole = npy(kind, shape, DATA[:size], version=version)
        assert judge(whole) == (COMPLETE, "", None, False, SmallSize.PROOF)
        assert judge(whole[:-1]).structure is INCOMPLETE


def test_every_cut_is_incomplete():
    assert all(judge(WHOLE[:count]).structure is INCOMPLETE for count in range(len(WHOLE)))


def test_arrays_one_after_another_are_complete_and_a_cut_between_them_cannot_be_seen():
    both = WHOLE + npy("'|i1'", "(5,)", DATA[:5])
    assert judge(both).structure is COMPLETE
    assert cuts_called_complete("npy", both) == [len(WHOLE)]


@pytest.mark.parametrize(
    ("data", "structure", "why"),
    [
        (b"", INCOMPLETE, "empty"),
        (b"\x93NU", INCOMPLETE, "its beginning is cut"),
        (WHOLE[:60], INCOMPLETE, "its beginning is cut"),
        (WHOLE[:-9], INCOMPLETE, f"9 of {len(WHOLE)} bytes are missing"),
        (WHOLE + b"more", SHAPELESS, "4 bytes follow its array, and cannot be checked"),
        (npy(version=4), SHAPELESS, "it is of version 4, which cannot be checked"),
        (npy("'|O'", "(3,)", pickle.dumps([1])), SHAPELESS, "it holds a pickle, which cannot be checked"),
        (npy("'|O'", "(3,)", pickle.dumps([1])[:-1]), INCOMPLETE, "it holds a pickle whose end is missing"),
        (npy("[('a', '|O'), ('b', '<i4')]", "(3,)", b"."), SHAPELESS, "it holds a pickle, which cannot be checked"),
        (npy("'<x9'"), SHAPELESS, NO_TYPE),
        (npy("[('a\\'', '<i4')]"), SHAPELESS, NO_TYPE),
        (npy("[('a', '<i4'"), SHAPELESS, NO_TYPE),
        (npy("'<i4', '<i4'"), SHAPELESS, NO_TYPE),
        (npy(shape="(3, ,)" * 1 + "x"), SHAPELESS, "its beginning is none that can be checked"),
        (npy(shape="(1 2)"), SHAPELESS, "its shape is none that can be checked"),
        (npy(shape=f"({9 * '9'}{9 * '9'}9,)"), SHAPELESS, "its shape is none that can be checked"),
        (npy(form="{}"), SHAPELESS, "its beginning is none that can be checked"),
        (npy(form="{'descr': exit(), 'fortran_order': False, 'shape': (1,)}"), SHAPELESS, NO_TYPE),
        (b"raw numbers", SHAPELESS, "it does not begin as NumPy begins a file, and cannot be checked"),
        (bytes(5000), INCOMPLETE, "it begins with nothing but zeros"),
        (WHOLE * 1001, SHAPELESS, "it holds more arrays than can be checked"),
        (npy(form="{" + " " * 70_000 + "}", version=2), SHAPELESS, "its beginning is too long to be checked"),
    ],
)  # fmt: skip
def test_what_is_no_whole_array_says_why(data, structure, why):
    assert judge(data)[:2] == (structure, why)


@pytest.mark.parametrize(
    "text",
    ["[" * 60_000, "(" * 60_000, "[('a', " * 8000, "'a'," * 15_000, "-" * 60_000, "9" * 60_000, " " * 60_000],
)
def test_no_text_takes_long(text):
    began_s = time.monotonic()
    assert judge(npy(text, version=2)).structure is SHAPELESS
    assert judge(npy("'<f4'", f"({text})", version=2)).structure is not COMPLETE
    assert judge(npy(form=text, version=2)).structure is not COMPLETE
    assert time.monotonic() - began_s < 2.0


def test_absurd_shapes_are_numbers_like_others():
    data = npy(shape="(" + "999999999999999999, " * 60 + ")")
    assert judge(data).structure is INCOMPLETE


def test_a_large_file_costs_as_much_as_a_small_one():
    start = npy("'<f4'", f"({1 << 38},)", b"")
    file = Counting(start, size=len(start) + (1 << 40))
    assert judge(file).structure is COMPLETE
    assert file.read_bytes < 1000


@given(st.binary(max_size=200), st.integers(0, 140))
def test_no_bytes_make_the_check_fail_in_another_way(noise, at):
    for data in (noise, WHOLE[:at] + noise + WHOLE[at + len(noise) :], WHOLE[:at] + noise):
        assert judge(data).structure in (COMPLETE, INCOMPLETE, SHAPELESS)


@given(st.text("[](),' 0123456789<fiUOabL\n", max_size=60))
def test_no_type_makes_the_check_fail_in_another_way(kind):
    assert judge(npy(f"[{kind}]")).structure in (COMPLETE, INCOMPLETE, SHAPELESS)


def test_an_end_that_nobody_wrote_is_left_open_while_it_is_young(tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(npy("'|i1'", "(200000,)", DATA * 33 + DATA[:2000]))
    assert judged("npy", path, age_s=1.0).structure is COMPLETE
    with_zeroed_tail(path, 0.5, hole=True)
    assert judged("npy", path, age_s=1.0).structure is INCOMPLETE
    assert judged("npy", path, age_s=60.0).why.endswith("were never written and read as zeros")


def test_a_file_of_which_nothing_was_written_is_incomplete(tmp_path):
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        file.truncate(100_000)
    assert judged("npy", path)[:2] == (INCOMPLETE, "nothing of it was ever written")


def test_it_is_recognised_by_name_or_by_bytes():
    assert word_of("a.npy", b"") == "npy"
    assert word_of("a.npy", WHOLE[:512]) == "npy"
    assert word_of("weights_5", WHOLE[:512]) is None
    assert word_of("step_5", WHOLE[:512]) == "npy"
    assert word_of("a.npy", b"PK\3\4" + bytes(40)) == "zip"


def test_a_shape_with_more_digits_than_can_be_printed_cannot_be_checked(tmp_path):
    text = (
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 18 + ("," + "9" * 18) * 300 + "), }"
    ).encode()
    path = tmp_path / "step_1.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text)
    assert judged("npy", path).structure is SHAPELESS


@pytest.mark.parametrize("filling", [" " * 65_000, "," * 65_000, ", " * 32_000, "\n" * 65_000])
def test_a_beginning_that_was_made_to_be_slow_is_gone_through_once(tmp_path, filling):
    text = ("{'descr': " + filling + "x").encode()
    path = tmp_path / "step_1.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text)
    assert judged("npy", path).structure is SHAPELESS
