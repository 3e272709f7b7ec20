"""Makes small copies of several files with the standard library alone: TensorFlow, Orbax, Hugging Face."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from formats.making import torch_zip

from ckpt_governor.facts import Sighting
from ckpt_governor.formats.crc32c import crc32c, masked
from ckpt_governor.observe.copies import CopyScanner

LONG_AFTER_S = 2_000_000_000.0


def seen(unit: Path, now_s: float = LONG_AFTER_S) -> dict[str, Sighting]:
    """What one look at the unit shows, by name."""
    look = CopyScanner(str(unit), budget_s=60.0).look(now_s, 0.0)
    return {sighting.name: sighting for sighting in look.sightings}


def only(unit: Path, now_s: float = LONG_AFTER_S) -> Sighting:
    """The one copy in it."""
    (sighting,) = seen(unit, now_s).values()
    return sighting


# TensorFlow


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def block(entries: Sequence[tuple[bytes, bytes]], *, kind: int = 0) -> bytes:
    """Keys without what they share with the one before, restarts, and the trailer with its checksum."""
    out, before = bytearray(), b""
    for key, value in entries:
        shared = next((n for n, (a, b) in enumerate(zip(key, before, strict=False)) if a != b), None)
        shared = min(len(key), len(before)) if shared is None else shared
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    out += struct.pack("<2L", 0, 1) + bytes([kind])
    return bytes(out) + struct.pack("<L", masked(crc32c(bytes(out))))


def table(entries: Sequence[tuple[bytes, bytes]], *, kind: int = 0, in_block: int = 3) -> bytes:
    """A sorted table of several blocks."""
    out, handles = bytearray(), []
    for at in range(0, len(entries), in_block):
        part = entries[at : at + in_block]
        data = block(part, kind=kind)
        handles.append((part[-1][0] + b"~", varint(len(out)) + varint(len(data) - 5)))
        out += data
    meta_at, meta = len(out), block([])
    out += meta
    index_at, index = len(out), block(handles)
    out += index
    footer = varint(meta_at) + varint(len(meta) - 5) + varint(index_at) + varint(len(index) - 5)
    return bytes(out) + footer.ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")


def bundle_entry(kind: int, shard: int, at: int, data: bytes) -> bytes:
    """Where one tensor lies; a field that is zero is left out."""
    pairs = ((1, kind), (3, shard), (4, at), (5, len(data)))
    out = b"".join(varint(number << 3) + varint(value) for number, value in pairs if value)
    return out + b"\x12\x00" + b"\x35" + struct.pack("<L", masked(crc32c(data)))


def bundle_index(shards: Sequence[Sequence[bytes]], *, kind: int = 0) -> bytes:
    """The index of tensors that lie one after another in their shards."""
    entries = [(b"", varint(1 << 3) + varint(len(shards)) + b"\x1a\x02\x08\x01")]
    for shard, tensors in enumerate(shards):
        at = 0
        for number, data in enumerate(tensors):
            name = f"model/layer-{shard}/variable-{number:03d}".encode()
            entries.append((name, bundle_entry(1, shard, at, data)))
            at += len(data)
    return table(entries, kind=kind)


TENSORS = ([bytes(range(200)), b"second" * 50, b""], [b"third" * 100])


def bundle(folder: Path, prefix: str, shards: Sequence[Sequence[bytes]] = TENSORS) -> None:
    """Its data, and then its index."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard, tensors in enumerate(shards):
        (folder / f"{prefix}.data-{shard:05d}-of-{len(shards):05d}").write_bytes(b"".join(tensors))
    (folder / f"{prefix}.index").write_bytes(bundle_index(shards))


def saved_model(folder: Path) -> None:
    """A program and its variables."""
    bundle(folder / "variables", "variables")
    (folder / "saved_model.pb").write_bytes(b"\x08\x01" + b"\x12" + varint(300) + bytes(range(100)) * 3)
    (folder / "fingerprint.pb").write_bytes(b"\x08\x07")


# Orbax


def ocdbt_manifest(payload: bytes = b"packed" * 20) -> bytes:
    """Length at the beginning, checksum at the end."""
    data = bytes.fromhex("0cdb3a2a") + struct.pack("<Q", 13 + len(payload) + 4) + b"\0" + payload
    return data + struct.pack("<L", crc32c(data))


def orbax_texts(folder: Path, *, committed: int | None = 1_796_064_897_101_165_439) -> None:
    """What every folder has."""
    folder.mkdir(parents=True, exist_ok=True)
    text = {"item_handlers": None, "metrics": {}, "commit_timestamp_nsecs": committed}
    (folder / "_CHECKPOINT_METADATA").write_text(json.dumps(text))
    (folder / "commit_success.txt").write_text("Checkpoint commit was successful")


def orbax_step(folder: Path, item: str = "default") -> None:
    """One item in a store of its own."""
    orbax_texts(folder)
    inner = folder / item if item else folder
    for store in (inner, inner / "ocdbt.process_0"):
        (store / "d").mkdir(parents=True, exist_ok=True)
        (store / "d" / "1946ed4af3029822be096ca00b2d3bff").write_bytes(b"node" * 30)
        (store / "manifest.ocdbt").write_bytes(ocdbt_manifest())
    (inner / "_METADATA").write_text('{"tree_metadata": {"a": {}}}')
    (inner / "_sharding").write_text('{"YQ==": "{}"}')


def orbax_arrays(
    folder: Path, arrays: Mapping[str, tuple[list[int], list[int]]], *, newer: bool = True
) -> None:
    """Arrays in folders of their own: shape and chunks by name."""
    orbax_texts(folder)
    if newer:
        (folder / "array_metadatas").mkdir()
        (folder / "_METADATA").write_text("{}")
        (folder / "array_metadatas" / "process_0").write_text('{"array_metadatas": []}')
    for name, (shape, chunks) in arrays.items():
        (folder / name).mkdir()
        (folder / name / ".zarray").write_text(json.dumps({"chunks": chunks, "shape": shape}))
        counts = [-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True)]
        total = 1
        for count in counts:
            total *= count
        for number in range(total):
            key = []
            for count in reversed(counts):
                key.append(str(number % count))
                number //= count  # noqa: PLW2901 - the digits of the chunk's number
            (folder / name / (".".join(reversed(key)) or "0")).write_bytes(b"chunk")


# Hugging Face


def safetensors_of(
    names: Sequence[str], *, metadata: Mapping[str, str] | None = None, escape: bool = False
) -> bytes:
    """A file of tensors with these names."""
    index: dict[str, object] = {"__metadata__": metadata or {"format": "pt"}}
    for number, name in enumerate(names):
        index[name] = {"dtype": "U8", "shape": [40], "data_offsets": [40 * number, 40 * number + 40]}
    text = json.dumps(index, ensure_ascii=escape, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + b"\7" * (40 * len(names))


def hf_model(folder: Path, count: int = 2, *, index: bool = True) -> None:
    """A model in shards, its index last."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    places = {}
    for part in range(1, count + 1):
        name = f"model-{part:05d}-of-{count:05d}.safetensors"
        names = [f"transformer.h.{part}.{which}.weight" for which in ("attn", "mlp")]
        (folder / name).write_bytes(safetensors_of(names))
        places.update(dict.fromkeys(names, name))
    if index:
        text = {"metadata": {"total_size": 100, "format": "pt"}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(
            json.dumps(text, indent=2, sort_keys=True) + "\n"
        )


def trainer_step(folder: Path, *, state: bool = True) -> None:
    """As the Trainer writes it, in its order."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(safetensors_of(["a", "b"]))
    arguments = {"data.pkl": b"\x80\x02ctransformers.training_args\nTrainingArguments\n."}
    for name, records in (("training_args.bin", arguments), ("optimizer.pt", None), ("rng_state.pth", None)):
        (folder / name).write_bytes(torch_zip(records))
    if state:
        (folder / "trainer_state.json").write_text(
            '{\n  "epoch": 1.0,\n  "log_history": [{"loss": NaN}]\n}\n'
        )
