"""The binary single-file formats as the scanner finds them in a unit, and as they are followed while they grow."""

from __future__ import annotations

import pytest
from formats.making_binary import DATA, gguf, hdf5, msgpack, npy, tar

from ckpt_governor.copies import Settle, follow
from ckpt_governor.facts import Copy, CopyStatus, Structure
from ckpt_governor.observe.copies import CopyScanner

NOW_S = 2_000_000_000.0
SETTLE = Settle(broken_s=30.0, sound_s=10.0)
WHOLES = {
    "checkpoint_100": ("msgpack", msgpack({"params": {"kernel": DATA}, "step": 100})),
    "model_100.msgpack": ("msgpack", msgpack({"params": {"kernel": DATA}, "step": 100})),
    "epoch.100.weights.h5": ("hdf5", hdf5(version=0)),
    "step_100.hdf5": ("hdf5", hdf5(version=3, user_block_bytes=512)),
    "step_100.npy": ("npy", npy()),
    "step_100.gguf": ("gguf", gguf([("a", (1500,), 0, 6000)], padded=False)),
    "step_100.nemo": ("tar", tar()),
}
every_file = pytest.mark.parametrize(
    ("name", "word", "data"), [(n, *rest) for n, rest in WHOLES.items()], ids=WHOLES
)


@pytest.fixture
def scanner(tmp_path):
    """A scanner that takes the time it needs."""
    return CopyScanner(str(tmp_path), budget_s=60.0)


@every_file
def test_a_file_is_one_copy_with_its_step_and_its_bytes(tmp_path, scanner, name, word, data):
    (tmp_path / name).write_bytes(data)
    (found,) = scanner.look(NOW_S, 0.0).sightings
    assert (found.name, found.format, found.step, found.bytes) == (name, word, 100, len(data))
    assert (found.structure, found.why, found.temporary) == (Structure.COMPLETE, "", False)


@every_file
def test_a_file_is_writing_while_it_grows_and_sound_when_it_is_whole(tmp_path, scanner, name, word, data):
    copies: tuple[Copy, ...] = ()
    seen = []
    sizes = [0, 700, 1500, 2500, len(data)]
    for second, size in enumerate(sizes):
        (tmp_path / name).write_bytes(data[:size])
        now_s = NOW_S + second
        found = scanner.look(now_s, 0.0).sightings
        before_s = now_s - 1.0 if second else None
        copies = follow(copies, found, now_s=now_s, former_look_s=before_s, asked_s=None, settle=SETTLE)
        seen.append([copy.status for copy in copies])
    assert seen == [[CopyStatus.WRITING]] * 4 + [[CopyStatus.SOUND]]


@every_file
def test_a_file_that_stops_growing_is_broken(tmp_path, scanner, name, word, data):
    copies: tuple[Copy, ...] = ()
    for second in range(60):
        if second < 3:
            (tmp_path / name).write_bytes(data[: 600 + 400 * second])
        now_s = NOW_S + second
        found = scanner.look(now_s, 0.0).sightings
        before_s = now_s - 1.0 if second else None
        copies = follow(copies, found, now_s=now_s, former_look_s=before_s, asked_s=None, settle=SETTLE)
    assert [copy.status for copy in copies] == [CopyStatus.BROKEN]


def test_the_file_that_flax_renames_is_temporary_until_then(tmp_path, scanner):
    name, (word, data) = "checkpoint_100", WHOLES["checkpoint_100"]
    (tmp_path / "checkpoint_tmp").write_bytes(data[:900])
    (found,) = scanner.look(NOW_S, 0.0).sightings
    assert (found.name, found.temporary, found.structure) == ("checkpoint_tmp", True, Structure.INCOMPLETE)
    (tmp_path / "checkpoint_tmp").write_bytes(data)
    (tmp_path / "checkpoint_tmp").rename(tmp_path / name)
    (found,) = scanner.look(NOW_S + 1.0, 0.0).sightings
    assert (found.name, found.format, found.structure) == (name, word, Structure.COMPLETE)


def test_parts_of_one_model_in_gguf_are_one_copy(tmp_path, scanner):
    for number in (1, 2, 3):
        (tmp_path / f"model-0000{number}-of-00003.gguf").write_bytes(gguf())
    (found,) = scanner.look(NOW_S, 0.0).sightings
    assert (found.format, found.structure) == ("shards", Structure.COMPLETE)
    (tmp_path / "model-00002-of-00003.gguf").write_bytes(gguf()[:150])
    (found,) = scanner.look(NOW_S + 1.0, 0.0).sightings
    assert found.structure is Structure.INCOMPLETE
