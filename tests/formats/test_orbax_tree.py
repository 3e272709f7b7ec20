"""The tree of an Orbax item names the arrays that must be there, and a store has data of its own."""

from __future__ import annotations

import json
import shutil

import pytest
from formats.making_folders import only, orbax_arrays, orbax_step

from ckpt_governor.facts import Structure

COMPLETE, INCOMPLETE = Structure.COMPLETE, Structure.INCOMPLETE
ARRAYS = {"w": ([4], [4]), "n.x.b": ([2, 2], [1, 2])}


def entry(*keys, kind="jax.Array", skipped=False):
    """One leaf of a tree."""
    return {
        "key_metadata": [{"key": key, "key_type": 2} for key in keys],
        "value_metadata": {"value_type": kind, "skip_deserialize": skipped},
    }


def tree(*entries, **more):
    """What ``_METADATA`` says."""
    named = {str(number): one for number, one in enumerate(entries)}
    return json.dumps({"tree_metadata": named, "use_ocdbt": False, "use_zarr3": False, **more})


@pytest.fixture
def step(tmp_path):
    """A folder with two arrays, and leaves that have no folder."""
    orbax_arrays(tmp_path / "100", ARRAYS)
    leaves = (
        entry("w"),
        entry("n.x", "b"),
        entry("empty", kind="Dict", skipped=True),
        entry("word", kind="string"),
        entry("none", kind="None", skipped=True),
        entry("new", kind="of a later version"),
    )
    (tmp_path / "100" / "_METADATA").write_text(tree(*leaves))
    return tmp_path / "100"


def test_what_a_tree_tells_of_is_there(step):
    assert only(step.parent).structure is COMPLETE


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_without_its_description_is_missed(step, name):
    (step / name / ".zarray").unlink()
    found = only(step.parent)
    assert (found.structure, found.why) == (INCOMPLETE, f"{name}/.zarray is missing")


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_without_its_folder_is_missed(step, name):
    shutil.rmtree(step / name)
    assert only(step.parent).why == f"{name}/.zarray is missing"


def test_a_newer_sort_of_array_has_another_description(step):
    (step / "_METADATA").write_text(tree(entry("w"), use_zarr3=True))
    assert only(step.parent).why == "w/zarr.json is missing"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(tree(entry("gone"), use_ocdbt=True), id="a store"),
        pytest.param(json.dumps({"tree_metadata": {"a": entry("gone")}}), id="an old version"),
        pytest.param(tree({"key_metadata": [], "value_metadata": []}), id="no entry"),
        pytest.param(tree(entry("../gone")), id="a path"),
        pytest.param(tree([1], None, 5, "x"), id="other values"),
        pytest.param(json.dumps({"tree_metadata": [entry("gone")], "use_ocdbt": False}), id="a list"),
        pytest.param(tree(entry("gone"), more="x" * (1 << 20)), id="a very large tree"),
    ],
)
def test_a_tree_that_tells_nothing_that_is_known_makes_nothing_missed(step, text):
    (step / "_METADATA").write_text(text)
    assert only(step.parent).structure is COMPLETE


def test_a_store_without_data_of_its_own_is_incomplete_also_beside_that_of_its_processes(tmp_path):
    orbax_step(tmp_path / "100")
    assert only(tmp_path).structure is COMPLETE
    for file in (tmp_path / "100" / "default" / "d").iterdir():
        file.unlink()
    assert only(tmp_path).why == "the data of default/manifest.ocdbt is missing"
