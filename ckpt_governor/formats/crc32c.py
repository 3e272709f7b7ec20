"""The checksum of TensorFlow and OCDBT files, which the standard library does not have."""

from __future__ import annotations

import importlib
from collections.abc import Callable

_POLYNOMIAL = 0x82F63B78

Checksum = Callable[[bytes, int], int]
"""Of some bytes, carried on from the checksum of what came before them."""


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _table()


def crc32c(data: bytes, before: int = 0) -> int:
    """A few megabytes a second: for headers and indexes, never for tensors."""
    value, table = before ^ 0xFFFFFFFF, _TABLE
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def masked(checksum: int) -> int:
    """As it is stored beside the bytes that it is of, so that a checksum of both is not a constant."""
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def fast_crc32c() -> Checksum | None:
    """The one of a library that happens to be installed; None when there is none, and tensors are not to be read."""
    for module, name in (("google_crc32c", "extend"), ("crc32c", "crc32c")):
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        if name == "extend":
            return lambda data, before: int(found(before, data))
        return lambda data, before: int(found(data, before))
    return None
