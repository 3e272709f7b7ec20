"""An archive whose first page nobody has written is known by its end, and no other file is taken for one."""

from __future__ import annotations

import io
import os
import zipfile

import pytest
from formats.making import torch_zip
from formats.making_folders import only

from ckpt_governor.facts import Structure
from ckpt_governor.formats import format_of_open
from ckpt_governor.formats.interface import HEAD_BYTES, TAIL_BYTES

WHOLE = torch_zip({"data.pkl": b"\x80\x02}.", "data/0": bytes(range(1, 256)) * 100, "data/1": b"z" * 9000})
WHY = "its beginning was never written"


class InMemory:
    """A file that remembers what was read of it."""

    def __init__(self, data):
        self.data, self.size, self.mtime_ns, self.reads = data, len(data), 0, []

    def read_at(self, offset, count):
        self.reads.append((offset, count))
        return self.data[offset : offset + count]


def zeroed(data, count):
    """With so many zeros at the beginning."""
    return bytes(count) + data[count:]


def word(name, data):
    """The word of the format that has a file of these bytes."""
    found = format_of_open(name, InMemory(data))
    return found and found.word


@pytest.mark.parametrize("count", [HEAD_BYTES, 4096, 20_000])
@pytest.mark.parametrize("name", ["step_1.pt", "a.pth", "epoch=3.ckpt", "pytorch_model.bin", "a.pth.tar"])
def test_a_file_of_torch_without_its_beginning_is_one_and_is_not_whole(tmp_path, name, count):
    (tmp_path / name).write_bytes(zeroed(WHOLE, count))
    found = only(tmp_path)
    assert (found.format, found.structure, found.why) == ("torch-zip", Structure.INCOMPLETE, WHY)


def test_the_last_records_of_older_and_newer_torch_are_known():
    newer = torch_zip({"data.pkl": b"\x80\x02}.", "data/0": bytes(9000), "version": b"3\n"}, version=False)
    newest = torch_zip(
        {"data.pkl": b"\x80\x02}.", "data/0": bytes(9000), "version": b"3\n", ".data/serialization_id": b"1" * 40},
        root="n" * 240,
        version=False,
    )  # fmt: skip
    assert [word("a.pt", zeroed(data, 4096)) for data in (newer, newest)] == ["torch-zip", "torch-zip"]


@pytest.mark.parametrize("name", ["arrays.npz", "model.keras"])
def test_another_archive_without_its_beginning_is_one_and_is_not_whole(tmp_path, name):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a.npy", bytes(range(1, 256)) * 100)
    (tmp_path / name).write_bytes(zeroed(made.getvalue(), 4096))
    found = only(tmp_path)
    assert (found.format, found.structure, found.why) == ("zip", Structure.INCOMPLETE, WHY)


@pytest.mark.parametrize(
    ("copy", "name"),
    [
        ("step_100", "model.pt"),
        ("checkpoint-100", "pytorch_model.bin"),
        ("checkpoint-100", "optimizer.pt"),
        ("global_step100", "mp_rank_00_model_states.pt"),
    ],
)
def test_a_folder_with_such_a_file_is_not_whole(tmp_path, copy, name):
    folder = tmp_path / copy
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "trainer_state.json").write_text("{}")
    (folder / "other.pt").write_bytes(WHOLE)
    (folder / name).write_bytes(zeroed(WHOLE, 4096))
    assert (only(tmp_path).structure, only(tmp_path).why) == (Structure.INCOMPLETE, f"{name}: {WHY}")


@pytest.mark.parametrize("name", ["scheduler.pt", "rng_state_0.pth", "scaler.pt"])
def test_a_small_companion_of_zeros_makes_a_trainers_folder_not_whole(tmp_path, name):
    folder = tmp_path / "checkpoint-100"
    folder.mkdir()
    (folder / "trainer_state.json").write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(WHOLE)
    (folder / name).write_bytes(bytes(5000))
    found = only(tmp_path)
    assert (found.structure, found.why) == (
        Structure.INCOMPLETE,
        f"{name} begins with nothing but zeros",
    )


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("weights.bin", bytes(4096) + b"raw numbers" * 999, "file"),
        ("weights.bin", bytes(4096) + b"raw numbers" * 999 + WHOLE[-22:], "file"),
        ("data.h5", bytes(512) + b"\x89HDF\r\n\x1a\n" + bytes(999), "hdf5"),
        ("model.gguf", bytes(4096) + b"weights" * 999, "gguf"),
        ("__0_0.distcp", zeroed(WHOLE, 4096), "file"),
        ("step_1.pt", zeroed(WHOLE, HEAD_BYTES - 1), "file"),
        ("step_1.pt", bytes(100), "file"),
    ],
    ids=["raw", "raw with an end record", "user block", "gguf", "shard", "not all zeros", "short"],
)
def test_no_other_file_is_taken_for_one(name, data, expected):
    assert word(name, data) == expected


@pytest.mark.parametrize(
    ("name", "data", "reads"),
    [
        ("events.log", bytes(9999), 1),
        ("step_1.pt", WHOLE, 1),
        ("step_1.pt", bytes(9999), 2),
        ("a.npz", bytes(9999), 3),
    ],
    ids=["another name", "a beginning", "zeros", "zeros under the name of two formats"],
)
def test_the_end_is_read_only_where_the_name_says_so_and_the_beginning_is_zeros(name, data, reads):
    file = InMemory(data)
    format_of_open(name, file)
    assert len(file.reads) == reads
    assert sum(count for _, count in file.reads) <= HEAD_BYTES + 2 * TAIL_BYTES


def test_what_holds_only_its_end_yet_is_not_whole_and_whole_when_the_beginning_comes(tmp_path):
    path = tmp_path / "step_1.pt"
    path.write_bytes(zeroed(WHOLE, 4096))
    os.utime(path, (1000, 1000))
    assert only(tmp_path).structure is Structure.INCOMPLETE
    path.write_bytes(WHOLE)
    assert only(tmp_path).structure is Structure.COMPLETE
