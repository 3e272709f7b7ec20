"""Orbax folders: temporaries, the time of the commit, the manifests of their stores, the chunks of their arrays."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest
from formats.making_folders import ocdbt_manifest, only, orbax_arrays, orbax_step, orbax_texts, seen
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import Structure

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
NODE = "default/d/1946ed4af3029822be096ca00b2d3bff"
ARRAYS = {"a": ([100, 30], [40, 30]), "s": ([], []), "none": ([0, 4], [1, 4]), "params.b": ([7], [2])}


@pytest.fixture
def step(tmp_path):
    """A whole step."""
    orbax_step(tmp_path / "100")
    return tmp_path / "100"


def told(unit):
    """Its structure and why."""
    found = only(unit)
    return found.structure, found.why


def test_a_step_is_one_copy(step):
    found = only(step.parent)
    assert (found.name, found.format, found.step) == ("100", "orbax", 100)
    assert (found.structure, found.why) == (COMPLETE, "")
    assert found.bytes == sum(file.stat().st_size for file in step.rglob("*") if file.is_file())


@pytest.mark.parametrize("name", ["my_state", "step_000100", "best"])
def test_a_folder_of_any_name_with_its_marks_is_one_copy(tmp_path, name):
    orbax_step(tmp_path / "deeper" / name, item="")
    assert (only(tmp_path).name, told(tmp_path)) == (f"deeper/{name}", (COMPLETE, ""))


@pytest.mark.parametrize("name", ["100", "my_state"])
def test_a_temporary_folder_is_a_part_of_a_write(tmp_path, name):
    orbax_step(tmp_path / f"{name}.orbax-checkpoint-tmp")
    (temporary,) = seen(tmp_path).values()
    assert (temporary.temporary, temporary.structure) == (True, INCOMPLETE)
    (tmp_path / temporary.name).rename(tmp_path / name)
    final = only(tmp_path)
    assert (final.temporary, final.structure) == (False, COMPLETE)
    assert (final.inode, final.fingerprint) == (temporary.inode, temporary.fingerprint)


def test_an_item_under_a_temporary_name_makes_its_step_incomplete(step):
    (step / "default").rename(step / "default.orbax-checkpoint-tmp-12")
    assert told(step.parent) == (
        INCOMPLETE,
        "default.orbax-checkpoint-tmp-12 is still under a temporary name",
    )


def test_a_step_that_is_not_committed_is_incomplete(step):
    orbax_texts(step, committed=None)
    assert told(step.parent) == (SHAPELESS, "it was committed without a time")
    (step / "commit_success.txt").unlink()
    assert told(step.parent) == (INCOMPLETE, "it is not committed yet")


def test_a_step_of_a_version_that_told_no_time_proves_nothing(step):
    (step / "_CHECKPOINT_METADATA").unlink()
    assert told(step.parent) == (SHAPELESS, "it has no _CHECKPOINT_METADATA")
    for text in ("[]", "{}", '{"init_timestamp_nsecs": 1}'):
        (step / "_CHECKPOINT_METADATA").write_text(text)
        assert told(step.parent) == (SHAPELESS, "it does not say when it was committed")


@pytest.mark.parametrize(
    ("folder", "trace", "structure"),
    [
        ("100", "default/array_metadatas/process_0", INCOMPLETE),
        ("step_100", "array_metadatas/process_0", INCOMPLETE),
        ("best", "state/array_metadatas/process_3", INCOMPLETE),
        ("best", "orbax.checkpoint", INCOMPLETE),
        ("params", "array_metadatas/process_0", SHAPELESS),  # an item that somebody took out of its step
    ],
)
def test_a_copy_of_a_version_that_tells_the_time_of_each_commit_lacks_it(tmp_path, folder, trace, structure):
    orbax_step(tmp_path / folder, item=trace.partition("/")[0] if trace.count("/") == 2 else "")
    (tmp_path / folder / trace).parent.mkdir(exist_ok=True)
    (tmp_path / folder / trace).write_text("{}")
    assert told(tmp_path) == (COMPLETE, "")
    (tmp_path / folder / "_CHECKPOINT_METADATA").unlink()
    assert told(tmp_path) == (structure, "it has no _CHECKPOINT_METADATA")


@pytest.mark.parametrize(
    "name", ["_CHECKPOINT_METADATA", "default/_METADATA", "default/_sharding", "default/manifest.ocdbt"]
)
def test_every_cut_of_a_small_file_is_incomplete(step, name):
    whole = (step / name).read_bytes()
    for count in range(len(whole)):
        (step / name).write_bytes(whole[:count])
        assert only(step.parent).structure is INCOMPLETE
    (step / name).write_bytes(whole)
    assert only(step.parent).structure is COMPLETE


@pytest.mark.parametrize("at", range(0, 137, 4))
def test_every_damaged_byte_of_a_manifest_is_found(step, at):
    damaged = bytearray(ocdbt_manifest())
    damaged[at] ^= 0x20
    (step / "default" / "manifest.ocdbt").write_bytes(damaged)
    assert only(step.parent).structure in ((SHAPELESS,) if at == 12 else (INCOMPLETE,))


def test_a_manifest_that_is_longer_than_it_says_is_damaged(step):
    (step / "default" / "manifest.ocdbt").write_bytes(ocdbt_manifest() + b"x")
    assert told(step.parent) == (INCOMPLETE, "default/manifest.ocdbt is damaged")


def test_a_long_manifest_is_not_summed(step):
    data = bytearray(ocdbt_manifest(bytes(100_000)))
    data[500] ^= 1
    (step / "default" / "manifest.ocdbt").write_bytes(data)
    assert told(step.parent) == (COMPLETE, "")


def test_data_of_no_bytes_is_incomplete(step):
    os.truncate(step / NODE, 0)
    assert told(step.parent) == (INCOMPLETE, f"{NODE} is empty")


def test_marks_of_no_bytes_are_well(step):
    (step / "orbax.checkpoint").touch()
    assert told(step.parent) == (COMPLETE, "")


def test_a_store_whose_data_is_gone_is_incomplete(step):
    shutil.rmtree(step / "default" / "d")
    shutil.rmtree(step / "default" / "ocdbt.process_0")
    assert told(step.parent) == (INCOMPLETE, "the data of default/manifest.ocdbt is missing")


@pytest.mark.parametrize("name", ["manifest.ocdbt", "_METADATA"])
def test_a_part_that_every_store_has_is_missed(step, name):
    (step / "default" / "array_metadatas").mkdir()
    (step / "default" / "array_metadatas" / "process_0").write_text("{}")
    assert told(step.parent) == (COMPLETE, "")
    (step / "default" / name).unlink()
    assert told(step.parent) == (INCOMPLETE, f"default/{name} is missing")


def test_a_process_may_have_written_nothing(step):
    shutil.rmtree(step / "default" / "ocdbt.process_0" / "d")
    assert told(step.parent) == (COMPLETE, "")


# Arrays in folders of their own


def test_arrays_with_all_their_chunks_are_complete(tmp_path):
    orbax_arrays(tmp_path / "7", ARRAYS)
    assert told(tmp_path) == (COMPLETE, "")


@pytest.mark.parametrize("chunk", ["a/0.0", "a/2.0", "s/0", "params.b/3"])
def test_every_missing_chunk_is_found(tmp_path, chunk):
    orbax_arrays(tmp_path / "7", ARRAYS)
    (tmp_path / "7" / chunk).unlink()
    count = {"a": 3, "s": 1, "params.b": 4}[chunk.partition("/")[0]]
    assert told(tmp_path) == (INCOMPLETE, f"{chunk.partition('/')[0]}: 1 of {count} chunks are missing")


def test_an_empty_chunk_is_incomplete(tmp_path):
    orbax_arrays(tmp_path / "7", ARRAYS)
    os.truncate(tmp_path / "7" / "a" / "1.0", 0)
    assert told(tmp_path) == (INCOMPLETE, "a/1.0 is empty")


def test_of_a_version_that_may_leave_out_zeros_missing_chunks_prove_nothing(tmp_path):
    orbax_arrays(tmp_path / "7", ARRAYS, newer=False)
    assert told(tmp_path) == (COMPLETE, "")
    (tmp_path / "7" / "a" / "0.0").unlink()
    assert told(tmp_path) == (SHAPELESS, "a: 1 of 3 chunks are missing")


@pytest.mark.parametrize("separator", ["/", "."])
def test_arrays_of_the_third_version_are_counted(tmp_path, separator):
    orbax_arrays(tmp_path / "7", {})
    text = {"shape": [4, 4], "chunk_grid": {"configuration": {"chunk_shape": [2, 4]}}, "node_type": "array"}
    for key in (("c", "0", "0"), ("c", "1", "0")):
        path = tmp_path / "7" / "w" / separator.join(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    (tmp_path / "7" / "w" / "zarr.json").write_text(json.dumps(text))
    (tmp_path / "7" / "zarr.json").write_text('{"node_type": "group"}')
    assert told(tmp_path) == (COMPLETE, "")
    path.unlink()
    assert told(tmp_path) == (INCOMPLETE, "w: 1 of 2 chunks are missing")


def test_every_cut_of_the_text_of_an_array_is_incomplete(tmp_path):
    orbax_arrays(tmp_path / "7", ARRAYS)
    whole = (tmp_path / "7" / "a" / ".zarray").read_bytes()
    for count in range(len(whole)):
        (tmp_path / "7" / "a" / ".zarray").write_bytes(whole[:count])
        assert told(tmp_path) == (INCOMPLETE, "a/.zarray is cut")


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"shape": 3, "chunks": 3}',
        '{"shape": [3], "chunks": [0]}',
        '{"shape": [3], "chunks": [1, 1]}',
        '{"shape": [true], "chunks": [1]}',
        '{"shape": [-1], "chunks": [1]}',
        '{"shape": [null], "chunks": ["a"]}',
        json.dumps({"shape": [9] * 100, "chunks": [1] * 100}),
        '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"shape": [3], "chunks": [1], "more": "' + "x" * 70_000 + '"}',
    ],
    ids=["nothing", "number", "zero", "unlike", "true", "less", "texts", "dimensions", "deep", "long"],
)
def test_an_array_that_is_told_in_another_way_is_not_counted(tmp_path, text):
    orbax_arrays(tmp_path / "7", {"a": ([3], [1])})
    (tmp_path / "7" / "a" / ".zarray").write_text(text)
    assert told(tmp_path) == (COMPLETE, "")


def test_an_absurd_shape_costs_nothing(tmp_path):
    orbax_arrays(tmp_path / "7", {"a": ([3], [1])})
    (tmp_path / "7" / "a" / ".zarray").write_text(json.dumps({"shape": [10**300] * 60, "chunks": [1] * 60}))
    began_s = time.monotonic()
    assert told(tmp_path) == (COMPLETE, "")  # more chunks than are seen are not counted
    assert time.monotonic() - began_s < 5.0


@given(
    st.binary(max_size=60),
    st.integers(0, 200),
    st.sampled_from(["_CHECKPOINT_METADATA", "default/manifest.ocdbt"]),
)
def test_no_bytes_make_the_check_fail_in_another_way(tmp_path_factory, noise, at, name):
    folder = tmp_path_factory.mktemp("noise")
    orbax_step(folder / "1")
    whole = (folder / "1" / name).read_bytes()
    (folder / "1" / name).write_bytes(whole[:at] + noise + whole[at + len(noise) :])
    assert only(folder).structure in (COMPLETE, INCOMPLETE, SHAPELESS)


def test_a_step_that_is_being_removed_is_at_worst_incomplete(step):
    for file in sorted(file for file in step.rglob("*") if file.is_file()):
        file.unlink()
        assert all(
            found.structure in (COMPLETE, INCOMPLETE, SHAPELESS) for found in seen(step.parent).values()
        )
    assert seen(step.parent) == {}
