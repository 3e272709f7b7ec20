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
    try:
        end = read_end(file)
        if end.table_bytes > _TABLE_BYTES_MAX:
            return None
        record = next(
            record
            for record in read_records(file, end)
            if record.name.endswith(b"/data.pkl") and record.method == 0
        )
        header = file.read_at(record.header_at, 30)
        if header[:4] != LOCAL or len(header) < 30:
            return None
        at = record.header_at + 30 + sum(struct.unpack_from("<2H", header, 26))
        budget = Budget(opcodes=_OPCODES_MAX, memory=_MEMORY_MAX)
        value = walk(Window(file, at, record.packed_bytes), budget=budget).value
    except (Damage, Failure, StopIteration):
        return None
    return value if type(value) is dict else None
