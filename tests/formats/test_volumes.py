"""Whether a hole is a place where nobody has written is told by the kind of file system, as the system names it."""

from __future__ import annotations

import os

import pytest

from ckpt_governor.formats import volumes


def line(device, kind):
    return f"36 35 {device} / /mnt/a\\040b rw,noatime master:1 - {kind} /dev/x rw\n"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Asks of device 8:1 where these are the mounts."""
    path = tmp_path / "mountinfo"
    monkeypatch.setattr(volumes, "_MOUNTS", str(path))
    volumes.keeps_written_zeros.cache_clear()

    def ask(*lines):
        path.write_text("".join(lines))
        volumes.keeps_written_zeros.cache_clear()
        return volumes.keeps_written_zeros(os.makedev(8, 1))

    yield ask
    volumes.keeps_written_zeros.cache_clear()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "tmpfs"])
def test_plain_file_systems_keep_zeros_that_were_written(asked, kind):
    assert asked(line("8:2", "zfs"), line("8:1", kind)) is True


@pytest.mark.parametrize("kind", ["zfs", "btrfs", "overlay", "nfs4", "fuse.s3fs", "lustre", "ext4x", ""])
def test_of_others_nothing_is_known(asked, kind):
    assert asked(line("8:2", "ext4"), line("8:1", kind)) is False


def test_of_a_device_that_is_not_listed_nothing_is_known(asked):
    assert asked(line("8:11", "ext4"), line("18:1", "ext4"), "nonsense\n", "\n") is False
    assert asked() is False


def test_without_a_list_nothing_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(volumes, "_MOUNTS", str(tmp_path / "none"))
    volumes.keeps_written_zeros.cache_clear()
    assert volumes.keeps_written_zeros(os.makedev(8, 1)) is False
    volumes.keeps_written_zeros.cache_clear()
