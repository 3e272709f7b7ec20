"""Makes folders of torch.distributed.checkpoint as torch writes them, opcode for opcode, with the standard library.

Where a few opcodes are enough, ``making_distributed`` has a shorter way; here the index costs what a real one costs.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from formats.making import torch_zip

_METADATA = "torch.distributed.checkpoint.metadata"
_FILESYSTEM = "torch.distributed.checkpoint.filesystem"


class Global:
    """What is pickled as a name in a module that need not be there; also what a value is made by calling."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        """Never; pickle asks whether it could."""


class _Called:
    """A value that whoever reads the pickle gets by calling something."""

    def __init__(self, made_by: Global, *args: object) -> None:
        self.reduced = (made_by, args)

    def __reduce__(self) -> tuple[Global, tuple[object, ...]]:
        return self.reduced


_IN_PYTHON: Any = vars(pickle)["_Pickler"]
"""The one in C insists on importing what it names."""


class _Pickler(_IN_PYTHON):  # type: ignore[misc]
    def save_global(self, obj: type, name: str | None = None) -> None:
        self._name(obj, obj.__module__, obj.__qualname__)

    def _save_named(self, obj: Global) -> None:
        self._name(obj, obj.module, obj.name)

    def _name(self, obj: object, module: str, name: str) -> None:
        self.save(module)
        self.save(name)
        self.write(pickle.STACK_GLOBAL)
        self.memoize(obj)

    dispatch: ClassVar[dict[type, object]] = {**_IN_PYTHON.dispatch, Global: _save_named}


class _Object:
    """Of a class that is pickled under the name of one of torch."""

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


def _named(name: str, module: str = _METADATA) -> type[_Object]:
    return type(name, (_Object,), {"__module__": module, "__qualname__": name})


class TensorProperties(_Object):
    """Pickled as a tuple, as torch has it."""

    def __getstate__(self) -> object:
        return self.__dict__["state"]


TensorProperties.__module__ = _METADATA
_Metadata, _Tensor, _Chunk = (
    _named("Metadata"),
    _named("TensorStorageMetadata"),
    _named("ChunkStorageMetadata"),
)
_Index, _StorageMeta = _named("MetadataIndex"), _named("StorageMeta")
_StorageInfo = _named("_StorageInfo", _FILESYSTEM)
_SIZE = Global("".join(("tor", "ch")), "Size")
"""Its module is another string than that of float32, as in torch, so that it is written out once more."""
_FLOAT32 = Global("torch", "float32")
_STRIDED = _Called(Global("torch.serialization", "_get_layout"), "torch.strided")
_PRESERVE = _Called(Global(_METADATA, "_MEM_FORMAT_ENCODING"), 0)


class Item(NamedTuple):
    """A part of a tensor of two dimensions and four columns."""

    name: str
    part: int
    """Its number among the parts of its tensor."""
    row: int
    rows: int
    shard: str
    offset: int
    length: int


def dcp_index(
    items: Sequence[Item], folder: str, save_id: str = "54ca2390-6ab2-442b-95bd-43a7f9db5f5a"
) -> bytes:
    """The ``.metadata`` of these items, of which those of one tensor are in their order."""
    parts: dict[str, list[Item]] = {}
    for item in items:
        parts.setdefault(item.name, []).append(item)
    whole = _Metadata(
        state_dict_metadata={name: _tensor(of_it) for name, of_it in parts.items()},
        planner_data={name: tuple(map(sys.intern, name.split(".", 1))) for name in parts},
        storage_data={
            _Index(fqn=item.name, index=item.part, offset=_size(item.row, 0)): _StorageInfo(
                relative_path=item.shard, offset=item.offset, length=item.length
            )
            for item in items
        },
        storage_meta=_StorageMeta(
            checkpoint_id=_Called(Global("pathlib", "PosixPath"), "/", *folder.strip("/").split("/")),
            save_id=save_id,
            load_id=None,
            modules=[],
        ),
        version="1.0.0",
    )
    made = io.BytesIO()
    _Pickler(made, 4).dump(whole)
    return made.getvalue()


def _size(*dimensions: int) -> _Called:
    return _Called(_SIZE, dimensions)


def _tensor(parts: Sequence[Item]) -> _Object:
    return _Tensor(
        properties=TensorProperties(state=(_FLOAT32, _STRIDED, False, _PRESERVE, False)),
        size=_size(sum(item.rows for item in parts), 4),
        chunks=[_Chunk(offsets=_size(item.row, 0), sizes=_size(item.rows, 4)) for item in parts],
    )


def make_dcp_folder(folder: Path, *, shards: int, tensors: int, rows: int = 8) -> Path:
    """A whole copy of so many ranks, each with its part of every tensor, as FSDP leaves it."""
    folder.mkdir(parents=True)
    data = torch_zip({"data.pkl": b"\x80\x02.", "byteorder": b"little", "data/0": bytes(range(16)) * rows})
    names = [f"model.layers.{number}.weight" for number in range(tensors)]
    items = [
        Item(name, rank, rank * rows, rows, f"__{rank}_0.distcp", number * len(data), len(data))
        for number, name in enumerate(names)
        for rank in range(shards)
    ]
    for rank in range(shards):
        (folder / f"__{rank}_0.distcp").write_bytes(data * tensors)
    (folder / ".metadata.tmp").write_bytes(dcp_index(items, str(folder)))
    os.replace(folder / ".metadata.tmp", folder / ".metadata")
    return folder
