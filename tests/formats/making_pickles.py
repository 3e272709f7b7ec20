"""Makes pickles byte by byte: those of torch and joblib without either, and some that no pickler would write."""

from __future__ import annotations

import struct
from typing import NamedTuple

TORCH_MAGIC = 0x1950A86A20F9469CFC6C


class Global(NamedTuple):
    """A class or function by its module and name."""

    module: str
    name: str


class Call(NamedTuple):
    """What a call would make."""

    maker: object
    args: tuple[object, ...]


class Built(NamedTuple):
    """An object that is given its state, and bytes that stand behind it without being opcodes."""

    maker: object
    state: object
    behind: bytes = b""


class Elsewhere(NamedTuple):
    """Something with a persistent id."""

    id: object


class Codes(NamedTuple):
    """Opcodes as they are."""

    codes: bytes


def opcodes(value: object) -> bytes:
    """The opcodes that put a value on the stack, by protocol 2."""
    if isinstance(value, Codes):
        return value.codes
    if isinstance(value, Global):
        return f"c{value.module}\n{value.name}\n".encode()
    if isinstance(value, Call):
        return opcodes(value.maker) + opcodes(tuple(value.args)) + b"R"
    if isinstance(value, Built):
        return opcodes(value.maker) + b")\x81" + opcodes(value.state) + b"b" + value.behind
    if isinstance(value, Elsewhere):
        return opcodes(value.id) + b"Q"
    if isinstance(value, dict):
        return b"}(" + b"".join(opcodes(key) + opcodes(inner) for key, inner in value.items()) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(opcodes, value)) + b"e"
    if isinstance(value, tuple):
        return b"(" + b"".join(map(opcodes, value)) + b"t"
    if isinstance(value, str):
        return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
    if value is None or isinstance(value, bool):
        return {None: b"N", False: b"\x89", True: b"\x88"}[value]
    assert isinstance(value, int)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def pickled(value: object) -> bytes:
    """A whole pickle."""
    return b"\x80\x02" + opcodes(value) + b"."


def storage(key: str, count: int, kind: str = "Float", numel: int | None = None) -> Elsewhere:
    """What a tensor of torch has in the place of its data."""
    counted = count if numel is None else numel
    return Elsewhere(("storage", Global("torch", f"{kind}Storage"), key, "cpu", counted, None))


def tensor(inner: Elsewhere, count: int) -> Call:
    """A tensor over such data."""
    rebuild = Global("torch._utils", "_rebuild_tensor_v2")
    return Call(rebuild, (inner, 0, (count,), (1,), False, Call(Global("collections", "OrderedDict"), ())))


WEIGHTS = {"a": tensor(storage("10", 500), 500), "b": [tensor(storage("11", 30, "Half"), 30), 7]}
STORAGES = {"10": (500, 4), "11": (30, 2)}


def torch_legacy(
    value: object = WEIGHTS,
    storages: dict[str, tuple[int, int]] = STORAGES,
    *,
    version: int = 1001,
    little: bool = True,
    keys: object = None,
) -> bytes:
    """A file as ``torch.save`` wrote it; each storage with how many elements it has, and how long one is."""
    system = {
        "protocol_version": version,
        "little_endian": little,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    index = [TORCH_MAGIC, version, system, value, list(storages) if keys is None else keys]
    data = [
        struct.pack("<q", count) + bytes((5 * number) % 251 + 1 for number in range(count * size))
        for count, size in storages.values()
    ]
    return b"".join(map(pickled, index)) + b"".join(data)


def dtype(text: str, size: int = -1, flags: int = 0) -> Codes:
    """A dtype of numpy."""
    made = Call(Global("numpy", "dtype"), (text, False, True))
    return Codes(opcodes(made) + opcodes((3, "<", None, None, None, size, -1, flags)) + b"b")


def joblib_array(
    shape: object, kind: object, data: bytes, *, filled: int | None = 5, module: str = "joblib.numpy_pickle"
) -> Built:
    """An array as joblib writes it; without ``filled`` as old versions do, who put nothing before the data."""
    state = {
        "subclass": Global("numpy", "ndarray"),
        "shape": shape,
        "order": "C",
        "dtype": kind,
        "allow_mmap": True,
    }
    before = b""
    if filled is not None:
        state["numpy_array_alignment_bytes"] = 16
        before = bytes([filled]) + b"\xff" * filled
    return Built(Global(module, "NumpyArrayWrapper"), state, before + data)
