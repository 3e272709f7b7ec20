"""The maker of DCP folders against torch: its index is torch's byte for byte, and torch loads what it makes."""

from __future__ import annotations

import pytest
from formats.making_dcp import Item, dcp_index, make_dcp_folder

pytestmark = [
    pytest.mark.library("torch"),
    pytest.mark.filterwarnings(
        "ignore:torch.distributed is disabled, unavailable or uninitialized:UserWarning"
    ),
]


def test_the_index_is_that_of_torch_byte_for_byte(tmp_path):
    import torch
    import torch.distributed.checkpoint as dcp

    tensors = {f"layers.{number}.weight": torch.ones(8, 4) for number in range(300)}
    dcp.save({"model": tensors}, checkpoint_id=tmp_path / "step_1", no_dist=True)
    found = dcp.FileSystemReader(tmp_path / "step_1").read_metadata()
    items = [
        Item(key.fqn, key.index, 0, 8, place.relative_path, place.offset, place.length)
        for key, place in found.storage_data.items()
    ]
    made = dcp_index(items, str(tmp_path / "step_1"), found.storage_meta.save_id)
    assert made == (tmp_path / "step_1" / ".metadata").read_bytes()


def test_torch_reads_the_index_of_a_folder_that_is_made(tmp_path):
    import torch.distributed.checkpoint as dcp

    folder = make_dcp_folder(tmp_path / "step_1", shards=5, tensors=3)
    found = dcp.FileSystemReader(folder).read_metadata()
    assert len(found.storage_data) == 15
    assert list(found.state_dict_metadata["model.layers.2.weight"].size) == [40, 4]
    for place in found.storage_data.values():
        assert place.offset + place.length <= (folder / place.relative_path).stat().st_size
