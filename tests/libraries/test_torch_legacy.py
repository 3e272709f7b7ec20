"""``torch.save`` in its older format by the real torch: all it can hold, cut, zeroed, watched and killed."""

from __future__ import annotations

import collections
import random
import warnings

import pytest
from libraries.one_file import (
    COMPLETE,
    INCOMPLETE,
    SHAPELESS,
    SHARES,
    assert_a_killed_save_is_never_whole,
    assert_a_watched_save_is_whole_only_when_finished,
    assert_cuts_are_incomplete,
    assert_whole,
    assert_zeroed_tails,
    look,
)

pytestmark = pytest.mark.library("torch")

SAVE = """
import torch
value = {f"layer.{n}": torch.randn(1 << 20) for n in range(24)}
SAVE
torch.save(value, path, _use_new_zipfile_serialization=False)
"""
WHOLE_BYTES = 24 * (4 << 20)


def save(value, path, protocol=2):
    """In the older format."""
    import torch

    torch.save(value, path, _use_new_zipfile_serialization=False, pickle_protocol=protocol)


def load(path):
    """As anybody loads it."""
    import torch

    return torch.load(path, weights_only=False)


def trained():
    """A model and its optimizer after a step."""
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.BatchNorm1d(40), torch.nn.Linear(40, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 30)).sum().backward()
    optimizer.step()
    return model, optimizer


def values():
    """Whatever a job may save."""
    import numpy
    import torch

    model, optimizer = trained()
    table = torch.randn(20, 20)
    kinds = """float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 complex32
               float8_e4m3fn float8_e5m2 uint16 uint32 uint64"""
    yield "training", {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 5}
    yield "a whole module", model
    yield "every kind", {kind: torch.zeros(7, dtype=getattr(torch, kind)) for kind in kinds.split()}
    yield "views", [table, table[3:], table.t(), table[0], table[::2, 1]]
    yield "nothing", {}
    yield "no tensor", {"a": 1, "b": [None, "text"]}
    yield "empty tensors", [torch.empty(0), torch.empty(0, 3, dtype=torch.int8)]
    yield "sparse", [torch.eye(4).to_sparse(), torch.eye(4).to_sparse_csr()]
    yield "a parameter", torch.nn.Parameter(table)
    yield "storages", [table.untyped_storage(), torch.randn(9).untyped_storage()]
    yield "numpy", [numpy.arange(1000.0), numpy.random.default_rng(1)]
    yield "no data", torch.empty(3, 3, device="meta")
    yield "random state", torch.get_rng_state()
    yield "many", collections.OrderedDict((f"layer.{n}", torch.randn(3)) for n in range(5000))
    yield "large", {"a": torch.randn(1500, 1500), "b": torch.randn(3)}


@pytest.mark.filterwarnings("ignore:ComplexHalf support", "ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_whatever_is_saved_is_whole(tmp_path, protocol):
    path = tmp_path / "model_step_3.pt"
    for name, value in values():
        save(value, path, protocol)
        assert look(path).structure is COMPLETE, (name, look(path))
        assert_whole(path, "torch-legacy", 3)


def test_quantized_tensors_are_whole(tmp_path):
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (torch.qint8, torch.quint8, torch.qint32):
            save(torch.quantize_per_tensor(torch.randn(10), 0.1, 0, kind), tmp_path / "model_3.pt")
            assert_whole(tmp_path / "model_3.pt", "torch-legacy", 3)


@pytest.mark.parametrize("protocol", [2, 4])
def test_cuts_and_ends_of_zeros_are_incomplete(tmp_path, protocol):
    import torch

    path = tmp_path / "step_3.pt"
    model, optimizer = trained()
    save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path, protocol)
    assert_cuts_are_incomplete(path, least=3)
    # Which array comes last is by chance, and zeros within it are not seen: none is large here.
    save({f"array.{number}": torch.randn(50) for number in range(60)}, path, protocol)
    assert_zeroed_tails(path, caught=True)


def test_what_follows_is_loaded_and_not_called_incomplete(tmp_path):
    path = tmp_path / "step_3.pt"
    save(trained()[0].state_dict(), path)
    with path.open("ab") as file:
        file.write(b"more")
    assert load(path)
    assert look(path).structure is SHAPELESS


def test_what_torch_loads_is_incomplete_only_where_its_bytes_are_not_what_was_saved(tmp_path):
    import torch

    path = tmp_path / "step_3.pt"
    save({"a": torch.arange(400.0), "b": torch.arange(40)}, path)
    whole = path.read_bytes()
    drawn = random.Random(3)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[-drawn.randrange(1, 1700)] = drawn.randrange(256)  # in the data and its lengths
        path.write_bytes(damaged)
        try:
            load(path)
        except Exception:
            assert look(path).structure is INCOMPLETE
        else:
            assert look(path).structure is COMPLETE


def test_a_watched_save_is_whole_only_when_finished(tmp_path):
    assert_a_watched_save_is_whole_only_when_finished(tmp_path / "step_3.pt", SAVE, load)


@pytest.mark.parametrize("share", SHARES)
def test_a_killed_save_is_never_whole(tmp_path, share):
    assert_a_killed_save_is_never_whole(tmp_path / "step_3.pt", SAVE, share, WHOLE_BYTES, load)
