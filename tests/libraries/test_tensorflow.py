"""Checkpoints of the real TensorFlow: bundles of every sort, SavedModels, damaged, watched and killed."""

from __future__ import annotations

import os

import pytest
from libraries.folders import (
    COMPLETE,
    SHARES,
    assert_a_killed_save_is_never_whole,
    assert_a_removal_is_no_broken_write,
    assert_caught,
    assert_watched_saves_are_whole_only_when_finished,
    assert_whole,
    seen,
)

from ckpt_governor.formats import deep, tensorflow_bundle
from ckpt_governor.formats.crc32c import crc32c
from ckpt_governor.observe.copies import CopyScanner

pytestmark = [
    pytest.mark.library("tensorflow"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*:UserWarning:keras"),
]


def state():
    """Many dtypes, shapes, texts and nothing at all."""
    import tensorflow

    module = tensorflow.Module()
    module.kernel = tensorflow.Variable(tensorflow.random.normal((100, 50)))
    module.layers = [tensorflow.Variable(tensorflow.random.normal((10,))) for _ in range(40)]
    module.nothing = tensorflow.Variable(tensorflow.zeros((0, 3)))
    module.text = tensorflow.Variable(["a", "bb", ""])
    for dtype in ("float16", "bfloat16", "float64", "int64", "bool", "complex64", "uint8"):
        setattr(module, dtype, tensorflow.Variable(tensorflow.zeros((7,), dtype)))
    return module


def checkpoint(**parts):
    """A checkpoint of a state."""
    import tensorflow

    return tensorflow.train.Checkpoint(state=state(), **parts)


def test_the_copies_of_a_manager_are_found_by_their_steps(tmp_path):
    import tensorflow

    manager = tensorflow.train.CheckpointManager(checkpoint(), str(tmp_path), max_to_keep=2)
    for step in (100, 200, 300):
        manager.save(step)
    assert_whole(tmp_path, "tensorflow", {"ckpt-200": 200, "ckpt-300": 300})


@pytest.mark.parametrize("prefix", ["weights", "model.ckpt", "run/best.weights"])
def test_what_is_written_under_any_prefix_is_one_copy(tmp_path, prefix):
    checkpoint().write(str(tmp_path / prefix))
    assert_whole(tmp_path, "tensorflow", {prefix: None})


def test_shards_of_one_copy_are_judged_together(tmp_path):
    import tensorflow

    sharding = tensorflow.train.experimental.MaxShardSizePolicy(max_shard_size=2000)
    options = tensorflow.train.CheckpointOptions(experimental_sharding_callback=sharding)
    checkpoint().save(str(tmp_path / "ckpt"), options=options)
    assert len(list(tmp_path.glob("ckpt-1.data-*"))) > 5
    assert_whole(tmp_path, "tensorflow", {"ckpt-1": 1})


def test_an_asynchronous_copy_is_one_copy(tmp_path):
    import tensorflow

    options = tensorflow.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
    writer = checkpoint()
    writer.save(str(tmp_path / "ckpt"), options=options)
    writer.sync()
    assert_whole(tmp_path, "tensorflow", {"ckpt-1": 1})


@pytest.mark.parametrize("sharded", [False, True])
def test_a_copy_of_the_old_saver_is_one_copy(tmp_path, sharded):
    import tensorflow

    old = tensorflow.compat.v1
    with tensorflow.Graph().as_default(), old.Session() as session:
        old.get_variable("v", shape=(1000, 3), partitioner=old.fixed_size_partitioner(4))
        session.run(old.global_variables_initializer())
        old.train.Saver(sharded=sharded).save(session, str(tmp_path / "model.ckpt"), global_step=7)
    assert_whole(tmp_path, "tensorflow", {"model.ckpt-7": 7})


def test_very_many_tensors_are_one_copy(tmp_path):
    import tensorflow

    module = tensorflow.Module()
    module.all = [tensorflow.Variable(float(number)) for number in range(3000)]
    tensorflow.train.Checkpoint(module=module).save(str(tmp_path / "ckpt"))
    assert_whole(tmp_path, "tensorflow", {"ckpt-1": 1})


def test_a_saved_model_is_one_copy(tmp_path):
    import tensorflow

    tensorflow.saved_model.save(state(), str(tmp_path / "export"))
    assert_whole(tmp_path, "saved-model", {"export": None})


@pytest.mark.library("keras")
def test_a_model_that_keras_exports_and_its_optimizer_are_whole(tmp_path, monkeypatch):
    import keras
    import tensorflow

    if keras.backend.backend() != "tensorflow":
        pytest.skip("library: keras runs without tensorflow here")
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    tensorflow.train.Checkpoint(model=model).save(str(tmp_path / "a" / "ckpt"))
    assert seen(tmp_path)["a/ckpt-1"].structure is COMPLETE
    model.export(str(tmp_path / "b"), verbose=False)
    assert (seen(tmp_path)["b"].format, seen(tmp_path)["b"].structure) == ("saved-model", COMPLETE)


def test_every_file_that_is_cut_or_removed_is_seen(tmp_path, record_property):
    import tensorflow

    manager = tensorflow.train.CheckpointManager(checkpoint(), str(tmp_path), max_to_keep=2)
    manager.save(1)
    manager.save(2)
    rates = assert_caught(
        tmp_path,
        "ckpt-2",
        spared=lambda how, file: how == "zeroed" and ".data-" in file,
    )
    record_property("rates", rates)
    print(f"\nTensorFlow: {rates}")


def test_every_file_of_a_saved_model_that_is_cut_or_removed_is_seen(tmp_path):
    import tensorflow

    tensorflow.saved_model.save(state(), str(tmp_path / "export"))
    rates = assert_caught(
        tmp_path,
        "export",
        # its fingerprint is optional, zeros in its program and its data are valid, and without a program it is none
        spared=lambda how, file: file.endswith("fingerprint.pb") or (how == "zeroed" and "index" not in file),
    )
    print(f"\nSavedModel: {rates}")


def test_every_tensor_s_checksum_is_right_and_wrong_when_a_byte_is(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorflow_bundle, "fast_crc32c", lambda: crc32c)
    checkpoint().write(str(tmp_path / "ckpt-5"))

    def check():
        scanner = CopyScanner(str(tmp_path), budget_s=60.0)
        scanner.look(4e9, 0.0)
        root = os.open(tmp_path, os.O_RDONLY)
        found = scanner.files_of("ckpt-5", root)
        assert found is not None
        result = deep.check(found[1], found[0].plan(found[1]))
        os.close(root)
        return result

    assert check().wrong == ""
    assert check().checked_bytes > 20_000
    (file,) = tmp_path.glob("*.data-*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert check().wrong.startswith("the checksum of tensor")


CODE = """
import tensorflow
module = tensorflow.Module()
module.all = [tensorflow.Variable(tensorflow.random.normal((1000, 1000))) for _ in range(20)]
manager = tensorflow.train.CheckpointManager(tensorflow.train.Checkpoint(module=module), path, max_to_keep=2)
manager.save(1)
SAVE
manager.save(2)
"""


def test_watched_saves_are_whole_only_when_they_are_finished(tmp_path):
    assert_watched_saves_are_whole_only_when_finished(
        tmp_path, CODE + "manager.save(3)\n", {"ckpt-2", "ckpt-3"}
    )


@pytest.mark.parametrize("share", SHARES)
def test_a_killed_save_is_never_whole(tmp_path, share):
    assert_a_killed_save_is_never_whole(tmp_path, CODE, share, "ckpt-1")


def test_a_copy_that_is_removed_is_no_broken_write(tmp_path):
    import tensorflow

    manager = tensorflow.train.CheckpointManager(checkpoint(), str(tmp_path), max_to_keep=3)
    for step in (1, 2):
        manager.save(step)
    assert_a_removal_is_no_broken_write(tmp_path, "ckpt-1")
