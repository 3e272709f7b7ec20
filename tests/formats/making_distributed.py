"""Makes small distributed copies with the standard library alone: DCP folders, and the files of DeepSpeed's ranks."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from formats.making import torch_zip

WRITTEN_S = 1_000_000.0
"""When what is made here was written, by its times."""


class Raw(bytes):
    """Opcodes that are taken as they are."""


def opcodes(value: object) -> bytes:
    """A value as opcodes of a pickle."""
    if isinstance(value, Raw):
        return bytes(value)
    if value is None:
        return b"N"
    if isinstance(value, int):
        length = value.bit_length() // 8 + 1
        return b"\x8a" + bytes([length]) + value.to_bytes(length, "little", signed=True)
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        return b"X" + len(data).to_bytes(4, "little") + data
    assert isinstance(value, Mapping)
    return b"}(" + b"".join(opcodes(key) + opcodes(inner) for key, inner in value.items()) + b"u"


def object_of(module: str, name: str, fields: Mapping[object, object]) -> Raw:
    """An object of a class that need not be there."""
    return Raw(b"c%s\n%s\n)\x81%sb" % (module.encode(), name.encode(), opcodes(fields)))


def called(module: str, name: str, *args: object) -> Raw:
    """What calling this would give to whoever really unpickles it."""
    return Raw(b"c%s\n%s\n(%stR" % (module.encode(), name.encode(), b"".join(map(opcodes, args))))


def index_of(items: Iterable[tuple[str, str, object, object]]) -> bytes:
    """The ``.metadata`` that names these items: name, shard, offset and length."""
    metadata, filesystem = "torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem"
    stored = {
        object_of(metadata, "MetadataIndex", {"fqn": name, "offset": None, "index": 0}): object_of(
            filesystem, "_StorageInfo", {"relative_path": shard, "offset": offset, "length": length}
        )
        for name, shard, offset, length in items
    }
    whole = {"state_dict_metadata": {}, "planner_data": None, "storage_data": stored, "version": "1.0.0"}
    return b"\x80\x02" + object_of(metadata, "Metadata", whole) + b"."


def write_dcp(folder: Path, shards: Mapping[str, Sequence[bytes]], index: str = ".metadata") -> Path:
    """Shards with these items, and then their index; every file is a second younger than the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    items = []
    for shard, stored in shards.items():
        at = 0
        for number, data in enumerate(stored):
            items.append((f"{shard}.{number}", shard, at, len(data)))
            at += len(data)
        (folder / shard).write_bytes(b"".join(stored))
    (folder / index).write_bytes(index_of(items))
    set_times(folder, *shards, index)
    return folder


def set_times(folder: Path, *names: str) -> None:
    """One second after another, in this order."""
    for number, name in enumerate(names):
        os.utime(folder / name, (WRITTEN_S + number, WRITTEN_S + number))


def tensor(bytes_each: int = 100) -> bytes:
    """One item as DCP stores it."""
    data = bytes((5 * n + 1) % 251 for n in range(bytes_each))
    return torch_zip({"data.pkl": b"\x80\x02}.", "byteorder": b"little", "data/0": data})


TWO_RANKS = {"__0_0.distcp": [tensor(), tensor(7)], "__1_0.distcp": [tensor(300)]}


def saved(value: object) -> bytes:
    """A dict of plain values as ``torch.save`` stores it."""
    return torch_zip({"data.pkl": pickle.dumps(value, protocol=2), "data/0": bytes(64)})


def model_states(**more: object) -> bytes:
    """What rank 0 writes of the model, with the names of DeepSpeed."""
    state = {"module": {}, "optimizer": None, "param_shapes": [{}], "dp_world_size": 2, "mp_world_size": 1}
    return saved({**state, "global_steps": 100, "ds_config": {"train_batch_size": 8}, **more})


def optimizer_states(partitions: object = 2) -> bytes:
    """What a rank writes of the optimizer."""
    return saved(
        {"optimizer_state_dict": {"zero_stage": 2, "partition_count": partitions}, "ds_version": "0.17"}
    )


def write_deepspeed(folder: Path, ranks: int = 2, partitions: object = None, prefix: str = "bf16_") -> Path:
    """A tag's folder of ZeRO 1 or 2."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mp_rank_00_model_states.pt").write_bytes(model_states())
    for rank in range(ranks):
        name = f"{prefix}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        (folder / name).write_bytes(optimizer_states(ranks if partitions is None else partitions))
    return folder
