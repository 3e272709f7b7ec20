"""The checksum of TensorFlow and OCDBT files, which the standard library does not have."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable

_POLYNOMIAL = 0x82F63B78

Checksum = Callable[[bytes | memoryview, int], int]
"""Of some bytes, carried on from the checksum of what came before them."""
UNCHECKED = "its checksums (crc32c) are not checked: pip install 'checkpoint-governor[deep]'"
"""Where no fast module is installed."""


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _table()


def crc32c(data: bytes | memoryview, before: int = 0) -> int:
    """A few megabytes a second: for headers and indexes, never for tensors."""
    value, table = before ^ 0xFFFFFFFF, _TABLE
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def masked(checksum: int) -> int:
    """As it is stored beside the bytes that it is of, so that a checksum of both is not a constant."""
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def fast_crc32c() -> Checksum | None:
    """The one of a module that may be installed; None when there is none, and tensors are not to be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has only its slow form here is seen below
            google = importlib.import_module("google_crc32c")
        if google.implementation == "c":
            extend = google.extend
            return lambda data, before: int(extend(before, bytes(data)))  # takes nothing but bytes
    except (ImportError, AttributeError):
        pass
    try:
        other = importlib.import_module("crc32c").crc32c
    except (ImportError, AttributeError):
        return None
    return lambda data, before: int(other(data, before))
