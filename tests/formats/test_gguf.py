"""GGUF: sizes by the index, read piece by piece, in all its versions and orders of bytes."""

from __future__ import annotations

import struct
import time

import pytest
from formats.making import judged, word_of
from formats.making_binary import Counting, cuts_called_complete, gguf, judged_bytes, with_zeroed_tail
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import SmallSize, Structure

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS


def texts(words, order="<", length="Q"):
    """A list of texts."""
    parts = b"".join(struct.pack(order + length, len(word)) + word for word in words)
    return struct.pack(f"{order}LL{length}", 9, 8, len(words)) + parts


ENTRIES = [
    ("general.name", struct.pack("<LQ", 8, 4) + b"tiny"),
    ("a.count", struct.pack("<LL", 4, 7)),
    ("a.yes", struct.pack("<LB", 7, 1)),
    ("a.small", struct.pack("<LH", 2, 7)),
    ("a.wide", struct.pack("<Ld", 12, 7.5)),
    ("tokenizer.tokens", texts([b"a", b"", b"long" * 50])),
    ("tokenizer.scores", struct.pack("<LLQ", 9, 6, 10) + bytes(40)),
]
WHOLE = gguf(entries=ENTRIES)
NO_KIND = "its index holds a kind of value that cannot be checked"
NO_ALIGNMENT = "its alignment is none that can be checked"
TOO_LONG = "its index is too long to be checked"


def judge(data):
    """What the format says about these bytes."""
    return judged_bytes("gguf", data)


@pytest.mark.parametrize(
    "data",
    [
        WHOLE,
        gguf(padded=False),
        gguf(()),
        gguf((), entries=ENTRIES),
        gguf(alignment=64),
        gguf(alignment=8),
        gguf(version=2),
        gguf(version=1),
        gguf(order=">"),
        gguf(order=">", version=1, alignment=128),
        gguf([("a", (), 0, 4), ("b", (0, 5), 1, 0), ("c", (256, 2, 2, 2), 12, 8 * 144), ("d", (32,), 39, 17)]),
    ],
    ids=[
        "entries", "unfilled", "nothing in it", "no tensors", "alignment 64", "alignment 8", "version 2", "version 1",
        "big end first", "big end first, version 1", "types",
    ],
)  # fmt: skip
def test_a_whole_file_is_complete(data):
    assert judge(data) == (COMPLETE, "", None, False, SmallSize.PROOF)


def test_every_cut_is_incomplete_but_in_what_fills_up_the_end():
    data_bytes = 108 + 20 + 40  # the second tensor begins at a multiple of 32
    filled = len(WHOLE) - (len(WHOLE) - (-data_bytes % 32))
    assert cuts_called_complete("gguf", WHOLE) == list(range(len(WHOLE) - filled, len(WHOLE)))
    whole = gguf(entries=ENTRIES, padded=False)
    assert all(judge(whole[:count]).structure is INCOMPLETE for count in range(len(whole)))


@pytest.mark.parametrize(
    ("data", "structure", "why"),
    [
        (b"", INCOMPLETE, "empty"),
        (bytes(4096), INCOMPLETE, "its index is not there yet"),
        (WHOLE[:200], INCOMPLETE, "its index is cut"),
        (WHOLE[:-40], INCOMPLETE, f"16 of {len(WHOLE) - 24} bytes are missing"),
        (WHOLE[:60] + bytes(len(WHOLE) - 60), INCOMPLETE, "its index is damaged"),
        (WHOLE + b"more", SHAPELESS, "28 bytes follow its end, and cannot be checked"),
        (gguf(version=4), SHAPELESS, "it is of a version that cannot be checked"),
        (gguf([("a", (32,), 9, 40)]), SHAPELESS, "a tensor is of a type that cannot be checked"),
        (gguf([("a", (32,), 99, 40)]), SHAPELESS, "a tensor is of a type that cannot be checked"),
        (gguf([("a", (33,), 2, 40)]), SHAPELESS, "a tensor has a shape that cannot be checked"),
        (gguf([("a", (1,) * 9, 0, 4)]), SHAPELESS, "a tensor has more dimensions than can be checked"),
        (gguf(entries=[("a", struct.pack("<L", 77))]), SHAPELESS, NO_KIND),
        (gguf(entries=[("a", struct.pack("<LLQ", 9, 9, 1))]), SHAPELESS, NO_KIND),
        (gguf(alignment=1)[:-200] + b"", INCOMPLETE, "its index is cut"),
        (gguf(entries=[("general.alignment", struct.pack("<LL", 4, 0))]), SHAPELESS, NO_ALIGNMENT),
        (struct.pack("<4sLQQ", b"GGUF", 3, 1 << 60, 1 << 60), INCOMPLETE, "its index is cut"),
        (struct.pack("<4sLQQ", b"GGUF", 3, 0, 200_000) + bytes(2_000_000), SHAPELESS, TOO_LONG),
        (gguf(entries=[("a", struct.pack("<LLQ", 9, 8, 1 << 60))]), INCOMPLETE, "its index is cut"),
        (gguf(entries=[("a", struct.pack("<LLQ", 9, 4, 1 << 62))]), INCOMPLETE, "its index is cut"),
    ],
)  # fmt: skip
def test_what_is_no_whole_file_says_why(data, structure, why):
    assert judge(data)[:2] == (structure, why)


def test_a_long_vocabulary_is_read_in_bounded_time():
    began_s = time.monotonic()
    words = [b"word%d" % number for number in range(300_000)]
    assert judge(gguf(entries=[("tokenizer.tokens", texts(words))])).structure is COMPLETE
    assert time.monotonic() - began_s < 3.0
    endless = struct.pack("<4sLQQQ", b"GGUF", 3, 0, 1, 1) + b"a" + struct.pack("<LLQ", 9, 8, 3_000_000)
    assert judge(endless + bytes(24_000_100)).structure is SHAPELESS


def test_a_large_file_costs_as_much_as_a_small_one():
    whole = gguf([("a", (1 << 38,), 0, 0)])
    file = Counting(whole, size=len(whole) + (1 << 40))
    assert judge(file).structure is COMPLETE
    assert file.read_bytes < 3000


@given(st.binary(max_size=200), st.integers(0, len(WHOLE)), st.integers(0, 50))
def test_no_bytes_make_the_check_fail_in_another_way(noise, at, gone):
    for data in (noise, b"GGUF" + noise, WHOLE[:at] + noise + WHOLE[at + gone :]):
        assert judge(data).structure in (COMPLETE, INCOMPLETE, SHAPELESS)


@pytest.mark.usefixtures("volume_that_stores_zeros_as_holes")
def test_an_end_that_nobody_wrote_is_left_open_while_it_is_young(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([("a", (50_000,), 0, 200_000)]))
    with_zeroed_tail(path, 0.5, hole=True)
    assert judged("gguf", path, age_s=1.0).structure is INCOMPLETE
    assert judged("gguf", path, age_s=60.0).why.endswith("were never written and read as zeros")


def test_it_is_recognised_by_its_bytes_or_by_name_while_nothing_else_is_there():
    assert word_of("anything", WHOLE[:512]) == "gguf"
    assert word_of("m.gguf", b"") == "gguf"
    assert word_of("m.gguf", b"GG") == "gguf"
    assert word_of("m.gguf", bytes(512)) == "gguf"
    assert word_of("m.gguf", b"tjgg" + bytes(99)) == "file"
