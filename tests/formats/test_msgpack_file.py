"""msgpack of Flax: one value to the last byte, at any cut and with any claim."""

from __future__ import annotations

import pickle
import struct
import time

import pytest
from formats.making import judged, word_of
from formats.making_binary import (
    DATA,
    Counting,
    cuts_called_complete,
    judged_bytes,
    msgpack,
    with_zeroed_tail,
)
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import SmallSize, Structure

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
STATE = {
    "params": {"kernel": DATA[:2000], "bias": DATA[:100], "long": {"n" * 300: DATA[:20], "m" * 40: "text"}},
    "opt_state": {"0": {"count": 300, "mu": [1, 2.5, None, True, False, list(range(20))]}},
    "step": 100,
}
WHOLE = msgpack(STATE)


def judge(data):
    """What the format says about these bytes."""
    return judged_bytes("msgpack", data)


@pytest.mark.parametrize(
    "value",
    [
        STATE,
        [],
        {str(number): number for number in range(70_000)},
        b"one array",
        {"deep": {"er": [[[{}]]]}},
    ],
    ids=["state", "empty list", "long map", "an array alone", "deep"],
)
def test_a_whole_value_is_complete(value):
    assert judge(msgpack(value)) == (COMPLETE, "", None, False, SmallSize.PROOF)


def test_an_empty_state_is_whole_where_it_can_be_nothing_else(tmp_path):
    for name, structure in (("model.msgpack", COMPLETE), ("checkpoint_0", SHAPELESS)):
        (tmp_path / name).write_bytes(msgpack({}))
        assert word_of(name, msgpack({})) == "msgpack"
        assert judged("msgpack", tmp_path / name).structure is structure
    pickled = pickle.dumps({})
    assert pickled.startswith(msgpack({}))
    assert word_of("checkpoint_0", pickled) == word_of("checkpoint_0", pickled[:2]) == "pickle"


@pytest.mark.parametrize("first", range(256))
def test_every_kind_of_value_is_leapt_over_to_its_end(first):
    inner = bytes([first])
    fixed = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
    fixed |= {0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
    counted = {0xC4: "B", 0xC5: ">H", 0xC6: ">L", 0xD9: "B", 0xDA: ">H", 0xDB: ">L"}
    counted |= {0xC7: "B", 0xC8: ">H", 0xC9: ">L"}
    if first in fixed:
        inner += bytes(fixed[first])
    elif first in counted:
        inner += struct.pack(counted[first], 7) + bytes(7 + (0xC7 <= first <= 0xC9))
    elif first in (0xDC, 0xDD, 0xDE, 0xDF):
        inner += struct.pack(">H" if first % 2 == 0 else ">L", 2) + bytes(2 if first < 0xDE else 4)
    elif 0x80 <= first < 0xA0:
        inner += bytes((first & 15) * (2 if first < 0x90 else 1))
    elif 0xA0 <= first < 0xC0:
        inner += bytes(first & 31)
    expected = INCOMPLETE if first == 0xC1 else COMPLETE
    assert judge(b"\x92" + inner + b"\x01").structure is expected
    assert judge(b"\x93" + inner + b"\x01").structure is INCOMPLETE


def test_every_cut_is_incomplete():
    assert cuts_called_complete("msgpack", WHOLE) == []
    assert all(judge(WHOLE[:count]).structure is INCOMPLETE for count in range(len(WHOLE)))


def test_every_zeroed_tail_of_full_size_is_incomplete_but_one_within_the_last_name_and_its_value():
    last = len(msgpack("step") + msgpack(100))
    for kept in range(len(WHOLE) - last + 1):
        assert judge(WHOLE[:kept] + bytes(len(WHOLE) - kept)).structure is INCOMPLETE


@pytest.mark.parametrize(
    ("data", "structure", "why"),
    [
        (b"", INCOMPLETE, "empty"),
        (bytes(4096), INCOMPLETE, "its beginning was never written"),
        (WHOLE[:-2], INCOMPLETE, f"it ends in the middle of a value, at byte {len(WHOLE) - 2}"),
        (WHOLE + bytes(9), INCOMPLETE, "9 bytes follow its end"),
        (b"\x82\xa1a\xc1" + bytes(9), INCOMPLETE, "it is damaged before byte 4"),
        (WHOLE + WHOLE, SHAPELESS, "it is more than one value, and cannot be checked"),
        (pickle.dumps(STATE), SHAPELESS, "it is more than one value, and cannot be checked"),
        (b"a text", SHAPELESS, "it does not begin as Flax begins a file, and cannot be checked"),
        (b"\x1f\x8b\x08 packed", SHAPELESS, "it does not begin as Flax begins a file, and cannot be checked"),
        (b"\xdf\xff\xff\xff\xff\xa1a", INCOMPLETE, "it ends in the middle of a value, at byte 7"),
        (b"\x81\xa1a\xc9\xff\xff\xff\xff\x01", INCOMPLETE, "it ends in the middle of a value, at byte 9"),
        (msgpack([1] * 600_000), SHAPELESS, "it has more values than can be checked"),
    ],
    ids=[
        "empty", "zeros", "cut", "more", "damaged", "a stream", "a pickle", "a text", "packed",
        "absurd map", "absurd array", "very many values",
    ],
)  # fmt: skip
def test_what_is_no_whole_value_says_why(data, structure, why):
    assert judge(data)[:2] == (structure, why)


def test_a_large_file_costs_as_much_as_a_small_one():
    names = [f"layer{number}" for number in range(50)]
    start = b"".join([b"\xde\x00\x32", *(msgpack(name) for name in names[:1])])
    whole = Counting(start + struct.pack(">BLB", 0xC9, 1 << 31, 1), size=len(start) + 6 + (1 << 31))
    assert judge(whole).structure is INCOMPLETE
    assert whole.read_bytes < 10_000


@pytest.mark.parametrize("first", [b"\x91", b"\x81\xa1a", b"\xdd\x00\x00\x00\x01", b"\xdc\xff\xff", b"\xa0"])
def test_no_depth_and_no_count_takes_long(first):
    began_s = time.monotonic()
    assert judge(b"\x9f" + first * (2_000_000 // len(first))).structure is not COMPLETE
    assert time.monotonic() - began_s < 5.0


@given(st.binary(max_size=200), st.integers(0, len(WHOLE)), st.integers(0, 50))
def test_no_bytes_make_the_check_fail_in_another_way(noise, at, gone):
    for data in (noise, WHOLE[:at] + noise + WHOLE[at + gone :]):
        assert judge(data).structure in (COMPLETE, INCOMPLETE, SHAPELESS)


def test_a_file_on_disk_is_judged_alike(tmp_path):
    path = tmp_path / "checkpoint_100"
    path.write_bytes(WHOLE)
    assert judged("msgpack", path).structure is COMPLETE
    with_zeroed_tail(path, 0.6)
    assert judged("msgpack", path).structure is INCOMPLETE


@pytest.mark.usefixtures("volume_that_stores_zeros_as_holes")
def test_an_end_that_nobody_wrote_is_left_open_while_it_is_young_also_within_the_last_array(tmp_path):
    path = tmp_path / "checkpoint_100"
    path.write_bytes(msgpack({"a": DATA * 50}))
    assert judged("msgpack", path, age_s=1.0).structure is COMPLETE
    with_zeroed_tail(path, 0.6, hole=True)
    assert judged("msgpack", path, age_s=1.0).structure is INCOMPLETE
    assert judged("msgpack", path, age_s=60.0).why.endswith("were never written and read as zeros")


@pytest.mark.parametrize("name", ["model.msgpack", "flax_model-00001-of-00002.msgpack", "checkpoint_100"])
def test_it_is_recognised_by_its_bytes(name):
    assert word_of(name, WHOLE[:512]) == "msgpack"
    assert word_of(name, msgpack({str(number): 0 for number in range(30)})) == "msgpack"
    assert word_of(name, msgpack({"n" * 100: 0})) == "msgpack"


def test_a_file_that_has_just_begun_is_recognised_by_name():
    assert word_of("model.msgpack", b"") == "msgpack"
    assert word_of("checkpoint_100", b"") == "file"


@pytest.mark.parametrize(
    "head",
    [
        b"some text",
        "Þa: ß".encode(),
        "ßa".encode("latin-1") * 99,
        b"{}",
        pickle.dumps({"a": 1}, 2),
        pickle.dumps({"a": 1}, 5),
        b"\x80\2",
        b"\x81\xa3\xff\xfe\xfd",
        b"\x81\xa5ab",
        b"\x82\x01\x02",
        b"\xde\x00",
        bytes(512),
    ],
)
def test_other_bytes_under_a_name_with_a_step_are_not_taken_for_it(head):
    assert word_of("checkpoint_100", head) in ("file", "pickle")
    assert word_of("notes", WHOLE[:512]) is None
