"""Checkpoint formats: which bytes are a copy, and whether its structure is whole.

The registry is read in its order; the first format that claims a file or folder has it. A new format is a module with
a class and a line here.
"""

from __future__ import annotations

from collections.abc import Collection

from ckpt_governor.formats.composer import Composer
from ckpt_governor.formats.dcp import Dcp
from ckpt_governor.formats.deepspeed import DeepSpeed
from ckpt_governor.formats.generic import GenericFile, GenericFolder, Shards
from ckpt_governor.formats.gguf import Gguf
from ckpt_governor.formats.hdf5 import Hdf5
from ckpt_governor.formats.huggingface import HuggingFaceModel, HuggingFaceTrainer
from ckpt_governor.formats.interface import Format
from ckpt_governor.formats.megatron import Megatron
from ckpt_governor.formats.msgpack_file import MsgpackFile
from ckpt_governor.formats.nemo import Nemo
from ckpt_governor.formats.npy import Npy
from ckpt_governor.formats.orbax import Orbax
from ckpt_governor.formats.pickle_file import PickleFile
from ckpt_governor.formats.safetensors import Safetensors
from ckpt_governor.formats.tar_archive import TarArchive
from ckpt_governor.formats.tensorflow_bundle import SavedModel, TensorFlowBundle
from ckpt_governor.formats.torch_legacy import TorchLegacy
from ckpt_governor.formats.torch_zip import TorchZip
from ckpt_governor.formats.zip_archive import ZipArchive

FORMATS: tuple[Format, ...] = (
    TorchZip(),
    TorchLegacy(),
    Safetensors(),
    Nemo(),
    Megatron(),
    DeepSpeed(),
    Dcp(),
    Composer(),
    Orbax(),
    TensorFlowBundle(),
    SavedModel(),
    HuggingFaceTrainer(),
    HuggingFaceModel(),
    Shards(),
    ZipArchive(),
    Gguf(),
    Hdf5(),
    Npy(),
    TarArchive(),
    MsgpackFile(),
    PickleFile(),
    GenericFile(),
    GenericFolder(),
)


def format_of_file(name: str, head: bytes) -> Format | None:
    """The format of a single file by its name and first bytes; None when it is no copy."""
    return next((format for format in FORMATS if format.claims_file(name, head)), None)


def format_of_folder(name: str, files: Collection[str], folders: Collection[str]) -> Format | None:
    """The format of a folder that as a whole is one copy; None when it is to be looked into."""
    return next((format for format in FORMATS if format.claims_folder(name, files, folders)), None)


def group_of(name: str) -> tuple[Format, str] | None:
    """The copy that a loose file is a part of, with its format; None when the file stands for itself."""
    for format in FORMATS:
        group = format.group_of(name)
        if group is not None:
            return format, group
    return None


def format_named(word: str) -> Format | None:
    """The format with this word."""
    return next((format for format in FORMATS if format.word == word), None)


def stages_beside(word: str) -> bool:
    """Whether a write of this format needs the space of two copies; an unknown format does not."""
    format = format_named(word)
    return format is not None and format.stages_beside
