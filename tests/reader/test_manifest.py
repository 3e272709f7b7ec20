"""``write_manifest``: what it writes, what it leaves out, and that it never harms the checkpoint or the training."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tracemalloc
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from ckpt_reader import manifest
from ckpt_reader.manifest import write_manifest

FILES = {
    "model.safetensors": b"weights" * 999,
    "empty": b"",
    "sub/deeper/optim.bin": bytes(range(256)),
    ".hidden": b"h",
}


@pytest.fixture
def checkpoint(tmp_path):
    """A folder with some files in it."""
    folder = tmp_path / "step-1"
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def entry(data: bytes) -> dict[str, object]:
    """What a manifest says of a file with these bytes."""
    return {"size": len(data), "crc32": f"{zlib.crc32(data):08x}"}


def written(path):
    """The manifest's content."""
    record = json.loads(path.read_bytes())
    assert list(record) == ["v", "files"]
    assert record["v"] == 1
    return record["files"]


def everything(folder):
    """All that lies below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_of_a_folder_every_file_is_listed_with_its_size_and_checksum(checkpoint):
    before = everything(checkpoint)
    assert write_manifest(checkpoint) is True
    assert written(checkpoint / "manifest.json") == {name: entry(data) for name, data in FILES.items()}
    assert everything(checkpoint) == sorted([*before, "manifest.json"])


def test_of_a_file_it_lies_beside(tmp_path):
    (tmp_path / "step-1.npy").write_bytes(b"numbers")
    assert write_manifest(str(tmp_path / "step-1.npy")) is True
    assert written(tmp_path / "step-1.npy.manifest.json") == {"step-1.npy": entry(b"numbers")}
    assert everything(tmp_path) == ["step-1.npy", "step-1.npy.manifest.json"]


def test_a_checksum_has_eight_digits_however_small_it_is(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    assert write_manifest(tmp_path / "a")
    assert written(tmp_path / "a.manifest.json")["a"]["crc32"] == "00000000"


def test_it_works_on_a_relative_path_with_a_slash_behind_it(checkpoint, monkeypatch):
    monkeypatch.chdir(checkpoint.parent)
    assert write_manifest("step-1/") is True
    assert set(written(checkpoint / "manifest.json")) == set(FILES)


def test_a_second_save_into_the_same_place_gets_a_new_manifest(checkpoint):
    assert write_manifest(checkpoint)
    (checkpoint / "model.safetensors").write_bytes(b"other weights")
    (checkpoint / "empty").unlink()
    assert write_manifest(checkpoint)
    listed = written(checkpoint / "manifest.json")
    assert listed["model.safetensors"] == entry(b"other weights")
    assert "empty" not in listed
    assert "manifest.json" not in listed


def test_no_link_is_followed_or_listed(checkpoint, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"s")
    (checkpoint / "file-link").symlink_to(tmp_path / "outside" / "secret")
    (checkpoint / "folder-link").symlink_to(tmp_path / "outside")
    (checkpoint / "circle").symlink_to(checkpoint)
    assert write_manifest(checkpoint)
    assert set(written(checkpoint / "manifest.json")) == set(FILES)


def test_a_link_is_no_checkpoint(checkpoint):
    link = checkpoint.parent / "latest"
    link.symlink_to("step-1")
    assert write_manifest(link) is False
    assert not (checkpoint / "manifest.json").exists()


def test_what_is_no_file_is_left_out_and_holds_nothing_up(checkpoint):
    os.mkfifo(checkpoint / "pipe")
    assert write_manifest(checkpoint)
    assert set(written(checkpoint / "manifest.json")) == set(FILES)
    assert write_manifest(checkpoint / "pipe") is False


def test_what_a_dead_write_left_and_what_a_governor_keeps_is_left_out(checkpoint):
    (checkpoint / ".manifest.json.tmp-12ab").write_bytes(b"{")
    (checkpoint / ".ckpt-governor").mkdir()
    (checkpoint / ".ckpt-governor" / "state.json").write_bytes(b"{}")
    assert write_manifest(checkpoint)
    assert set(written(checkpoint / "manifest.json")) == set(FILES)


def test_the_manifest_of_another_program_stays_as_it_is(checkpoint):
    (checkpoint / "manifest.json").write_text('{"name": "web app"}')
    assert write_manifest(checkpoint) is False
    assert (checkpoint / "manifest.json").read_text() == '{"name": "web app"}'


@pytest.mark.parametrize("text", ["", "{", "[" * 9000, "7"], ids=["empty", "cut", "deep", "number"])
def test_what_cannot_be_told_to_be_a_manifest_stays_as_it_is(checkpoint, text):
    (checkpoint / "manifest.json").write_text(text)
    assert write_manifest(checkpoint) is False
    assert (checkpoint / "manifest.json").read_text() == text


def test_a_link_of_the_manifests_name_is_not_followed(checkpoint, tmp_path):
    (tmp_path / "elsewhere").write_text('{"v":1,"files":{}}')
    (checkpoint / "manifest.json").symlink_to(tmp_path / "elsewhere")
    assert write_manifest(checkpoint) is False
    assert (tmp_path / "elsewhere").read_text() == '{"v":1,"files":{}}'


@pytest.mark.parametrize("path", ["gone", "hollow", "nul\0", "", b"step-1", None, 7], ids=repr)
def test_where_there_is_no_checkpoint_it_says_so_and_raises_nothing(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hollow").mkdir()
    assert write_manifest(path) is False
    assert everything(tmp_path) == ["hollow"]


def test_a_name_that_is_no_text_is_listed(checkpoint):
    (checkpoint / os.fsdecode(b"part-\xff")).write_bytes(b"x")
    assert write_manifest(checkpoint)
    assert written(checkpoint / "manifest.json")["part-\udcff"] == entry(b"x")


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_volume_that_refuses_leaves_the_former_manifest_and_nothing_else(checkpoint, monkeypatch, call):
    assert write_manifest(checkpoint)
    former, there = (checkpoint / "manifest.json").read_bytes(), everything(checkpoint)

    def refuse(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(manifest.os, call, refuse)
    (checkpoint / "empty").write_bytes(b"no more")
    assert write_manifest(checkpoint) is False
    assert ((checkpoint / "manifest.json").read_bytes(), everything(checkpoint)) == (former, there)


def test_a_file_that_somebody_still_writes_gets_no_manifest(checkpoint, monkeypatch):
    def crc32_of_a_growing_file(data, crc):
        with (checkpoint / "model.safetensors").open("ab") as file:
            file.write(b"more")
        return zlib.crc32(data, crc)

    monkeypatch.setattr(manifest, "zlib", type("Zlib", (), {"crc32": staticmethod(crc32_of_a_growing_file)}))
    monkeypatch.setattr(manifest, "memoryview", lambda _: memoryview(bytearray(9)), raising=False)
    assert write_manifest(checkpoint / "model.safetensors") is False


def test_an_interrupt_passes(checkpoint, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(manifest.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_manifest(checkpoint)
    assert "manifest.json" not in everything(checkpoint)
    assert not [name for name in everything(checkpoint) if "tmp" in name]


def test_it_is_on_the_disk_before_it_has_its_name_and_its_name_before_the_call_returns(
    checkpoint, monkeypatch
):
    done = []

    def fsync(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    real_replace = os.replace
    monkeypatch.setattr(manifest.os, "fsync", fsync)
    monkeypatch.setattr(manifest.os, "replace", lambda *names: (done.append("rename"), real_replace(*names)))
    assert write_manifest(checkpoint)
    assert done == ["file", "rename", "folder"]


def test_a_manifest_that_would_be_too_long_to_be_read_is_not_written(checkpoint, monkeypatch):
    assert write_manifest(checkpoint)
    former = (checkpoint / "manifest.json").read_bytes()
    monkeypatch.setattr(manifest, "_TEXT_BYTES_MAX", len(former) - 1)
    assert write_manifest(checkpoint) is False
    assert (checkpoint / "manifest.json").read_bytes() == former


def test_a_folder_that_becomes_a_link_meanwhile_is_not_entered(checkpoint, tmp_path, monkeypatch):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"s")
    real = manifest._entry

    def swapping(*names):
        if (checkpoint / "sub").is_dir() and not (checkpoint / "sub").is_symlink():
            (checkpoint / "sub").rename(tmp_path / "moved")
            (checkpoint / "sub").symlink_to(tmp_path / "outside")
        return real(*names)

    monkeypatch.setattr(manifest, "_entry", swapping)
    assert write_manifest(checkpoint)
    assert set(written(checkpoint / "manifest.json")) == {"model.safetensors", "empty", ".hidden"}


def test_no_call_leaves_a_file_open(checkpoint):
    (checkpoint / "manifest.json").mkdir()
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        assert write_manifest(checkpoint) is False
        assert write_manifest(checkpoint / "empty")
    assert len(os.listdir("/proc/self/fd")) == len(before)


PAGES = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("page", ["README.md", "docs/files.md"])
def test_the_examples_leave_a_manifest(tmp_path, page):
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "write_manifest(" in block]
    path = tmp_path / re.search(r'write_manifest\("/ckpt/(.*?)"\)', example)[1]
    if page == "README.md":
        path.write_bytes(b"weights")
    torch = SimpleNamespace(save=lambda state, name: Path(name).write_bytes(state))
    exec(example.replace("/ckpt/", f"{tmp_path}/"), {"torch": torch, "os": os, "state": b"weights"})
    assert written(tmp_path / f"{path.name}.manifest.json") == {path.name: entry(b"weights")}


def test_a_large_file_takes_no_memory(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    try:
        assert write_manifest(tmp_path / "large")
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_the_file_works_alone_under_another_name(checkpoint, run_python, tmp_path):
    shutil.copy(manifest.__file__, tmp_path / "writes_manifests.py")
    script = """
import sys
from writes_manifests import write_manifest
print(write_manifest(sys.argv[1]), [name for name in sys.modules if name.startswith("ckpt_")])
"""
    run = run_python(script, checkpoint, options=("-S", "-s"), env={"PYTHONPATH": str(tmp_path)})
    assert (run.stdout, run.stderr) == ("True []\n", "")
    assert set(written(checkpoint / "manifest.json")) == set(FILES)


def test_only_the_call_is_public():
    assert manifest.__all__ == ["write_manifest"]
