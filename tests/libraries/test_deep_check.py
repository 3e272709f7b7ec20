"""``ckptctl copies --deep`` on what libraries write: sound copies are sound, and flipped bytes are found."""

from __future__ import annotations

import json
import os
import random
import time

import pytest

from ckpt_governor.cli.ctl import main
from ckpt_governor.formats.deep import RANGE_BYTES
from ckpt_reader.manifest import write_manifest

pytestmark = [
    pytest.mark.library("torch"),
    pytest.mark.filterwarnings(
        "ignore:torch.distributed is disabled, unavailable or uninitialized:UserWarning"
    ),
]
SEED = 7


@pytest.fixture
def deep(tmp_path, capsys):
    """What a deep look at the directory says of its one copy, after all in it came to rest long ago."""

    def look(old=True):
        then = time.time() - 600
        for path in tmp_path.rglob("*") if old else ():
            os.utime(path, (then, then))
        capsys.readouterr()
        code = main(["copies", str(tmp_path), "--deep", "--json"])
        (copy,) = json.loads(capsys.readouterr().out)["copies"]
        assert code == (copy["status"] == "broken")
        return copy["deep"]

    return look


def tensors():
    """A small model, of which one tensor is so long that several cores sum it."""
    import torch

    torch.manual_seed(SEED)
    return {"long": torch.rand(RANGE_BYTES // 2 + 77), "short": torch.ones(3, 5), "none": torch.empty(0)}


def flip(path, at):
    """Another bit in one byte."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def test_a_file_of_torch_is_sound_and_every_flipped_byte_of_its_tensors_is_found(tmp_path, deep):
    import torch

    path = tmp_path / "step_1.pt"
    torch.save(tensors(), path)
    found = deep()
    assert (found["status"], found["why"]) == ("sound", None)
    assert found["bytes"] - 16_384 < found["checked_bytes"] < found["bytes"]
    drawn = random.Random(SEED)
    for _ in range(10):
        at = drawn.randrange(10_000, path.stat().st_size - 10_000)
        flip(path, at)
        assert deep()["status"] == "broken"
        flip(path, at)
    assert deep()["status"] == "sound"


def test_a_file_of_torch_that_was_told_to_write_none_has_no_checksums(tmp_path, deep):
    import torch

    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(tensors(), tmp_path / "step_1.pt")
    finally:
        torch.serialization.set_crc32_options(before)
    assert (deep()["status"], deep()["checked_bytes"]) == ("no-checksums", 0)


def test_a_distributed_folder_is_sound_and_the_item_with_a_flipped_byte_is_named(tmp_path, deep):
    import torch.distributed.checkpoint as dcp

    dcp.save({"model": tensors()}, checkpoint_id=tmp_path / "step_1", no_dist=True)
    found = deep()
    assert (found["status"], found["why"]) == ("sound", None)
    shard = tmp_path / "step_1" / "__0_0.distcp"
    assert found["checked_bytes"] > 0.9 * shard.stat().st_size
    flip(shard, shard.stat().st_size // 2)
    found = deep()
    assert found["status"] == "broken"
    assert "model.long" in found["why"]


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_of_numpy_are_sound_packed_or_not(tmp_path, deep, packed):
    import numpy

    arrays = {name: tensor.numpy() for name, tensor in tensors().items()}
    zeros = numpy.zeros((1 << 18) + 11, dtype="float64")
    (numpy.savez_compressed if packed else numpy.savez)(tmp_path / "step_1.npz", zeros=zeros, **arrays)
    assert (deep()["status"], deep()["why"]) == ("sound", None)


def test_safetensors_have_no_checksums_but_those_of_a_manifest(tmp_path, deep):
    from safetensors.torch import save_file

    path = tmp_path / "step_1.safetensors"
    save_file(tensors(), path)
    assert deep()["status"] == "no-checksums"
    assert write_manifest(path)
    found = deep(old=False)
    assert (found["status"], found["checked_bytes"]) == ("sound", path.stat().st_size)
    written = path.stat()
    flip(path, path.stat().st_size // 2)
    assert deep(old=False)["why"] == "its manifest is older than step_1.safetensors and says nothing of it"
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    os.utime(tmp_path / "step_1.safetensors.manifest.json")  # as if the disk had flipped it
    assert deep(old=False)["why"] == "the checksum of step_1.safetensors is wrong"
