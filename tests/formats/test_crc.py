"""The joining of checksums whose bytes were summed apart."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.formats.crc import combined


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_the_sums_of_the_parts_are_that_of_the_whole(parts):
    assert combined((zlib.crc32(part), len(part)) for part in parts) == zlib.crc32(b"".join(parts))


def test_a_long_run_of_zeros_is_no_exception():
    zeros = bytes(3 << 20)
    assert combined([(zlib.crc32(zeros), len(zeros))] * 3) == zlib.crc32(zeros * 3)


def test_lengths_beyond_four_gigabytes_are_counted():
    piece = zlib.crc32(b"x")
    far = combined([(piece, 1), (0x12345678, 5 << 30)])
    near = combined([(piece, 1), (0x12345678, 1 << 30)])
    assert far != near
    assert combined([(combined([(piece, 1), (0, 2 << 30)]), 0), (0x12345678, 3 << 30)]) == far
