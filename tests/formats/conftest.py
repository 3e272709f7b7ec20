"""Volumes of two kinds for the tests of files that have an end which nobody wrote."""

from __future__ import annotations

import pytest

from ckpt_governor.formats import reading


@pytest.fixture
def volume_that_stores_zeros_as_holes(monkeypatch):
    """As ZFS and btrfs with compression, and as nobody knows of a network volume."""
    monkeypatch.setattr(reading, "keeps_written_zeros", lambda _: False)


@pytest.fixture
def volume_that_stores_what_is_written(monkeypatch):
    """As ext4, XFS and tmpfs."""
    monkeypatch.setattr(reading, "keeps_written_zeros", lambda _: True)
