"""``ckptctl copies --deep``: what is read, what is said of it, and to whom."""

from __future__ import annotations

import os
import sys
import time
from types import SimpleNamespace

import pytest
from ctl.conftest import put_copy
from formats.making import torch_zip
from formats.making_folders import bundle

from ckpt_governor.formats.crc32c import UNCHECKED, crc32c
from ckpt_governor.formats.deep import check
from ckpt_governor.observe import deep
from ckpt_reader.manifest import write_manifest

OLD_S = 600.0
RECORDS = {"data.pkl": b"\x80\x02}q\x00.", "data/0": bytes(range(256)) * 400}
CHECKED_BYTES = sum(map(len, RECORDS.values())) + 2


def put(folder, name, data=None, *, flipped=False, age_s=OLD_S):
    """A copy with checksums, long at rest; ``flipped``: with one wrong bit in a tensor."""
    data = bytearray(torch_zip(RECORDS) if data is None else data)
    if flipped:
        data[len(data) // 2] ^= 1
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def found(said):
    """Of each copy its status and what the deep check says."""
    return {
        one["name"]: (
            one["status"],
            one["deep"] and one["deep"]["status"],
            one["deep"] and one["deep"]["why"],
        )
        for one in said.record["copies"]
    }


def test_without_the_flag_nothing_is_read_or_said(ctl, unit):
    put(unit.path, "step-1.pt", flipped=True)
    said = ctl("copies", unit.path, "--json")
    assert said.code == 0
    assert "deep" not in said.record["copies"][0]
    assert "bytes_per_s" not in said.record


def test_the_record_is_as_the_interface_says(ctl, unit):
    path = put(unit.path, "step-1.pt")
    said = ctl("copies", unit.path, "--deep", "--json")
    record = said.record
    keys = ["v", "unit", "copies", "leftovers", "leftover_bytes", "dangling", "newest_sound", "bytes_per_s"]
    assert list(record) == keys
    assert record["copies"][0]["deep"] == {
        "status": "sound",
        "why": None,
        "bytes": path.stat().st_size,
        "checked_bytes": CHECKED_BYTES,
    }
    assert record["bytes_per_s"] > 0
    assert (said.code, said.err) == (0, "")


def test_each_copy_is_sound_or_broken_or_has_no_checksums(ctl, unit):
    put(unit.path, "step-1.pt", flipped=True)
    put(unit.path, "step-2.pt", torch_zip(RECORDS, crc=False))
    put_copy(unit.path, "step-3.safetensors", age_s=OLD_S)
    put(unit.path, "step-4.pt")
    said = ctl("copies", unit.path, "--deep", "--json")
    assert found(said) == {
        "step-1.pt": ("broken", "broken", "the checksum of archive/data/0 is wrong"),
        "step-2.pt": ("sound", "no-checksums", "has no checksums"),
        "step-3.safetensors": ("sound", "no-checksums", "has no checksums"),
        "step-4.pt": ("sound", "sound", None),
    }
    assert (said.code, said.record["newest_sound"]) == (0, "step-4.pt")


def test_a_wrong_checksum_in_the_newest_copy_is_a_bad_answer(ctl, unit):
    put(unit.path, "step-1.pt", age_s=OLD_S + 60)
    put(unit.path, "step-2.pt", flipped=True)
    assert ctl("copies", unit.path).code == 0
    said = ctl("copies", unit.path, "--deep", "--json")
    assert (said.code, said.record["newest_sound"]) == (1, "step-1.pt")
    assert said.record["copies"][1]["why"] == "the checksum of archive/data/0 is wrong"


def test_the_table_says_the_same(ctl, unit):
    put(unit.path, "step-1.pt", flipped=True)
    put_copy(unit.path, "step-2.safetensors", age_s=OLD_S)
    put(unit.path, "step-3.pt")
    said = ctl("copies", unit.path, "--deep")
    lines = said.out.splitlines()
    assert lines[0].split() == ["copy", "format", "step", "size", "age", "status", "checked", "why"]
    assert "broken  102.4 kB      the checksum of archive/data/0 is wrong" in lines[1]
    assert lines[2].endswith("sound   no checksums")
    assert lines[3].endswith("sound   102.4 kB")
    assert lines[4].startswith("checked 204.8 kB in 0.")
    assert lines[4].endswith(" a second")


def test_where_nothing_has_a_checksum_that_is_said(ctl, unit):
    put_copy(unit.path, "step-2.safetensors", age_s=OLD_S)
    assert (
        ctl("copies", unit.path, "--deep").out.splitlines()[-1]
        == "nothing had a checksum that could be checked"
    )
    assert ctl("copies", unit.path, "--deep", "--json").record["bytes_per_s"] is None


def test_an_empty_directory_has_no_copies(ctl, unit):
    assert ctl("copies", unit.path, "--deep") == (0, "no copies\n", "")


@pytest.mark.parametrize("how", ["name", "path", "relative path"])
def test_only_the_copies_that_are_named_are_read(ctl, unit, monkeypatch, how):
    put(unit.path, "step-1.pt")
    put(unit.path, "step-2.pt", flipped=True)
    name = {"name": "step-1.pt", "path": unit.path / "step-1.pt", "relative path": "./step-1.pt"}[how]
    monkeypatch.chdir(unit.path)
    said = ctl("copies", unit.path, name, "--deep", "--json")
    assert found(said) == {"step-1.pt": ("sound", "sound", None), "step-2.pt": ("sound", None, None)}
    assert ctl("copies", unit.path, name, "--deep").out.splitlines()[2].split()[-2:] == ["sound", "-"]


def test_a_name_that_no_copy_has_is_wrong_usage(ctl, unit):
    put(unit.path, "step-1.pt")
    said = ctl("copies", unit.path, "step-9.pt", "--deep")
    assert (said.code, "no copy is called step-9.pt" in said.err) == (2, True)


def test_names_without_the_flag_are_wrong_usage(ctl, unit):
    put(unit.path, "step-1.pt")
    assert ctl("copies", unit.path, "step-1.pt").code == 2


def test_of_a_folder_the_file_and_the_record_are_named(ctl, unit):
    put(unit.path, "step-1/model.pt")
    put(unit.path, "step-1/optim.pt", flipped=True)
    assert found(ctl("copies", unit.path, "--deep", "--json"))["step-1"][1:] == (
        "broken",
        "the checksum of optim.pt: archive/data/0 is wrong",
    )


def test_a_manifest_finds_what_no_checksum_of_the_format_could(ctl, unit):
    path = put_copy(unit.path, "step-1.safetensors", age_s=OLD_S)
    assert write_manifest(path)
    assert found(ctl("copies", unit.path, "--deep", "--json")) == {
        "step-1.safetensors": ("sound", "sound", None)
    }
    beside = unit.path / "step-1.safetensors.manifest.json"
    data, written = bytearray(path.read_bytes()), path.stat()
    data[3000] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(0, written.st_mtime_ns))
    os.utime(beside, (time.time() + 9, time.time() + 9))
    said = ctl("copies", unit.path, "--deep", "--json")
    why = "the checksum of step-1.safetensors is wrong"
    assert (found(said), said.code) == ({"step-1.safetensors": ("broken", "broken", why)}, 1)


def test_a_copy_that_is_being_written_is_not_read(ctl, unit):
    put_copy(unit.path, "step-1.safetensors", keep=2000)
    said = ctl("copies", unit.path, "--deep", "--json")
    assert found(said)["step-1.safetensors"][:2] == ("writing", "unknown")
    assert said.record["copies"][0]["deep"]["checked_bytes"] == 0
    assert said.code == 0


def test_a_copy_that_is_cut_is_broken_without_being_read(ctl, unit):
    put(unit.path, "step-1.pt", torch_zip(RECORDS)[:5000])
    said = ctl("copies", unit.path, "--deep", "--json")
    assert found(said) == {"step-1.pt": ("broken", "broken", "no end record")}
    assert (said.record["copies"][0]["deep"]["checked_bytes"], said.code) == (0, 1)


def test_a_cut_copy_of_a_format_without_checksums_is_broken_all_the_same(ctl, unit):
    put_copy(unit.path, "step-1.safetensors", keep=2000, age_s=OLD_S)
    (copy,) = ctl("copies", unit.path, "--deep", "--json").record["copies"]
    assert (copy["status"], copy["deep"]["status"], copy["deep"]["why"]) == ("broken", "broken", copy["why"])


# Checksums that the standard library does not have


def test_of_tensorflow_every_tensor_is_checked_where_a_fast_module_is_installed(ctl, unit, monkeypatch):
    fast = SimpleNamespace(implementation="c", extend=lambda before, data: crc32c(data, before))
    monkeypatch.setitem(sys.modules, "google_crc32c", fast)
    bundle(unit.path, "ckpt-1")
    assert found(ctl("copies", unit.path, "--deep", "--json")) == {"ckpt-1": ("sound", "sound", None)}
    (shard, *_) = unit.path.glob("*.data-*")
    data = bytearray(shard.read_bytes())
    data[10] ^= 1
    shard.write_bytes(data)
    os.utime(shard, (1000, 1000))
    status, deep_status, why = found(ctl("copies", unit.path, "--deep", "--json"))["ckpt-1"]
    assert (status, deep_status) == ("broken", "broken")
    assert why == f"the checksum of tensor 0 in {shard.name} is wrong"


def test_without_one_it_is_said_what_is_not_checked_and_what_to_install(ctl, unit, monkeypatch):
    for name in ("google_crc32c", "crc32c"):
        monkeypatch.setitem(sys.modules, name, None)
    bundle(unit.path, "ckpt-1")
    said = ctl("copies", unit.path, "--deep", "--json")
    ((_, status, why),) = found(said).values()
    assert (status, why) == ("unknown", UNCHECKED)
    assert UNCHECKED in ctl("copies", unit.path, "--deep").out
    assert said.code == 0
    for number, path in enumerate(sorted(unit.path.glob("*.*"), reverse=True)):  # the index first
        os.utime(path, (1000 + number, 1000 + number))
    said = ctl("copies", unit.path, "--deep").out
    assert f"newer than its index; {UNCHECKED}" in said


# What moves meanwhile


def meanwhile(monkeypatch, act):
    """Do something between the plan and the first read."""

    def acting(*given, **more):
        act()
        return check(*given, **more)

    monkeypatch.setattr(deep, "check", acting)


def test_a_copy_that_is_overwritten_meanwhile_is_not_called_broken(ctl, unit, monkeypatch):
    path = put(unit.path, "step-1.pt")
    meanwhile(monkeypatch, lambda: put(unit.path, "step-1.pt", flipped=True, age_s=0))
    said = ctl("copies", unit.path, "--deep", "--json")
    assert found(said) == {"step-1.pt": ("sound", "unknown", "it changed while it was checked")}
    assert (said.code, path.exists()) == (0, True)


def test_a_copy_that_is_cut_meanwhile_is_not_called_broken(ctl, unit, monkeypatch):
    path = put(unit.path, "step-1.pt")
    meanwhile(monkeypatch, lambda: os.truncate(path, 99))
    assert found(ctl("copies", unit.path, "--deep", "--json"))["step-1.pt"][1:] == (
        "unknown",
        "it changed while it was checked",
    )


def test_a_copy_that_is_removed_meanwhile_is_not_called_broken(ctl, unit, monkeypatch):
    path = put(unit.path, "step-1.pt")
    put(unit.path, "step-2.pt")
    meanwhile(monkeypatch, lambda: path.unlink(missing_ok=True))
    said = ctl("copies", unit.path, "--deep", "--json")
    assert found(said) == {
        "step-1.pt": ("sound", "unknown", "it vanished while it was checked"),
        "step-2.pt": ("sound", "sound", None),
    }
    assert said.code == 0


def test_a_further_name_that_comes_meanwhile_is_no_change(ctl, unit, monkeypatch):
    path = put(unit.path, "step-1.pt")
    meanwhile(monkeypatch, lambda: os.link(path, unit.path / "last.pt"))
    assert found(ctl("copies", unit.path, "--deep", "--json"))["step-1.pt"] == ("sound", "sound", None)


def test_a_copy_that_cannot_be_read_is_not_called_broken(ctl, unit, monkeypatch):
    put(unit.path, "step-1.pt")

    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("ckpt_governor.formats.reading.RegularFile.read_into", fail)
    assert found(ctl("copies", unit.path, "--deep", "--json")) == {
        "step-1.pt": ("sound", "unknown", "it cannot be read: input/output error")
    }


def test_a_deep_look_leaves_no_trace(ctl, unit):
    put(unit.path, "step-1.pt")
    before = [(path.name, path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in unit.path.iterdir()]
    ctl("copies", unit.path, "--deep")
    assert before == [
        (path.name, path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in unit.path.iterdir()
    ]


# Who is told how far it is


class Terminal:
    """A stderr that says it is a terminal."""

    encoding = "utf-8"

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return True

    def fileno(self):
        raise OSError("none")


def test_a_terminal_is_told_with_a_bar(ctl, unit, monkeypatch):
    put(unit.path, "step-1[bold].pt")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    said = ctl("copies", unit.path, "--deep", "--json")
    assert found(said)["step-1[bold].pt"][1] == "sound"
    assert "step-1[bold].pt" in terminal.text
    assert "%" in terminal.text


def test_a_terminal_without_rich_is_told_in_plain_text(ctl, unit, monkeypatch):
    put(unit.path, "step-1\x1b[31m.pt")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setitem(sys.modules, "rich", None)
    assert ctl("copies", unit.path, "--deep", "--json").code == 0
    assert terminal.text.startswith("\r  0 %  step-1\\x1b[31m.pt")
    assert terminal.text.endswith("\r\x1b[K")


# How many cores


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("50000 100000\n", 1),
        ("nonsense", 8),
        ("9900000 100000", 8),
        ("1 0", 8),
    ],
)
def test_no_more_cores_are_kept_busy_than_the_container_has(tmp_path, monkeypatch, text, cpus):
    (tmp_path / "cpu.max").write_text(text)
    monkeypatch.setattr(deep, "_SHARE", str(tmp_path / "cpu.max"))
    monkeypatch.setattr(deep.os, "sched_getaffinity", lambda _: set(range(8)))
    assert deep.usable_cpus() == cpus


def test_without_a_container_the_process_keeps_those_busy_that_it_is_bound_to(tmp_path, monkeypatch):
    monkeypatch.setattr(deep, "_SHARE", str(tmp_path / "nothing"))
    assert deep.usable_cpus() == min(len(os.sched_getaffinity(0)), deep.THREADS_MAX)
