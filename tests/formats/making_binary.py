"""Makes small files of the binary single-file formats with the standard library alone."""

from __future__ import annotations

import io
import math
import struct
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

from formats.making import Shown, known

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import Judgement

DATA = bytes((7 * number + 3) % 251 + 1 for number in range(6000))


class Counting:
    """A file in memory that counts what is read of it."""

    def __init__(self, data: bytes, size: int | None = None) -> None:
        self.data, self.size, self.mtime_ns = data, len(data) if size is None else size, 0
        self.reads, self.read_bytes = 0, 0

    def read_at(self, offset: int, count: int) -> bytes:
        """A piece of it; what lies behind the data given are zeros."""
        assert offset >= 0
        assert 0 <= count <= 1 << 20
        count = max(0, min(count, self.size - offset))
        self.reads, self.read_bytes = self.reads + 1, self.read_bytes + count
        return self.data[offset : offset + count].ljust(count, b"\0")

    def tail_hole(self, spared_bytes: int = 0) -> int | None:
        """None: it is in memory."""
        return None

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class InMemory(Shown):
    """A copy that is not on any disk."""

    def __init__(self, name: str, file: Counting) -> None:
        self.name, self.former, self.age_s, self.beside, self.members = name, None, 1000.0, (), ()
        self.file = file

    def open(self, member: str) -> Counting:  # type: ignore[override]
        """The one file."""
        return self.file


def judged_bytes(word: str, data: bytes | Counting, name: str = "step_1.x") -> Judgement:
    """What the format with this word says about these bytes."""
    file = data if isinstance(data, Counting) else Counting(data)
    return known(word).judge(InMemory(name, file))


def cuts_called_complete(word: str, whole: bytes) -> list[int]:
    """The sizes to which it can be cut and still be called complete."""
    return [
        count
        for count in range(len(whole))
        if judged_bytes(word, whole[:count]).structure is Structure.COMPLETE
    ]


def msgpack(value: object) -> bytes:
    """One value; bytes become an extension as the arrays of Flax are, and lists and texts take any of their forms."""
    if isinstance(value, dict):
        parts = b"".join(msgpack(key) + msgpack(inner) for key, inner in value.items())
        return _counted(len(value), 0x80, 15, b"\xde", b"\xdf") + parts
    if isinstance(value, list):
        return _counted(len(value), 0x90, 15, b"\xdc", b"\xdd") + b"".join(map(msgpack, value))
    if isinstance(value, str):
        text = value.encode()
        if len(text) < 256:
            return (bytes([0xA0 | len(text)]) if len(text) < 32 else bytes([0xD9, len(text)])) + text
        return b"\xda" + struct.pack(">H", len(text)) + text
    if isinstance(value, bytes):
        if len(value) < 256:
            return struct.pack(">BBB", 0xC7, len(value), 1) + value
        return struct.pack(">BLB", 0xC9, len(value), 1) + value
    if isinstance(value, bool) or value is None:
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    assert isinstance(value, int)
    return bytes([value]) if 0 <= value < 128 else struct.pack(">Bq", 0xD3, value)


def _counted(count: int, short: int, most: int, middle: bytes, long: bytes) -> bytes:
    if count <= most:
        return bytes([short | count])
    return middle + struct.pack(">H", count) if count < 65_536 else long + struct.pack(">L", count)


def hdf5(
    data_bytes: int = 3000,
    *,
    version: int = 0,
    user_block_bytes: int = 0,
    base: int | None = None,
    flags: int = 0,
    end: int | None = None,
    second: int | None = None,
    driver: int | None = None,
    width: int = 8,
) -> bytes:
    """A superblock as the library writes it, and data that nobody reads."""
    nowhere = 2 ** (8 * width) - 1
    base = user_block_bytes if base is None else base
    start = b"\x89HDF\r\n\x1a\n" + bytes([version])
    if version < 2:
        start += bytes([0, 0, 0, 0, width, 8, 0]) + struct.pack("<HHL", 4, 16, flags)
        start += struct.pack("<HH", 32, 0) if version == 1 else b""
        last = nowhere if driver is None else driver
    else:
        start += bytes([width, 8, flags])
        last = 48
    length = len(start) + 4 * width + data_bytes
    end = base + length if end is None else end
    fields = (base, nowhere if second is None else second, end, last)
    start += b"".join(field.to_bytes(width, "little") for field in fields)
    return b"u" * user_block_bytes + start + (DATA * (data_bytes // len(DATA) + 1))[:data_bytes]


def npy(
    kind: str = "'<f4'",
    shape: str = "(10, 100)",
    data: bytes = DATA[:4000],
    *,
    version: int = 1,
    form: str = "",
) -> bytes:
    """An array; ``kind`` and ``shape`` are its texts."""
    text = form or f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}"
    length_bytes = 2 if version == 1 else 4
    encoded = text.encode("utf-8" if version == 3 else "latin-1")
    encoded += b" " * (-(8 + length_bytes + len(encoded) + 1) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(encoded).to_bytes(length_bytes, "little") + encoded + data


def gguf(
    tensors: Iterable[tuple[str, tuple[int, ...], int, int]] = (("a", (64, 3), 2, 108), ("b", (10,), 0, 40)),
    entries: Iterable[tuple[str, bytes]] = (),
    *,
    version: int = 3,
    order: str = "<",
    alignment: int | None = None,
    padded: bool = True,
) -> bytes:
    """An index with tensors of (name, shape, type, bytes), and their data."""
    length = "L" if version == 1 else "Q"

    def text(value: str) -> bytes:
        return struct.pack(order + length, len(value.encode())) + value.encode()

    entries = list(entries)
    if alignment is not None:
        entries.append(("general.alignment", struct.pack(order + "LL", 4, alignment)))
    tensors, step, reached = list(tensors), alignment or 32, 0
    index = b"".join(text(name) + value for name, value in entries)
    data = b""
    for name, shape, kind, size in tensors:
        index += text(name) + struct.pack(order + "L", len(shape))
        index += b"".join(struct.pack(order + length, one) for one in shape)
        index += struct.pack(order + "LQ", kind, reached)
        data = data.ljust(reached, b"\0") + (DATA * (size // len(DATA) + 1))[:size]
        reached = math.ceil((reached + size) / step) * step
    start = b"GGUF" + struct.pack(f"{order}L2{length}", version, len(tensors), len(entries))
    whole = start + index
    if tensors:
        whole = whole.ljust(math.ceil(len(whole) / step) * step, b"\0")
        whole += data.ljust(reached, b"\0") if padded else data
    return whole


def tar(
    sizes: Iterable[int] = (700, 0, 3000),
    *,
    form: int = tarfile.PAX_FORMAT,
    name: Callable[[int], str] = lambda number: f"weights/{number}.bin",
    pack: str = "w",
) -> bytes:
    """An archive of files of these sizes, in a folder."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=pack, format=form) as archive:  # type: ignore[call-overload]
        folder = tarfile.TarInfo("weights")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for number, size in enumerate(sizes):
            member = tarfile.TarInfo(name(number))
            member.size = size
            archive.addfile(member, io.BytesIO((DATA * (size // len(DATA) + 1))[:size]))
    return made.getvalue()


def with_zeroed_tail(path: Path, share: float, *, hole: bool = False) -> None:
    """Makes the end of a file zeros, written ones or such as nobody has written."""
    size = path.stat().st_size
    kept = int(size * share)
    with path.open("r+b") as file:
        file.truncate(kept)
        if hole:
            file.truncate(size)
        else:
            file.seek(kept)
            file.write(bytes(size - kept))
