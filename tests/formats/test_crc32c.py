"""The checksum of TensorFlow and OCDBT files."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.formats.crc32c import UNCHECKED, crc32c, fast_crc32c, masked


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_it_gives_the_published_values(data, checksum):
    assert crc32c(data) == checksum


@given(st.binary(max_size=300), st.integers(0, 300))
def test_it_can_be_carried_on(data, at):
    assert crc32c(data[at:], crc32c(data[:at])) == crc32c(data)


def test_a_mask_makes_it_another_number_of_32_bits():
    assert masked(crc32c(b"foo")) != crc32c(b"foo")
    assert masked(0xFFFFFFFF) == (0xFFFFFFFF + 0xA282EAD8) & 0xFFFFFFFF
    assert masked(0) == 0xA282EAD8


def test_no_fast_one_is_offered_where_none_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    monkeypatch.setitem(sys.modules, "crc32c", None)
    assert fast_crc32c() is None


@pytest.mark.parametrize(
    ("module", "functions"),
    [
        ("google_crc32c", {"extend": lambda before, data: crc32c(data, before), "implementation": "c"}),
        ("crc32c", {"crc32c": crc32c}),
    ],
)
def test_a_fast_one_that_is_installed_is_used(monkeypatch, module, functions):
    for name in ("google_crc32c", "crc32c"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**functions))
    checksum = fast_crc32c()
    assert checksum is not None
    assert checksum(b"6789", crc32c(b"12345")) == 0xE3069283


def test_one_that_has_only_its_slow_form_here_is_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "crc32c", None)
    slow = SimpleNamespace(extend=crc32c, implementation="python")
    monkeypatch.setitem(sys.modules, "google_crc32c", slow)
    assert fast_crc32c() is None


def test_who_is_told_that_none_is_installed_is_told_what_to_install():
    project = (Path(__file__).parent.parent.parent / "pyproject.toml").read_text()
    assert re.search(r'^deep = \["google-crc32c>=', project, re.MULTILINE)
    assert UNCHECKED.endswith("pip install 'checkpoint-governor[deep]'")


@pytest.mark.library("google_crc32c")
@given(st.binary(max_size=3000), st.integers(0, 3000))
def test_the_module_of_the_extra_gives_the_same_values_for_any_views(data, at):
    checksum = fast_crc32c()
    assert checksum is not None
    assert checksum(memoryview(data)[at:], checksum(memoryview(data)[:at], 0)) == crc32c(data)
