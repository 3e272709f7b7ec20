"""A manifest that the job left: what it adds to what a format can tell, when it is believed, and when it is not."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
from formats.making import Shown, checked_deeply, judged, known, safetensors, torch_zip
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import SmallSize, Structure
from ckpt_governor.formats.manifest import plan_by_manifest, read_manifest
from ckpt_governor.observe.copies import CopyScanner
from ckpt_reader.manifest import write_manifest

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
NOW_S, VOLUME_S = 100.0, 2_000_000_000.0


@pytest.fixture
def raw(tmp_path):
    """A copy of which nothing but a manifest can tell anything."""
    path = tmp_path / "step-7.state"
    path.write_bytes(bytes(range(256)) * 40)
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder with two such files, of which one has an end that can be checked."""
    path = tmp_path / "step-7"
    (path / "sub").mkdir(parents=True)
    (path / "model.pt").write_bytes(torch_zip())
    (path / "sub" / "rest.bin").write_bytes(b"12345")
    return path


def put_back(path, seconds=1000):
    """Its modification time, long ago."""
    os.utime(path, (seconds, seconds))


def seen(unit):
    """What a scanner says of the copies in a unit."""
    look = CopyScanner(str(unit)).look(NOW_S, VOLUME_S - NOW_S)
    return {one.name: (one.structure, one.why) for one in look.sightings}


def test_a_file_without_an_end_is_complete_by_its_manifest(raw):
    assert judged("file", raw).structure is SHAPELESS
    assert write_manifest(raw)
    assert judged("file", raw) == (COMPLETE, "", None, False, SmallSize.PROOF)


def test_every_cut_of_such_a_file_is_incomplete(raw):
    size = raw.stat().st_size
    text = json.dumps({"v": 1, "files": {raw.name: {"size": size}}})
    for count in range(1, size, 97):
        raw.write_bytes(bytes(count))
        (raw.parent / f"{raw.name}.manifest.json").write_text(text)
        assert judged("file", raw)[:2] == (INCOMPLETE, f"{raw.name} has {count} of {size} bytes")


def test_a_manifest_heals_nothing(tmp_path):
    path = tmp_path / "step-7.pt"
    path.write_bytes(torch_zip()[:700])
    assert write_manifest(path)
    assert judged("torch-zip", path)[:2] == (INCOMPLETE, "no end record")


def test_a_copy_of_any_format_must_be_as_its_manifest_says(tmp_path):
    path = tmp_path / "step-7.safetensors"
    path.write_bytes(safetensors((100,)))
    text = json.dumps({"v": 1, "files": {path.name: {"size": 5000}}})
    (tmp_path / f"{path.name}.manifest.json").write_text(text)
    assert judged("safetensors", path).structure is INCOMPLETE


def test_a_file_whose_next_save_came_to_no_manifest_is_incomplete(raw):
    assert write_manifest(raw)
    put_back(raw.parent / f"{raw.name}.manifest.json")
    raw.write_bytes(b"longer or shorter")
    assert judged("file", raw).structure is INCOMPLETE
    assert judged("file", raw).why.startswith(f"{raw.name} is newer than its manifest: ")


def test_a_file_of_the_same_size_that_was_written_after_its_manifest_is_judged_without_it(raw):
    assert write_manifest(raw)
    put_back(raw.parent / f"{raw.name}.manifest.json")
    raw.write_bytes(bytes(reversed(raw.read_bytes())))
    why = f"its manifest is older than {raw.name} and says nothing of it"
    assert judged("file", raw)[:2] == (SHAPELESS, why)
    assert checked_deeply("file", raw) == (SHAPELESS, why, 0)


def test_a_file_that_was_replaced_by_an_older_one_is_judged_without_its_manifest(raw):
    assert write_manifest(raw)
    beside = raw.parent / f"{raw.name}.manifest.json"
    os.utime(beside, ns=(0, raw.stat().st_ctime_ns - 1))
    put_back(raw, 5)
    assert judged("file", raw).structure is SHAPELESS


def test_a_manifest_as_old_as_its_file_counts(raw):
    text = json.dumps({"v": 1, "files": {raw.name: {"size": raw.stat().st_size}}})
    beside = raw.parent / f"{raw.name}.manifest.json"
    beside.write_text(text)
    os.utime(beside, ns=(0, raw.stat().st_ctime_ns))
    assert judged("file", raw).structure is COMPLETE


def test_a_folder_whose_next_save_came_to_no_manifest_is_incomplete(folder):
    assert write_manifest(folder)
    assert judged("folder", folder).structure is COMPLETE
    put_back(folder / "manifest.json")
    (folder / "sub" / "rest.bin").write_bytes(b"1234567")
    found = judged("folder", folder)
    assert (found.structure, "is newer than its manifest: sub/rest.bin has 7 of " in found.why) == (
        INCOMPLETE,
        True,
    )


def test_what_came_after_the_manifest_and_is_not_in_it_makes_it_no_older(folder):
    assert write_manifest(folder)
    os.utime(folder / "manifest.json", (2e9, 2e9))
    (folder / "notes.txt").write_text("fine")
    os.utime(folder / "notes.txt", (3e9, 3e9))
    assert judged("folder", folder).structure is COMPLETE


def test_a_lost_file_is_missed_in_a_folder(folder):
    assert write_manifest(folder)
    (folder / "sub" / "rest.bin").unlink()
    assert judged("folder", folder)[:2] == (INCOMPLETE, "sub/rest.bin is missing")


@pytest.mark.parametrize(
    "name", ["train.log", ".nfs0001", "model.pt.tmp", "events.out.tfevents.1", "/".join("abcdefghij") + "/x"]
)
def test_what_is_no_lasting_part_of_a_copy_is_not_missed(folder, name):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"x")
    assert write_manifest(folder)
    (folder / name).unlink()
    assert judged("folder", folder).structure is COMPLETE


def test_a_manifest_beside_that_speaks_of_other_files_says_nothing(raw):
    (raw.parent / f"{raw.name}.manifest.json").write_text(
        '{"v":1,"files":{"other":{"size":3},"":{"size":1}}}'
    )
    assert judged("file", raw)[:2] == (SHAPELESS, "")


@given(
    st.binary(max_size=200)
    | st.text(max_size=100).map(lambda text: json.dumps({"v": 1, "files": {text: text}}).encode())
)
def test_no_manifest_makes_the_check_fail_in_another_way(noise):
    class InMemory:
        size, mtime_ns = len(noise), 10

        def read_at(self, offset, count):
            return noise[offset : offset + count]

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    member = SimpleNamespace(name="", bytes=3, mtime_ns=5, ctime_ns=5)
    files = SimpleNamespace(
        name="step-7.state",
        members=(member,),
        beside={"step-7.state.manifest.json"},
        open_beside=lambda _: InMemory(),
    )
    assert read_manifest(files) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "entry",
    [
        "7",
        "{}",
        '{"size":true}',
        '{"size":"9"}',
        '{"size":1e999}',
        '{"crc32":"xyz"}',
        '{"crc32":7}',
        '{"crc32":"1_2_3_4_"}',
    ],
)
def test_an_entry_that_tells_nothing_is_no_fault(raw, entry):
    text = '{"v":1,"files":{"step-7.state":' + entry + "}}"
    (raw.parent / f"{raw.name}.manifest.json").write_text(text)
    assert judged("file", raw).structure is COMPLETE
    assert not plan_by_manifest(known("file"), Shown(raw)).pieces


# What its checksums add


def test_every_byte_of_a_file_with_a_manifest_is_checked(raw):
    assert write_manifest(raw)
    assert checked_deeply("file", raw) == (COMPLETE, "", raw.stat().st_size)
    data = bytearray(raw.read_bytes())
    written = raw.stat()
    for at in range(0, len(data), 1009):
        data[at] ^= 16
        raw.write_bytes(data)
        os.utime(raw, ns=(written.st_atime_ns, written.st_mtime_ns))
        put_back(raw.parent / f"{raw.name}.manifest.json", 4e9)
        assert checked_deeply("file", raw)[:2] == (INCOMPLETE, f"the checksum of {raw.name} is wrong")
        data[at] ^= 16


def test_of_what_no_manifest_lists_the_checksums_of_its_format_are_checked(folder):
    assert write_manifest(folder)
    assert checked_deeply("folder", folder)[2] == (folder / "model.pt").stat().st_size + 5
    (folder / "late.pt").write_bytes(torch_zip())
    plan = plan_by_manifest(known("folder"), Shown(folder))
    whole = {piece.member for piece in plan.pieces if piece.what == piece.member}
    assert whole == {"model.pt", "sub/rest.bin"}
    assert [piece.member for piece in plan.pieces] == ["model.pt", "sub/rest.bin"] + ["late.pt"] * 4


# As the documentation shows it


def section():
    """What docs/files.md says of manifests."""
    text = (Path(__file__).parent.parent.parent / "docs" / "files.md").read_text(encoding="utf-8")
    return text.partition("## A manifest of a copy")[2].partition("\n## ")[0]


def test_the_manifest_in_the_documentation_is_one(tmp_path):
    text = section().partition("```json\n")[2].partition("```")[0]
    (tmp_path / "sub").mkdir()
    (tmp_path / "model.safetensors").write_bytes(safetensors())
    (tmp_path / "sub" / "optim.bin").write_bytes(b"x" * 12)
    (tmp_path / "manifest.json").write_text(text)
    listed = read_manifest(Shown(tmp_path))
    assert listed is not None
    assert listed.files["model.safetensors"] == (269060552, 0x5C1D2A0B)
    there = (tmp_path / "model.safetensors").stat().st_size
    assert judged("folder", tmp_path).why == f"model.safetensors has {there} of 269060552 bytes"


def test_the_call_in_the_documentation_makes_the_copy_complete(tmp_path):
    code = section().partition("```python\n")[2].partition("```")[0].replace("/ckpt/", f"{tmp_path}/")

    def save(state, path):
        Path(path).write_bytes(torch_zip())

    torch = SimpleNamespace(save=save)
    exec(code, {"torch": torch, "os": os, "state": {}})
    assert seen(tmp_path) == {"step-1200.pt": (COMPLETE, "")}
    assert checked_deeply("torch-zip", tmp_path / "step-1200.pt")[0] is COMPLETE


# As a governor sees it


def test_a_manifest_that_comes_beside_an_old_copy_is_seen(raw):
    for path in (raw, raw.parent):
        put_back(path)
    scanner = CopyScanner(str(raw.parent))
    (first,) = scanner.look(NOW_S, VOLUME_S - NOW_S).sightings
    assert write_manifest(raw)
    (second,) = scanner.look(NOW_S + 1, VOLUME_S - NOW_S).sightings
    assert (first.structure, second.structure) == (SHAPELESS, COMPLETE)
    assert (first.fingerprint, first.bytes) == (second.fingerprint, second.bytes)


def test_a_copy_and_its_manifest_are_one_copy(raw, folder):
    assert write_manifest(raw)
    assert write_manifest(folder)
    assert seen(raw.parent) == {raw.name: (COMPLETE, ""), folder.name: (COMPLETE, "")}


def test_who_dies_while_writing_a_manifest_leaves_nothing_that_counts(raw, folder, monkeypatch):
    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ckpt_reader.manifest.os.replace", die)
    monkeypatch.setattr("ckpt_reader.manifest.os.unlink", die)
    for path in (raw, folder):
        with pytest.raises(KeyboardInterrupt):
            write_manifest(path)
    assert len([name for name in os.listdir(folder) if "tmp" in name]) == 1
    assert seen(raw.parent) == {raw.name: (SHAPELESS, ""), folder.name: (SHAPELESS, "")}


@pytest.mark.parametrize("filling", ["[],", "{},", "0,", '"a":0,'], ids=["lists", "maps", "numbers", "names"])
def test_a_manifest_of_very_many_values_takes_no_memory(folder, filling):
    inner = filling * ((4 << 20) // len(filling) - 20)
    text = f'{{"v":1,"files":{{{inner[:-1]}}}}}' if "a" in filling else f'{{"v":1,"files":[{inner[:-1]}]}}'
    (folder / "manifest.json").write_text(text)
    tracemalloc.start()
    try:
        assert read_manifest(Shown(folder)) is None
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_manifest_of_as_many_files_as_are_looked_at_is_read(folder):
    names = [f"{number:05d}" for number in range(49_000)]
    text = json.dumps({"v": 1, "files": {name: {"size": 1, "crc32": "00000000"} for name in names}})
    (folder / "manifest.json").write_text(text)
    found = read_manifest(Shown(folder))
    assert found is not None
    assert len(found.files) == len(names)
