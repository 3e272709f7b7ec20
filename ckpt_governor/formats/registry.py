"""All formats, in the order in which they are asked. A new format is a module with a class and two lines here."""

from __future__ import annotations

from ckpt_governor.formats.composer import Composer
from ckpt_governor.formats.dcp import Dcp
from ckpt_governor.formats.deepspeed import DeepSpeed
from ckpt_governor.formats.generic import GenericFile, GenericFolder, Shards
from ckpt_governor.formats.gguf import Gguf
from ckpt_governor.formats.hdf5 import Hdf5
from ckpt_governor.formats.huggingface import HuggingFaceModel, HuggingFaceTrainer
from ckpt_governor.formats.interface import Format
from ckpt_governor.formats.keras_shards import KerasShards
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
    KerasShards(),
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
