"""Files of the real GGUFWriter: every type it quantizes to, any order of bytes, vocabularies and split models."""

from __future__ import annotations

import pytest
from libraries.one_file import (
    COMPLETE,
    SHARES,
    assert_a_killed_save_is_never_whole,
    assert_a_watched_save_is_whole_only_when_finished,
    assert_an_unwritten_tail_is_left_open,
    assert_cuts_are_incomplete,
    assert_whole,
    assert_zeroed_tails,
    look,
)

pytestmark = pytest.mark.library("gguf")


def write(path, tensors=12, words=2000, **options):
    """A model with entries of every kind, a vocabulary, and tensors."""
    import gguf
    import numpy

    alignment = options.pop("alignment", None)
    writer = gguf.GGUFWriter(path, "llama", **options)
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_name("tiny")
    writer.add_block_count(2)
    writer.add_uint8("a.u8", 1)
    writer.add_int64("a.i64", -1)
    writer.add_float64("a.f64", 0.5)
    writer.add_bool("a.bool", True)
    writer.add_token_list([f"word {number}" for number in range(words)])
    writer.add_token_scores([0.5] * words)
    writer.add_token_types([1] * words)
    for number in range(tensors):
        data = numpy.random.default_rng(number).standard_normal((7 + number, 33)).astype("f4")
        writer.add_tensor(f"blk.{number}.weight", data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


OPTIONS = {"plain": {}, "aligned": {"alignment": 64}, "no words": {"words": 1}, "no tensors": {"tensors": 0}}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@every_option
def test_a_written_model_is_whole_and_every_cut_of_it_is_not(tmp_path, options):
    path = tmp_path / "model_3.gguf"
    write(path, **options)
    assert_whole(path, "gguf", 3)
    assert_cuts_are_incomplete(path, spared_bytes=options.get("alignment", 32) - 1)


def test_the_order_of_bytes_may_be_the_other_one(tmp_path):
    import gguf

    path = tmp_path / "model_3.gguf"
    write(path, endianess=gguf.GGUFEndian.BIG)
    assert_whole(path, "gguf", 3)
    assert_cuts_are_incomplete(path, spared_bytes=31)


def test_every_type_of_tensor_is_whole_or_has_no_shape_and_never_incomplete(tmp_path):
    import gguf
    import numpy

    without_shape = []
    for kind, (_, block_bytes) in gguf.GGML_QUANT_SIZES.items():
        path = tmp_path / str(kind.value) / "model_3.gguf"
        path.parent.mkdir()
        writer = gguf.GGUFWriter(path, "llama")
        data = numpy.ones((5, 3 * block_bytes), "u1")
        writer.add_tensor("a", data, raw_dtype=kind, raw_shape=data.shape)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        found = look(path)
        if found.structure is not COMPLETE:
            without_shape.append(kind)
            assert found.why == "a tensor is of a type that cannot be checked"
        else:
            assert_cuts_are_incomplete(path, spared_bytes=31)
    assert without_shape == [gguf.GGMLQuantizationType.Q8_1]


def test_a_split_model_is_one_copy_and_whole(tmp_path):
    from ckpt_governor.observe.copies import CopyScanner

    write(tmp_path / "model.gguf", split_max_tensors=5)
    (found,) = CopyScanner(str(tmp_path), budget_s=60.0).look(4e9, 0.0).sightings
    assert (found.format, found.structure) == ("shards", COMPLETE)
    assert found.bytes == sum(part.stat().st_size for part in tmp_path.iterdir())


def test_an_end_of_zeros_cannot_be_seen_and_one_that_nobody_wrote_is_left_open(tmp_path):
    path = tmp_path / "model_3.gguf"
    write(path, tensors=60, words=1)
    assert_zeroed_tails(path, caught=False)
    assert_an_unwritten_tail_is_left_open(path)


SAVE = """
import gguf, numpy
writer = gguf.GGUFWriter(path, "llama")
writer.add_token_list([f"word {number}" for number in range(5000)])
for number in range(8):
    writer.add_tensor(f"blk.{number}.weight", numpy.full((1024, 4096), number + 1, "f4"))
SAVE
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
"""
SAVED_BYTES = 8 * 1024 * 4096 * 4


def loads(path):
    """The library reads all of it, as it was saved."""
    import gguf

    tensors = gguf.GGUFReader(path).tensors
    assert [bool((tensor.data == number + 1).all()) for number, tensor in enumerate(tensors)] == [True] * 8


def test_a_save_that_is_watched_is_whole_only_when_it_is_finished(tmp_path):
    assert_a_watched_save_is_whole_only_when_finished(tmp_path / "model_3.gguf", SAVE, loads)


@pytest.mark.parametrize("share", SHARES)
def test_a_save_that_is_killed_is_never_whole(tmp_path, share):
    assert_a_killed_save_is_never_whole(tmp_path / "model_3.gguf", SAVE, share, SAVED_BYTES, loads)
