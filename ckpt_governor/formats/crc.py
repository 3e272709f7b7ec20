"""The CRC-32 of bytes whose parts were summed apart, so that one long record can be summed by all cores.

A CRC-32 is the rest of a division of polynomials over single bits. Appending bytes to a text multiplies what the text
has come to by a power of x, so two sums are joined by one multiplication and one exclusive or.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

_POLYNOMIAL = 0xEDB88320
"""That of zlib and of zip archives, its highest power in the lowest bit, as all numbers here have it."""
_ONE = 1 << 31
_X = 1 << 30


def combined(parts: Iterable[tuple[int, int]]) -> int:
    """The CRC-32 of all parts together, each given as its own CRC-32 and its length in bytes."""
    crc = 0
    for part, length in parts:
        crc = part if crc == 0 else _product(crc, _power_of_x(8 * length)) ^ part
    return crc


def _product(one: int, other: int) -> int:
    """Of two polynomials, less all multiples of the one that divides."""
    product = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            product ^= other
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product


@lru_cache(maxsize=64)
def _power_of_x(exponent: int) -> int:
    power, square = _ONE, _X
    while exponent:
        if exponent & 1:
            power = _product(power, square)
        square = _product(square, square)
        exponent >>= 1
    return power
