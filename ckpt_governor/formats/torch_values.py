"""What a file of ``torch.save`` holds besides its tensors: its ``data.pkl``, walked and never made."""

from __future__ import annotations

import struct

from ckpt_governor.formats.inert import Budget, Failure, walk
from ckpt_governor.formats.interface import Damage, OpenFile
from ckpt_governor.formats.reading import Window
from ckpt_governor.formats.zip_records import LOCAL, read_end, read_records

_OPCODES_MAX = 200_000
"""A tenth of a second; a state of many thousand tensors has more, and is not asked."""
_MEMORY_MAX = 32 << 20
_TABLE_BYTES_MAX = 1 << 20


def read_values(file: OpenFile) -> dict[object, object] | None:
    """The dict that was saved; None when it is none, or cannot be read cheaply. Raises OSError."""
    budget = Budget(opcodes=_OPCODES_MAX, memory=_MEMORY_MAX)
    try:
        if file.read_at(0, len(LOCAL)) == LOCAL:
            value = walk(_data(file), budget=budget).value
        else:  # the older format: three small pickles before it
            at = 0
            for _ in range(3):
                at = walk(file, at, budget).end
            value = walk(file, at, budget).value
    except (Damage, Failure):
        return None
    return value if type(value) is dict else None


def _data(file: OpenFile) -> Window:
    """The record that holds the pickle. Raises Damage and OSError."""
    end = read_end(file)
    if end.table_bytes > _TABLE_BYTES_MAX:
        raise Damage("its table of records is too long")
    for record in read_records(file, end):
        if not record.name.endswith(b"/data.pkl") or record.method != 0:
            continue
        header = file.read_at(record.header_at, 30)
        if len(header) == 30:
            at = record.header_at + 30 + sum(struct.unpack_from("<2H", header, 26))
            return Window(file, at, record.packed_bytes)
    raise Damage("no data.pkl in it")
