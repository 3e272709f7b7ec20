"""Archives of the real tarfile, as NeMo makes them, and of the tar program where there is one."""

from __future__ import annotations

import random
import shutil
import subprocess
import tarfile

import pytest
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
    look,
)

pytestmark = pytest.mark.library("tarfile")
FORMS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@pytest.fixture
def model(tmp_path):
    """A folder as NeMo packs it: configuration, weights, links, something empty, names of all sorts."""
    folder = tmp_path / "model"
    (folder / "weights" / "module.decoder").mkdir(parents=True)
    (folder / "model_config.yaml").write_text("target: model\n" * 40)
    (folder / "empty").write_bytes(b"")
    for number in range(30):
        path = folder / "weights" / "module.decoder" / f"{number}.0"
        path.write_bytes(random.Random(number).randbytes(number * 997))
    (folder / "weights" / ("long name, é " * 5)).write_bytes(b"1" * 512)
    (folder / "a link").symlink_to("model_config.yaml")
    (folder / "the same").hardlink_to(folder / "model_config.yaml")
    with (folder / "holes").open("wb") as file:
        for at in range(0, 1 << 20, 1 << 15):
            file.seek(at)
            file.write(b"data" * 300)
    return folder


@every_form
def test_a_packed_model_is_whole_and_every_cut_of_it_is_not(tmp_path, model, form):
    path = tmp_path / "unit" / "step_3.nemo"
    path.parent.mkdir()
    with tarfile.open(path, "w:", format=form) as archive:
        archive.add(model, arcname=".")
    assert_whole(path, "tar", 3)
    ends = len(path.read_bytes().rstrip(b"\0"))
    assert_cuts_are_incomplete(path, spared_bytes=path.stat().st_size - ends, least=512)


def test_an_archive_that_was_added_to_is_whole(tmp_path, model):
    path = tmp_path / "unit" / "step_3.tar"
    path.parent.mkdir()
    for member in ("weights", "model_config.yaml", "empty"):
        with tarfile.open(path, "a") as archive:
            archive.add(model / member, arcname=member)
    assert_whole(path, "tar", 3)


@pytest.mark.parametrize("pack", ["w:gz", "w:bz2", "w:xz"])
def test_a_compressed_archive_has_no_shape(tmp_path, model, pack):
    path = tmp_path / "unit" / "step_3.nemo"
    path.parent.mkdir()
    with tarfile.open(path, pack) as archive:
        archive.add(model, arcname=".")
    assert look(path).structure is SHAPELESS


@pytest.mark.parametrize(
    "options",
    [
        ["--format=v7", "--exclude=holes", "--exclude=long*"],
        ["--format=oldgnu"],
        ["--format=gnu"],
        ["--format=gnu", "--sparse"],
        ["--format=posix", "--sparse"],
        ["--format=posix"],
        ["--format=ustar"],
        ["--format=gnu", "-b", "1"],
        ["--format=gnu", "--label=a model"],
        ["--format=gnu", "--incremental"],
    ],
    ids=" ".join,
)
def test_an_archive_of_the_tar_program_is_whole_and_every_cut_of_it_is_not(tmp_path, model, options):
    if shutil.which("tar") is None:
        pytest.skip("library: there is no tar program")
    path = tmp_path / "unit" / "step_3.tar"
    path.parent.mkdir()
    subprocess.run(["tar", "-cf", path, *options, "-C", model, "."], check=True)
    assert_whole(path, "tar", 3)
    ends = len(path.read_bytes().rstrip(b"\0"))
    assert_cuts_are_incomplete(path, spared_bytes=path.stat().st_size - ends, least=512)


def test_large_records_are_not_called_incomplete(tmp_path, model):
    if shutil.which("tar") is None:
        pytest.skip("library: there is no tar program")
    path = tmp_path / "unit" / "step_3.tar"
    path.parent.mkdir()
    subprocess.run(["tar", "-cf", path, "-b", "4096", "-C", model, "."], check=True)
    assert look(path).structure is not INCOMPLETE


def test_a_far_end_of_zeros_is_never_whole_and_one_that_nobody_wrote_neither(tmp_path, model):
    path = tmp_path / "unit" / "step_3.nemo"
    path.parent.mkdir()
    with tarfile.open(path, "w:") as archive:
        archive.add(model, arcname=".")
    whole = path.read_bytes()
    drawn = random.Random(7)
    for count in [drawn.randrange(512, len(whole.rstrip(b"\0")) - 10_240) for _ in range(40)]:
        path.write_bytes(whole[:count] + bytes(len(whole) - count))
        assert look(path).structure is not COMPLETE, count
    path.write_bytes(whole)
    assert_an_unwritten_tail_is_left_open(path)


def test_a_lost_header_is_never_whole(tmp_path, model):
    path = tmp_path / "unit" / "step_3.nemo"
    path.parent.mkdir()
    with tarfile.open(path, "w:", format=tarfile.USTAR_FORMAT) as archive:
        archive.add(model, arcname=".", filter=lambda member: None if "long name" in member.name else member)
    whole = path.read_bytes()
    with tarfile.open(path) as archive:
        headers = [member.offset for member in archive]
    assert len(headers) > 30
    for at in headers:
        path.write_bytes(whole[:at] + bytes(1024) + whole[at + 1024 :])
        assert look(path).structure is not COMPLETE or not whole[at + 1024 :].strip(b"\0"), at


SAVE = """
import io, tarfile
data = [bytes([number + 1]) * (16 << 20) for number in range(8)]
SAVE
with tarfile.open(path, "w:") as archive:
    for number in range(8):
        member = tarfile.TarInfo(f"weights/{number}")
        member.size = len(data[number])
        archive.addfile(member, io.BytesIO(data[number]))
"""
SAVED_BYTES = 8 * (16 << 20)


def loads(path):
    """All of it is there, as it was saved."""
    with tarfile.open(path) as archive:
        for number in range(8):
            held = archive.extractfile(f"weights/{number}")
            assert held is not None
            assert held.read() == bytes([number + 1]) * (16 << 20)


def test_a_save_that_is_watched_is_whole_only_when_it_is_finished(tmp_path):
    assert_a_watched_save_is_whole_only_when_finished(tmp_path / "step_3.nemo", SAVE, loads)


@pytest.mark.parametrize("share", SHARES)
def test_a_save_that_is_killed_is_never_whole(tmp_path, share):
    assert_a_killed_save_is_never_whole(tmp_path / "step_3.nemo", SAVE, share, SAVED_BYTES, loads)
