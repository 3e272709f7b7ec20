"""Files of the real torch.save and safetensors: sound ones, cut ones, and saves that are watched or killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import warnings

import pytest
from formats.making import checked_deeply

from ckpt_governor.copies import Settle, follow
from ckpt_governor.facts import Copy, CopyStatus, Structure
from ckpt_governor.observe.copies import CopyScanner

pytestmark = pytest.mark.torch
COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
SETTLE = Settle(broken_s=30.0, sound_s=10.0)


def state(megabytes=1):
    """A state of many tensors."""
    import torch

    torch.manual_seed(3)
    return {f"layer.{number}.weight": torch.randn(megabytes * 1024, 32) for number in range(8)}


def look(unit):
    """The one sighting of this unit."""
    (sighting,) = CopyScanner(str(unit), budget_s=60.0).look(time.time() + 1e6, 0.0).sightings
    return sighting


def save_plain(path):
    """torch.save as everybody uses it."""
    import torch

    torch.save({"model": state(), "step": 3}, path)


def save_to_buffer(path):
    """Through a buffer, as Lightning does: the root folder has another name."""
    import io

    import torch

    buffer = io.BytesIO()
    torch.save({"model": state()}, buffer)
    path.write_bytes(buffer.getvalue())


def save_without_checksums(path):
    """With the switch that leaves every checksum zero."""
    import torch

    torch.serialization.set_crc32_options(False)
    try:
        torch.save(state(), path)
    finally:
        torch.serialization.set_crc32_options(True)


def save_many(path):
    """More records than a short end record would hold in its first bytes."""
    import torch

    torch.save({str(number): torch.zeros(3) for number in range(3000)}, path)


SAVES = [save_plain, save_to_buffer, save_without_checksums, save_many]
every_way_to_save = pytest.mark.parametrize("save", SAVES, ids=lambda save: save.__name__)


@every_way_to_save
def test_a_saved_file_is_whole_and_every_cut_of_it_is_not(tmp_path, save):
    path = tmp_path / "step_3.pt"
    save(path)
    sighting = look(tmp_path)
    assert (sighting.format, sighting.structure, sighting.why) == ("torch-zip", COMPLETE, "")
    size = path.stat().st_size
    drawn = random.Random(5)
    for count in sorted({size - 1, *(drawn.randrange(5, size) for _ in range(40))}, reverse=True):
        os.truncate(path, count)
        assert look(tmp_path).structure is INCOMPLETE


@every_way_to_save
def test_a_deep_check_agrees_with_what_was_saved(tmp_path, save):
    path = tmp_path / "step_3.pt"
    save(path)
    structure, why, _ = checked_deeply("torch-zip", path)
    assert structure is COMPLETE or (save, why) == (save_without_checksums, "has no checksums")


def test_a_flipped_bit_in_a_tensor_is_found_by_the_deep_check_alone(tmp_path):
    path = tmp_path / "step_3.pt"
    save_plain(path)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    assert look(tmp_path).structure is COMPLETE
    structure, why, _ = checked_deeply("torch-zip", path)
    assert structure is INCOMPLETE
    assert "checksum" in why


def test_a_zeroed_tail_of_full_size_is_incomplete(tmp_path):
    path = tmp_path / "step_3.pt"
    save_plain(path)
    size = path.stat().st_size
    os.truncate(path, size // 3)
    os.truncate(path, size)
    assert look(tmp_path).structure is INCOMPLETE


def test_a_compiled_program_is_whole(tmp_path):
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # such files are around for years to come
        torch.jit.save(torch.jit.trace(torch.nn.Linear(3, 3), torch.zeros(1, 3)), str(tmp_path / "model.pt"))
    assert look(tmp_path).structure is COMPLETE


def test_a_file_of_the_old_format_is_whole_by_a_format_of_its_own(tmp_path):
    import torch

    torch.save(state(), tmp_path / "step_3.pt", _use_new_zipfile_serialization=False)
    assert (look(tmp_path).format, look(tmp_path).structure) == ("torch-legacy", COMPLETE)


def test_a_safetensors_file_is_whole_and_every_cut_of_it_is_not(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    save_file(state(), path, metadata={"format": "pt"})
    assert (look(tmp_path).format, look(tmp_path).structure) == ("safetensors", COMPLETE)
    drawn = random.Random(5)
    size = path.stat().st_size
    for count in sorted({size - 1, *(drawn.randrange(5, size) for _ in range(40))}, reverse=True):
        os.truncate(path, count)
        assert look(tmp_path).structure is INCOMPLETE


SAVER = """
import sys, torch
from safetensors.torch import save_file
state = {f"layer.{n}": torch.randn(1024, 1024 * 4) for n in range(8)}
sys.stdin.readline()
if sys.argv[1].endswith(".pt"):
    torch.save(state, sys.argv[1])
else:
    save_file(state, sys.argv[1])
print("saved", flush=True)
sys.stdin.readline()
"""
SAVED_BYTES = 8 * 1024 * 1024 * 4 * 4


@pytest.fixture
def saver(tmp_path):
    """A process that is ready to save 128 MiB, and saves when it is told."""
    started = []

    def start(name):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(tmp_path / name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


class Follower:
    """Looks at the unit as fast as it can, on a clock that counts looks."""

    def __init__(self, unit):
        self.scanner = CopyScanner(str(unit), budget_s=60.0)
        self.copies: tuple[Copy, ...] = ()
        self.former_s: float | None = None
        self.start_s = time.time()

    def look(self, later_s=0.0):
        """One look; the copies after it."""
        now_s = time.time() + later_s
        look = self.scanner.look(now_s, 0.0)
        self.copies = follow(
            self.copies,
            look.sightings,
            now_s=now_s,
            former_look_s=self.former_s,
            asked_s=None,
            settle=SETTLE,
        )
        self.former_s = now_s
        return look.sightings

    def settle(self):
        """Enough time passes, and nothing happens."""
        for second in range(1, 40):
            self.look(float(second))
        return self.copies


def loadable(path):
    """Whether the library itself reads the file."""
    import torch
    from safetensors.torch import load_file

    return bool(torch.load(path) if path.suffix == ".pt" else load_file(path))


@pytest.mark.parametrize("name", ["step_3.pt", "model.safetensors"])
def test_a_save_that_is_watched_is_whole_only_when_it_is_finished_and_never_broken(tmp_path, saver, name):
    process, follower = saver(name), Follower(tmp_path)
    follower.look()
    process.stdin.write(b"\n")
    process.stdin.flush()
    os.set_blocking(process.stdout.fileno(), False)
    looks = 0
    while not process.stdout.read() and process.poll() is None:
        for sighting in follower.look():
            assert sighting.structure is not COMPLETE or loadable(tmp_path / name)
        assert all(copy.status is not CopyStatus.BROKEN for copy in follower.copies)
        looks += 1
    assert looks > 3
    follower.look()
    (copy,) = follower.copies
    assert (copy.name, copy.status, copy.serial) == (name, CopyStatus.SOUND, 1)
    assert copy.began_s >= follower.start_s


@pytest.mark.parametrize("name", ["step_3.pt", "model.safetensors"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_save_that_is_killed_ends_as_broken_or_as_a_leftover(tmp_path, saver, name, share):
    process, follower = saver(name), Follower(tmp_path)
    follower.look()
    process.stdin.write(b"\n")
    process.stdin.flush()
    while (
        _written(tmp_path) < share * SAVED_BYTES and process.poll() is None and not (tmp_path / name).exists()
    ):
        pass
    while _written(tmp_path) < share * SAVED_BYTES and process.poll() is None:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    follower.look()
    statuses = [(copy.status, copy.temporary) for copy in follower.settle()]
    if (
        (tmp_path / name).exists()
        and (tmp_path / name).stat().st_size > SAVED_BYTES
        and _whole(tmp_path / name)
    ):
        assert statuses == [(CopyStatus.SOUND, False)]  # it was faster than the signal
    else:
        assert statuses in ([(CopyStatus.BROKEN, False)], [(CopyStatus.UNKNOWN, True)])


def _whole(path):
    try:
        return loadable(path)
    except Exception:  # whatever the library says of a cut file
        return False


def _written(folder):
    """Bytes that are really there: a file may have its full size from the start."""
    total = 0
    for entry in os.scandir(folder):
        try:
            total += entry.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total
