"""Files of the real Keras: .keras archives, .h5 and .weights.h5."""

from __future__ import annotations

import os

import pytest
from formats.making import checked_deeply
from libraries.folders import assert_watched_saves_are_whole_only_when_finished
from libraries.one_file import (
    COMPLETE,
    INCOMPLETE,
    SHAPELESS,
    SHARES,
    assert_a_killed_save_is_never_whole,
    assert_a_watched_save_is_whole_only_when_finished,
    assert_an_unwritten_tail_is_left_open,
    assert_cuts_are_incomplete,
    assert_whole,
    assert_zeroed_tails,
    look,
    sightings,
)

pytestmark = [
    pytest.mark.library("keras"),
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning"),  # of the backend, at its import
]
WORDS = {"step_3.keras": "zip", "step_3.h5": "hdf5", "step_3.weights.h5": "hdf5"}
every_kind = pytest.mark.parametrize(("name", "word"), WORDS.items(), ids=WORDS)


@pytest.fixture
def keras(monkeypatch):
    """The library with the quickest of its backends."""
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    import keras

    return keras


def trained(keras):
    """A small network with the state of its optimizer."""
    import numpy

    layers = [
        keras.layers.Dense(24, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(3),
    ]
    model = keras.Sequential([keras.Input((16,)), *layers])
    model.compile("adam", "mse")
    model.fit(numpy.ones((8, 16)), numpy.ones((8, 3)), verbose=0)
    return model


def save(model, path):
    """As its ending says."""
    model.save_weights(path) if path.name.endswith(".weights.h5") else model.save(path)


@every_kind
def test_a_saved_model_is_whole_and_every_cut_of_it_is_not(tmp_path, keras, name, word):
    path = tmp_path / name
    save(trained(keras), path)
    assert_whole(path, word, 3)
    assert_cuts_are_incomplete(path, least=4)


@every_kind
def test_a_model_that_is_saved_over_an_older_one_is_whole(tmp_path, keras, name, word):
    path = tmp_path / name
    model = trained(keras)
    path.write_bytes(bytes(500_000))
    save(model, path)
    assert_whole(path, word, 3)


def test_the_callback_writes_whole_files(tmp_path, keras):
    import numpy

    model = trained(keras)
    for name in ("epoch_{epoch:02d}.keras", "ckpt.{epoch:02d}.weights.h5"):
        folder = tmp_path / name.partition("{")[0]
        callback = keras.callbacks.ModelCheckpoint(folder / name, save_weights_only="weights" in name)
        model.fit(numpy.ones((8, 16)), numpy.ones((8, 3)), epochs=1, verbose=0, callbacks=[callback])
        assert_whole(folder / name.format(epoch=1), "hdf5" if "weights" in name else "zip", 1)


def test_the_names_that_its_documentation_gives_to_copies_tell_their_epoch(tmp_path, keras):
    import numpy

    model = trained(keras)
    for name in (
        "w.{epoch:02d}.keras",
        "model.{epoch:02d}-{loss:.2f}.h5",
        "a.{epoch:02d}-{loss:.2f}.weights.h5",
    ):
        only = {"save_weights_only": ".weights" in name}
        callback = keras.callbacks.ModelCheckpoint(tmp_path / name, **only)
        model.fit(numpy.ones((8, 16)), numpy.ones((8, 3)), epochs=3, verbose=0, callbacks=[callback])
    found = sightings(tmp_path)
    assert {(one.structure, one.why) for one in found} == {(COMPLETE, "")}
    steps = sorted((one.name.partition(".")[0], one.step) for one in found)
    assert steps == [(kind, epoch) for kind in ("a", "model", "w") for epoch in (1, 2, 3)]


SHARDED = "cp-0005.weights.json"
SHARDS = "cp-0005_*.weights.h5"


def test_weights_in_several_files_are_one_copy_and_miss_whatever_is_gone_or_cut(tmp_path, keras):
    trained(keras).save_weights(tmp_path / SHARDED, max_shard_size=3e-6)
    (found,) = sightings(tmp_path)
    assert (found.name, found.format, found.step, found.structure) == (SHARDS, "keras-shards", 5, SHAPELESS)
    files = sorted(path for path in tmp_path.iterdir() if path.name != SHARDED)
    assert len(files) > 2
    for path in files:
        whole, times = path.read_bytes(), path.stat()
        for count in (None, 0, len(whole) // 2, len(whole) - 1):
            path.unlink() if count is None else path.write_bytes(whole[:count])
            assert [one.structure for one in sightings(tmp_path)] == [INCOMPLETE], (path.name, count)
            path.write_bytes(whole)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sightings(tmp_path) == (found,)


def test_weights_in_several_files_in_a_folder_miss_whatever_is_gone(tmp_path, keras):
    folder = tmp_path / "step_3"
    folder.mkdir()
    trained(keras).save_weights(folder / "model.weights.json", max_shard_size=3e-6)
    assert look(folder).structure is SHAPELESS
    for path in sorted(folder.glob("*.h5")):
        path.rename(tmp_path / "away")
        assert (look(folder).structure, path.name in look(folder).why) == (INCOMPLETE, True)
        (tmp_path / "away").rename(path)


SAVE_SHARDS = """
import keras
layers = [keras.layers.Dense(1000) for n in range(12)]
model = keras.Sequential([keras.Input((1000,)), *layers])
SAVE
model.save_weights(path + "/cp-0005.weights.json", max_shard_size=0.01)
"""


def test_a_save_of_several_files_that_is_watched_is_one_copy_from_its_begin_to_its_end(tmp_path):
    assert_watched_saves_are_whole_only_when_finished(tmp_path, SAVE_SHARDS, {SHARDS})


def test_the_deep_check_of_an_archive_agrees_and_finds_a_flipped_bit(tmp_path, keras):
    path = tmp_path / "step_3.keras"
    save(trained(keras), path)
    structure, why, read_bytes = checked_deeply("zip", path)
    assert (structure, why) == (COMPLETE, "")
    assert read_bytes > 10_000
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    assert look(path).structure is COMPLETE
    assert checked_deeply("zip", path)[0] is INCOMPLETE


@pytest.mark.parametrize(("name", "caught"), [("step_3.keras", True), ("step_3.weights.h5", False)])
def test_an_end_of_zeros_can_be_seen_only_where_the_table_is_at_the_end(tmp_path, keras, name, caught):
    path = tmp_path / name
    save(trained(keras), path)
    assert_zeroed_tails(path, caught=caught)
    if not caught:
        assert_an_unwritten_tail_is_left_open(path)


SAVE = """
import keras
layers = [keras.layers.Dense(2000, kernel_initializer=keras.initializers.Constant(n + 1)) for n in range(8)]
model = keras.Sequential([keras.Input((2000,)), *layers])
SAVE
model.save_weights(path) if path.endswith(".weights.h5") else model.save(path)
"""
SAVED_BYTES = 8 * 2000 * 2000 * 4


def loads(path):
    """All of it is there, as it was saved."""
    import io
    import zipfile

    import h5py

    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            path = io.BytesIO(archive.read("model.weights.h5"))
    found = []
    with h5py.File(path, "r", locking=False) as file:
        file["layers"].visititems(
            lambda _, one: found.append(one[:]) if getattr(one, "size", 0) > 5000 else None
        )
    assert sorted(kernel.flat[0] for kernel in found) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert all((kernel == kernel.flat[0]).all() for kernel in found)


BOTH = ["step_3.keras", "step_3.weights.h5"]


@pytest.mark.parametrize("name", BOTH)
def test_a_save_that_is_watched_is_whole_only_when_it_is_finished(tmp_path, name):
    assert_a_watched_save_is_whole_only_when_finished(tmp_path / name, SAVE, loads)


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("share", SHARES)
def test_a_save_that_is_killed_is_never_whole(tmp_path, name, share):
    assert_a_killed_save_is_never_whole(tmp_path / name, SAVE, share, SAVED_BYTES, loads)
