"""What the scanner sees in a unit, what it leaves alone, and what a look costs."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import threading
import zipfile
from collections import Counter

import pytest
from formats.making import safetensors, torch_zip

from ckpt_governor.copies import Settle, follow, newest_sound
from ckpt_governor.facts import Copy, Structure
from ckpt_governor.formats import reading
from ckpt_governor.formats.safetensors import Safetensors
from ckpt_governor.observe import copies as scanning
from ckpt_governor.observe import kept
from ckpt_governor.observe.copies import SHOWN_MAX, CopyScanner

WHOLE = torch_zip()
COMPLETE, INCOMPLETE, SHAPELESS, UNREADABLE = (
    Structure.COMPLETE,
    Structure.INCOMPLETE,
    Structure.SHAPELESS,
    Structure.UNREADABLE,
)
SETTLE = Settle(broken_s=30.0, sound_s=10.0)
NOW_S = 2_000_000_000.0  # long after anything in the unit was written


@pytest.fixture
def unit(tmp_path):
    """A unit, with the governor's own folder in it."""
    path = tmp_path / "unit"
    (path / ".ckpt-governor" / "glue").mkdir(parents=True)
    (path / ".ckpt-governor" / "step_9.pt").write_bytes(WHOLE)
    return path


@pytest.fixture
def put(unit):
    """Writes files into the unit."""

    def write(*names, data=WHOLE):
        for name in names:
            (unit / name).parent.mkdir(parents=True, exist_ok=True)
            (unit / name).write_bytes(data)

    return write


@pytest.fixture
def scanner(unit):
    """A scanner that takes the time it needs."""
    return CopyScanner(str(unit), budget_s=60.0)


@pytest.fixture
def look(scanner):
    """One look, by default long after everything."""
    return lambda now_s=NOW_S, offset_s=0.0: scanner.look(now_s, offset_s)


@pytest.fixture
def counted(monkeypatch):
    """Counts the calls that reach the file system."""
    calls: Counter[str] = Counter()

    def count(name):
        real = getattr(os, name)

        def counting(*args, **more):
            calls[name] += 1
            return real(*args, **more)

        monkeypatch.setattr(os, name, counting)

    for name in ("open", "pread", "stat", "scandir"):
        count(name)
    return calls


def names(look):
    """The names of the sightings, in order."""
    return sorted(sighting.name for sighting in look.sightings)


def only(look):
    """The one sighting."""
    (sighting,) = look.sightings
    return sighting


# What is found


def test_an_empty_unit_shows_nothing(look):
    assert look() == scanning.Look()


def test_a_copy_is_sighted_with_all_that_its_file_tells(put, look, unit):
    put("step_100.pt")
    os.utime(unit / "step_100.pt", (1000.0, 1000.0))
    found = (unit / "step_100.pt").stat()
    sighting = only(look(offset_s=10.0))
    assert (sighting.name, sighting.format, sighting.step) == ("step_100.pt", "torch-zip", 100)
    assert (sighting.bytes, sighting.structure, sighting.why) == (len(WHOLE), COMPLETE, "")
    assert (sighting.written_s, sighting.temporary, sighting.also) == (990.0, False, ())
    assert sighting.inode == f"{found.st_dev:x}:{found.st_ino:x}"


@pytest.mark.parametrize(
    "name",
    [
        "a.pt",
        "lightning_logs/version_0/checkpoints/epoch=0-step=4.ckpt",
        "a/b/c/d/step_1.pt",
        "run_1/step_1.pt",
    ],
)
def test_copies_are_found_where_frameworks_nest_them(put, look, name):
    put(name)
    assert names(look()) == [name]


def test_copies_too_deep_or_in_hidden_folders_are_not_seen(put, look):
    put("a/b/c/d/e/step_1.pt", ".hidden/step_1.pt", "a/.cache/step_1.pt")
    assert names(look()) == []


def test_logs_and_settings_are_no_copies(put, look):
    put("train.log", "events.out.tfevents.1.h", "metrics.jsonl", "config.json", "notes.md", data=b"x" * 99)
    put("trainer_state.json", "a.dat", data=b"x" * 999)
    assert look() == scanning.Look()


def test_a_folder_is_one_copy_and_its_members_are_none(put, look):
    put("step_5/model.pt", "step_5/rank_1/optim.pt", "step_5/notes.txt")
    sighting = only(look())
    assert (sighting.name, sighting.format, sighting.step) == ("step_5", "folder", 5)
    assert (sighting.bytes, sighting.structure) == (3 * len(WHOLE), SHAPELESS)


def test_an_empty_folder_is_no_copy_yet(unit, put, look):
    (unit / "step_5").mkdir()
    assert names(look()) == []
    put("step_5/a.bin", data=b"")
    assert only(look()).why == "a.bin: empty"


def test_a_folder_that_turns_out_to_hold_copies_is_looked_into(put, look):
    put("epoch_1/model.pt")
    assert names(look()) == ["epoch_1"]
    put("epoch_1/step_200.pt")
    assert names(look()) == ["epoch_1/model.pt", "epoch_1/step_200.pt"]


def test_a_cut_member_is_named(put, look):
    put("step_5/a.pt")
    put("step_5/b.pt", data=WHOLE[:100])
    assert (only(look()).structure, only(look()).why) == (INCOMPLETE, "b.pt: no end record")


def test_shards_in_one_folder_are_one_copy(put, look):
    put("out/model-00001-of-00002.safetensors", data=safetensors())
    assert (only(look()).structure, only(look()).why) == (INCOMPLETE, "1 of 2 parts")
    put("out/model-00002-of-00002.safetensors", data=safetensors())
    sighting = only(look())
    assert (sighting.name, sighting.format) == ("out/model-*-of-00002.safetensors", "shards")
    assert (sighting.structure, sighting.bytes) == (COMPLETE, 2 * len(safetensors()))


@pytest.mark.parametrize(
    "name",
    ["step_1.pt.tmp", ".tmpAbCdEf", "tmp-checkpoint-49/model.pt", "100.orbax-checkpoint-tmp/d/0", "x.tmp"],
)
def test_what_has_a_temporary_name_is_a_part_of_a_write(put, look, name):
    put(name, data=safetensors((100_000,)))
    sighting = only(look())
    assert (sighting.name, sighting.temporary) == (name.split("/")[0], True)


@pytest.mark.parametrize(
    "name",
    [
        "metrics.json.tmp",
        "train.log.part",
        ".tmpAbCdEf",
        "tmp-logs/a.txt",
        ".nfs0001",
        ".cache.sqlite",
        "scratch.tmp",
    ],
)
def test_temporaries_of_other_things_are_nothing(put, look, name):
    put(name, data=b"x" * 200_000)  # or a scratch file that grows would be a write that never ends
    assert look() == scanning.Look()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param(".tmpAbC123", bytes(4096), id="safetensors, sized and not written"),
        pytest.param("model/.tmpAbC123", bytes(4096), id="the same in a model's folder"),
        pytest.param("tmpa1_b2c3d", WHOLE, id="Lightning, on its way to another device"),
        pytest.param("tmp-checkpoint-9/config.json", b"{}", id="the Trainer of Hugging Face"),
        pytest.param("100.orbax-checkpoint-tmp/default/d/0", b"0", id="Orbax"),
        pytest.param("ckpt-3_temp/part-00000-of-00001.data-00000-of-00001", b"0", id="TensorFlow"),
        pytest.param("weights_temp/part-00000-of-00001.index", b"0", id="TensorFlow, without a step"),
        pytest.param(".metadata.tmp", b"\x80\x02}q\x00.", id="torch.distributed.checkpoint"),
        pytest.param("gpt--step=5-last-unfinished", b"", id="NeMo, without its copy"),
    ],
)
def test_the_rest_of_a_dead_write_is_a_part_of_a_write(unit, put, look, name, data):
    put(name, data=data)
    sighting = only(look())
    assert sighting.temporary
    assert sighting.name == name.partition("/")[0] or sighting.name == name
    assert sighting.bytes == len(data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("scratch/data.dat", b"x" * 5000, id="a folder of something else"),
        pytest.param("tmp_dir/notes.txt", b"x", id="somebody's temporary folder"),
        pytest.param("tmpabcdefgh", b"text", id="somebody's temporary file"),
        pytest.param(".tmpAbC123", b"text", id="one with something in it"),
        pytest.param(".tmpAbC124", b"", id="one with nothing in it"),
        pytest.param("results.csv.tmp", b"1,2", id="a table"),
        pytest.param("todo-unfinished", b"", id="a note"),
        pytest.param("part_temp/part-1.txt", b"", id="parts of something else"),
    ],
)
def test_what_no_save_leaves_is_no_part_of_a_write(unit, put, look, name, data):
    put(name, data=data)
    assert look().sightings == ()


def test_a_mark_of_nemo_says_nothing_while_its_copy_is_there(unit, put, look):
    put("gpt--step=5-last-unfinished", data=b"")
    put("gpt--step=5-last/weights/common.pt", "gpt--step=5-last/weights/metadata.json")
    assert names(look()) == ["gpt--step=5-last"]
    for file in (unit / "gpt--step=5-last" / "weights").iterdir():
        file.unlink()
    (unit / "gpt--step=5-last" / "weights").rmdir()
    (unit / "gpt--step=5-last").rmdir()
    assert names(look(NOW_S + 20)) == ["gpt--step=5-last-unfinished"]
    (unit / "gpt--step=5-last-unfinished").unlink()
    assert names(look(NOW_S + 40)) == []


def test_a_file_that_got_its_size_first_is_recognised_when_it_is_written(unit, put, look):
    data = safetensors()
    put(".tmpAbC123", data=bytes(len(data)))
    assert only(look()).format == "file"
    put(".tmpAbC123", data=data)
    assert (only(look(NOW_S + 1)).format, only(look(NOW_S + 1)).temporary) == ("safetensors", True)


def test_a_folder_of_nothing_but_the_rest_of_a_write_is_not_whole(unit, put, look):
    put("200/default.orbax-checkpoint-tmp/d/0", data=b"node")
    assert only(look()).structure is INCOMPLETE


def test_a_rename_into_place_keeps_inode_and_fingerprint(put, look, unit):
    put("step_1.pt.tmp")
    before = only(look())
    (unit / "step_1.pt.tmp").rename(unit / "step_1.pt")
    after = only(look())
    assert (before.temporary, after.temporary, after.structure) == (True, False, COMPLETE)
    assert (before.inode, before.fingerprint) == (after.inode, after.fingerprint)


def test_a_mark_beside_makes_a_copy_complete_without_changing_it(put, look):
    put("a.state", data=b"bytes")
    before = only(look())
    put("a.state.done", data=b"")
    after = only(look())
    assert (before.structure, after.structure) == (SHAPELESS, COMPLETE)
    assert before.fingerprint == after.fingerprint


def test_a_manifest_that_comes_last_is_no_change_of_the_copy(put, look):
    put("step_1/a.bin", data=b"12345")
    before = only(look())
    put("step_1/manifest.json", data=b'{"v": 1, "files": {"a.bin": {"size": 5}}}')
    after = only(look())
    assert (before.structure, after.structure) == (SHAPELESS, COMPLETE)
    assert before.fingerprint == after.fingerprint


def test_a_log_that_grows_inside_a_copy_is_no_change_of_it(put, look):
    put("step_1/a.bin")
    put("step_1/train.log", data=b"1")
    before = only(look())
    put("step_1/train.log", data=b"12")
    assert only(look()) == before


# Names


def test_hard_links_are_further_names_of_one_copy(put, look, unit):
    put("step_4.ckpt")
    before = only(look())
    os.link(unit / "step_4.ckpt", unit / "last.ckpt")
    sighting = only(look())
    assert (sighting.name, sighting.also, sighting.step) == ("step_4.ckpt", ("last.ckpt",), 4)
    assert sighting.fingerprint == before.fingerprint


def test_links_to_copies_are_further_names(put, look, unit):
    put("a/step_4.ckpt", "step_5/model.pt")
    (unit / "last.ckpt").symlink_to("a/step_4.ckpt")
    (unit / "newest").symlink_to(unit / "last.ckpt")
    (unit / "latest").symlink_to("step_5")
    found = {sighting.name: sighting.also for sighting in look().sightings}
    assert found == {"a/step_4.ckpt": ("last.ckpt", "newest"), "step_5": ("latest",)}


def test_a_link_out_of_the_unit_is_not_followed(unit, tmp_path, look):
    (tmp_path / "step_1.pt").write_bytes(WHOLE)
    (unit / "last.pt").symlink_to(tmp_path / "step_1.pt")
    (unit / "up.pt").symlink_to("../step_1.pt")
    (unit / "folder").symlink_to(tmp_path)
    (unit / "step_7").symlink_to(tmp_path)
    assert look() == scanning.Look()


def test_a_member_that_is_a_link_is_not_followed(unit, tmp_path, put, look):
    (tmp_path / "big.bin").write_bytes(bytes(99_999))
    put("step_1/a.bin", data=b"1234")
    (unit / "step_1" / "b.bin").symlink_to(tmp_path / "big.bin")
    assert only(look()).bytes == 4


@pytest.mark.parametrize("target", ["gone.pt", "last.pt", "step_1.pt/x", "./nowhere/../gone"])
def test_a_link_to_nothing_is_told_once_it_has_lasted(unit, put, look, target):
    put("step_1.pt")
    (unit / "last.pt").symlink_to(target)
    first = look(NOW_S)
    assert (names(first), first.dangling) == (["step_1.pt"], ())
    assert look(NOW_S + 5.0).dangling == (("last.pt", target),)


def test_a_link_that_is_made_anew_at_once_is_not_told(unit, put, look):
    (unit / "last.pt").symlink_to("step_1.pt")
    look(NOW_S)
    put("step_1.pt")
    assert look(NOW_S + 9.0).dangling == ()
    assert only(look()).also == ("last.pt",)


def test_a_copied_file_of_the_same_step_is_a_further_name(put, look):
    put("a/step_4.pt", "b/step_4-copy.pt")
    assert (only(look()).name, only(look()).also) == ("a/step_4.pt", ("b/step_4-copy.pt",))


def test_another_state_of_the_same_step_is_another_copy(put, look):
    put("a/step_4.pt")
    put(
        "b/step_4.pt",
        data=torch_zip({"data.pkl": b".", "data/0": bytes(3077)}).ljust(len(WHOLE), b"\0")[: len(WHOLE)],
    )
    assert len(look().sightings) == 2


def test_equal_files_of_different_steps_or_of_none_are_copies_of_their_own(put, look):
    put("step_1.pt", "step_2.pt", "last.pt", "best.pt")
    assert len(look().sightings) == 4


def test_a_copied_file_whose_original_is_gone_or_changed_stands_for_itself(put, look, unit):
    put("a/step_4.pt", "b/step_4.pt")
    look()
    put("a/step_4.pt", data=WHOLE[:500])
    assert names(look()) == ["a/step_4.pt", "b/step_4.pt"]
    (unit / "a" / "step_4.pt").unlink()
    assert names(look()) == ["b/step_4.pt"]


@pytest.mark.parametrize("copied", ["step_4.bak", "backup/step_4", "step_4-copy"])
def test_a_copied_folder_of_the_same_step_is_a_further_name(unit, put, look, copied):
    put("step_4/model.pt", "step_4/deep/optimizer.pt")
    put("step_4/tiny.json", data=b"{}")
    assert names(look()) == ["step_4"]
    (unit / copied).parent.mkdir(exist_ok=True)
    shutil.copytree(unit / "step_4", unit / copied, copy_function=shutil.copyfile)
    sighting = only(look(NOW_S + 20))
    assert (sighting.name, sighting.also) == ("step_4", (copied,))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda folder: (folder / "more.json").write_text("{}"), id="a file more"),
        pytest.param(lambda folder: (folder / "tiny.json").unlink(), id="a file fewer"),
        pytest.param(lambda folder: (folder / "tiny.json").rename(folder / "t.json"), id="another name"),
        pytest.param(
            lambda folder: (folder / "tiny.json").write_text("[]"), id="other bytes in a small file"
        ),
        pytest.param(lambda folder: (folder / "model.bin").write_bytes(bytes(5000)), id="other bytes"),
    ],
)
def test_another_folder_of_the_same_step_is_another_copy(unit, put, look, change):
    put("a/step_4/model.bin", data=os.urandom(5000))
    put("a/step_4/tiny.json", data=b"{}")
    shutil.copytree(unit / "a", unit / "b")
    change(unit / "b" / "step_4")
    assert names(look()) == ["a/step_4", "b/step_4"]


def test_a_folder_is_compared_only_by_a_few_samples(unit, put, look, counted):
    for number in range(100):
        put(f"a/step_4/{number}.bin", data=bytes([number]) * (100_000 + number))
    shutil.copytree(unit / "a", unit / "b")
    look()
    counted.clear()
    for file in (unit / "b" / "step_4").iterdir():
        os.utime(file, (1.0, 1.0))
    assert only(look(NOW_S + 1)).also == ("b/step_4",)
    assert counted["pread"] <= 2 * 16 * 4 + 2 * 100  # and what its own judgement reads


def test_a_backup_of_the_newest_copy_resets_nothing(unit, put, look):
    put("step_4/model.pt", "step_4/optimizer.pt")
    copies: tuple[Copy, ...] = ()
    for second in range(60):
        if second == 20:
            (unit / "step_4.bak").mkdir()
            shutil.copyfile(unit / "step_4" / "model.pt", unit / "step_4.bak" / "model.pt")
        if second == 22:
            shutil.copyfile(unit / "step_4" / "optimizer.pt", unit / "step_4.bak" / "optimizer.pt")
        now_s = NOW_S + second
        copies = follow(
            copies,
            look(now_s).sightings,
            now_s=now_s,
            former_look_s=now_s - 1 if second else None,
            asked_s=None,
            settle=SETTLE,
        )
        assert newest_sound(copies).name == "step_4"
    assert [copy.name for copy in copies] == ["step_4"]


def test_names_may_hold_any_bytes(unit, put, look):
    odd = os.fsdecode(b"step_1-\xff\xfe\n\x1b[31m.pt")
    (unit / odd).write_bytes(WHOLE)
    put("step_2\n/a.pt")
    assert names(look()) == sorted([odd, "step_2\n"])


# What is hostile


def test_pipes_sockets_and_folders_under_names_of_copies_are_left_alone(unit, look):
    os.mkfifo(unit / "step_1.pt")
    (unit / "step_2.pt").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(unit / "step_3.pt"))
        assert look() == scanning.Look()


def test_a_file_that_becomes_a_pipe_between_two_steps_is_not_waited_for(unit, put):
    put("step_1.pt")
    root = os.open(unit, os.O_RDONLY)
    (unit / "step_1.pt").unlink()
    os.mkfifo(unit / "step_1.pt")
    with pytest.raises(FileNotFoundError):
        reading.RegularFile(root, "step_1.pt")
    os.close(root)


def test_a_folder_that_became_a_link_is_not_entered(unit, tmp_path):
    (tmp_path / "step_1.pt").write_bytes(WHOLE)
    (unit / "inner").symlink_to(tmp_path)
    root = os.open(unit, os.O_RDONLY)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        reading.RegularFile(root, "inner/step_1.pt")
    os.close(root)


def test_scans_survive_a_folder_that_is_renamed_all_the_time(unit, put, look):
    put("tmp-checkpoint-49/model.pt", "checkpoint-48/model.pt")
    stop = threading.Event()

    def rename():
        names = [unit / "tmp-checkpoint-49", unit / "checkpoint-49"]
        while not stop.is_set():
            names[0].rename(names[1])
            names.reverse()

    worker = threading.Thread(target=rename)
    worker.start()
    try:
        for number in range(2000):
            for sighting in look(NOW_S + number).sightings:
                assert sighting.name in ("checkpoint-48", "checkpoint-49", "tmp-checkpoint-49")
                assert sighting.temporary == sighting.name.startswith("tmp-")
                assert sighting.structure is not UNREADABLE
    finally:
        stop.set()
        worker.join()


@pytest.mark.parametrize("call", ["stat", "open"])
def test_what_vanishes_between_two_steps_is_not_sighted(put, look, monkeypatch, call, unit):
    put("step_1.pt", "step_2.pt", "step_3/a.pt")
    real = getattr(os, call)

    def vanishing(path, *args, **more):
        if str(path).endswith(("step_1.pt", "a.pt")):
            raise FileNotFoundError(errno.ENOENT, "gone")
        return real(path, *args, **more)

    monkeypatch.setattr(os, call, vanishing)
    assert "step_1.pt" not in names(look())
    monkeypatch.undo()
    assert names(look()) == ["step_1.pt", "step_2.pt", "step_3"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("name", ["step_1.pt", "step_1/a.pt"])
def test_what_cannot_be_read_is_unreadable_in_the_system_s_words(put, look, monkeypatch, number, name):
    put(name)
    real = os.open

    def failing(path, *args, **more):
        if str(path).endswith(".pt"):
            raise OSError(number, os.strerror(number))
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", failing)
    sighting = only(look())
    assert sighting.structure is UNREADABLE
    assert sighting.why.endswith(os.strerror(number).lower())
    monkeypatch.undo()
    assert only(look(NOW_S + 6.0)).structure is not UNREADABLE


def test_a_folder_that_may_not_be_listed_is_unreadable_by_its_name(put, look, monkeypatch):
    put("step_1/a.pt", "others/b.pt")
    real = os.open

    def failing(path, *args, **more):
        if path in ("step_1", "others"):
            raise PermissionError(errno.EACCES, "no")
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", failing)
    sighting = only(look())
    assert (sighting.name, sighting.structure, sighting.why) == ("step_1", UNREADABLE, "permission denied")
    monkeypatch.undo()
    assert names(look()) == ["others/b.pt", "step_1"]


def test_what_is_known_of_a_folder_stays_while_it_cannot_be_listed(put, look, monkeypatch):
    put("runs/a.pt", "step_1/b.pt")
    before = look()
    real = os.open

    def failing(path, *args, **more):
        if path in ("step_1", "runs"):
            raise OSError(errno.EIO, "no")
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", failing)
    after = look()
    assert [(one.name, one.fingerprint) for one in after.sightings] == [
        (one.name, one.fingerprint) for one in before.sightings
    ]


def test_a_unit_that_cannot_be_listed_is_blind_and_sees_again(unit, put, look):
    put("step_1.pt")
    look()
    unit.rename(unit.parent / "away")
    gone = look()
    assert (gone.blind, names(gone)) == ("no such file or directory", ["step_1.pt"])
    (unit.parent / "away").rename(unit)
    assert (look().blind, names(look())) == ("", ["step_1.pt"])


# What a look costs


def settled(unit):
    """As if everything had been written long ago."""
    for path in [unit, *unit.rglob("*")]:
        os.utime(path, (1000.0, 1000.0))


def test_an_unchanged_copy_is_neither_opened_nor_read(unit, put, look, counted):
    put("step_1.pt", "step_2/a.pt", "step_2/b.pt", "c.state")
    put("d.safetensors", data=safetensors())
    put("e.pt", data=WHOLE[:99])
    settled(unit)
    before = look(NOW_S)
    counted.clear()
    assert look(NOW_S + 1.0) == before
    assert counted["pread"] == 0
    assert counted["open"] == counted["scandir"] == 2  # the unit, and the folder in it, to be listed


def test_a_change_costs_one_judgement_of_what_changed(unit, put, look, counted):
    put("step_1.pt", "step_2/a.pt", "step_2/b.pt")
    settled(unit)
    look()
    counted.clear()
    put("step_2/b.pt", data=WHOLE[:200])
    os.utime(unit / "step_2" / "b.pt", (2000.0, 2000.0))
    assert {one.name: one.structure for one in look().sightings} == {
        "step_1.pt": COMPLETE,
        "step_2": INCOMPLETE,
    }
    assert counted["pread"] <= 4


@pytest.mark.parametrize("change", ["mode", "link"])
def test_a_new_mode_or_link_is_no_change_of_a_copy(unit, put, look, change):
    put("step_1.pt")
    before = only(look())
    if change == "mode":
        (unit / "step_1.pt").chmod(0o600)
    else:
        os.link(unit / "step_1.pt", unit / ".keep")
    assert only(look()) == before


def test_a_file_that_grows_is_seen_though_its_folder_does_not_change(unit, put, look):
    put("step_1.pt", data=WHOLE[:100])
    settled(unit)
    before = only(look())
    with (unit / "step_1.pt").open("r+b") as file:
        file.write(WHOLE)
    after = only(look())
    assert (before.structure, after.structure) == (INCOMPLETE, COMPLETE)
    assert before.fingerprint != after.fingerprint


def test_a_plain_file_that_is_no_copy_is_not_opened_as_it_grows(unit, put, look, counted):
    put("notes.dat", data=b"x" * 1000)
    look()
    counted.clear()
    put("notes.dat", data=b"x" * 2000)
    assert look() == scanning.Look()
    assert counted["pread"] == 0


def test_a_file_that_changes_while_it_is_judged_is_not_called_complete(unit, put, look, monkeypatch):
    put("step_1.pt")
    real = kept.judge

    def judge(*args):
        real(*args)
        with (unit / "step_1.pt").open("ab") as file:
            file.write(b"x")

    monkeypatch.setattr(scanning, "judge", judge)
    assert only(look()).why == "it changes while it is looked at"
    monkeypatch.undo()
    assert only(look(NOW_S + 1.0)).structure is COMPLETE


def test_what_was_found_incomplete_too_soon_is_looked_at_once_more(unit, put, look):
    put("step_1.pt", data=WHOLE[:-22] + bytes(22))
    written = (unit / "step_1.pt").stat()
    assert only(look(written.st_mtime)).structure is INCOMPLETE
    with (unit / "step_1.pt").open("r+b") as file:  # within the same tick of the clock, and of the same size
        file.write(WHOLE)
    os.utime(unit / "step_1.pt", ns=(written.st_atime_ns, written.st_mtime_ns))
    assert only(look(written.st_mtime + 3.0)).structure is COMPLETE


def test_a_first_look_at_very_much_goes_in_slices(unit, put):
    put(*(f"step_{number}.pt" for number in range(30)))
    scanner = CopyScanner(str(unit), budget_s=0.0)
    first = scanner.look(NOW_S, 0.0)
    assert (first.partial, first.sightings) == (True, ())
    looks = [scanner.look(NOW_S, 0.0) for _ in range(300)]
    whole = next(one for one in looks if not one.partial)
    assert len(whole.sightings) == 30
    following = next(one for one in looks[looks.index(whole) + 1 :] if one.partial)
    assert following.sightings == whole.sightings


MANY = 700


@pytest.fixture
def many(unit):
    """More copies than are looked at every time."""
    for number in range(MANY):
        path = unit / f"step_{number}.pt"
        path.write_bytes(WHOLE)
        os.utime(path, (1000.0 + number, 1000.0 + number))
    os.utime(unit, (1000.0, 1000.0))
    return unit


def test_of_very_many_copies_the_newest_are_shown(many, look):
    first = look()
    assert {one.step for one in first.sightings} == set(range(MANY - SHOWN_MAX, MANY))
    assert first.copy_count == MANY


def test_names_that_are_followed_are_shown_among_very_many(many):
    scanner = CopyScanner(str(many), followed=frozenset(["step_3.pt"]), budget_s=60.0)
    assert "step_3.pt" in names(scanner.look(NOW_S, 0.0))


def test_very_many_unchanged_copies_are_not_all_looked_at_every_time(many, look, counted):
    look()
    look(NOW_S + 5.0)
    counted.clear()
    look(NOW_S + 6.0)
    assert counted["pread"] == counted["scandir"] == 0
    assert counted["stat"] < MANY


def test_a_change_among_very_many_is_seen_within_a_round(many, look):
    look()
    (many / "step_3.pt").write_bytes(WHOLE[:500])
    seen = [number for number in range(8) if "step_3.pt" in names(look(NOW_S + number))]
    assert seen
    assert names(look(NOW_S + 9.0)).count("step_3.pt") == 1


def test_a_new_copy_among_very_many_is_seen_at_once_and_the_oldest_makes_room_later(many, look, put):
    look()
    put("step_9999.pt")
    assert "step_9999.pt" in names(look(NOW_S + 1.0))
    put("step_10000.pt")
    late = look(NOW_S + 100.0)
    assert len(late.sightings) <= SHOWN_MAX + 1
    assert {"step_9999.pt", "step_10000.pt"} <= set(names(late))
    assert late.copy_count == MANY + 2


def test_a_folder_with_more_entries_than_the_bound_is_told(put, look, monkeypatch):
    monkeypatch.setattr("ckpt_governor.observe.tree.ENTRIES_MAX", 3)
    put(*(f"step_{number}.pt" for number in range(9)))
    found = look()
    assert found.truncated
    assert len(found.sightings) == 2  # the governor's own folder is an entry, too


def test_a_file_system_that_keeps_no_folder_times_is_found_out(unit, look):
    for number in range(80):
        (unit / f"step_{number}.pt").write_bytes(WHOLE)
    settled(unit)
    frozen = (unit.stat().st_atime_ns, unit.stat().st_mtime_ns)
    look(NOW_S)
    (unit / "step_999.pt").write_bytes(WHOLE)
    os.utime(unit, ns=frozen)
    assert "step_999.pt" in names(look(NOW_S + 11.0))


# Followed over time


def test_a_write_is_followed_from_its_first_byte_to_the_sound_copy(unit, put, scanner):
    copies: tuple[Copy, ...] = ()

    def tick(second, asked_s=None):
        nonlocal copies
        now_s = NOW_S + second
        found = scanner.look(now_s, 0.0).sightings
        before = None if second == 0 else now_s - 1.0
        copies = follow(copies, found, now_s=now_s, former_look_s=before, asked_s=asked_s, settle=SETTLE)
        return [(copy.name, copy.status.value, copy.serial) for copy in copies]

    assert tick(0) == []
    put("last.pt", data=WHOLE[:500])
    assert tick(1) == [("last.pt", "writing", 1)]
    put("last.pt")
    assert tick(2) == [("last.pt", "sound", 1)]
    assert (copies[0].began_s, copies[0].write_s) == (NOW_S + 1.0, 1.0)
    put("last.pt.tmp")
    (unit / "last.pt.tmp").rename(unit / "last.pt")
    assert tick(3, asked_s=NOW_S + 2.5) == [("last.pt", "sound", 2)]
    assert (copies[0].answered, copies[0].began_s) == (True, NOW_S + 2.5)
    put("step_7.npz.tmp", data=WHOLE[:900])
    tick(4)
    (unit / "step_7.npz.tmp").rename(unit / "step_7.npz")
    assert tick(5) == [("last.pt", "sound", 2), ("step_7.npz", "writing", 3)]
    for second in range(6, 36):
        tick(second)
    assert [(copy.status.value, copy.why) for copy in copies] == [("sound", ""), ("broken", "no end record")]


def test_links_that_leave_the_unit_and_come_back_or_go_in_circles_are_left_alone(unit, put, look):
    put("a/step_1.pt")
    (unit / "round.pt").symlink_to("../unit/a/step_1.pt")
    (unit / "one.pt").symlink_to("two.pt")
    (unit / "two.pt").symlink_to("one.pt")
    (unit / "inside.pt").symlink_to("a/../a/./step_1.pt")
    (unit / "through").symlink_to("a")
    (unit / "deep.pt").symlink_to("through/step_1.pt")
    look(NOW_S)
    found = look(NOW_S + 6.0)
    assert only(found).also == ("deep.pt", "inside.pt")
    assert sorted(found.dangling) == [("one.pt", "two.pt"), ("two.pt", "one.pt")]


def test_other_archives_are_judged_by_their_ends(put, look, unit):
    with zipfile.ZipFile(unit / "step_1.npz", "w") as archive:
        archive.writestr("a.npy", bytes(5000))
    assert (only(look()).format, only(look()).structure) == ("zip", COMPLETE)
    os.truncate(unit / "step_1.npz", 5000)
    assert only(look()).structure is INCOMPLETE


def test_a_format_that_fails_at_hostile_bytes_makes_its_copy_unreadable_and_stops_no_look(
    put, look, monkeypatch
):
    def fails(*_):
        raise ValueError("a bug")

    put("step_1.safetensors", data=safetensors())
    put("step_2.pt")
    monkeypatch.setattr(Safetensors, "judge", fails)
    seen = {one.name: (one.structure, one.why) for one in look().sightings}
    assert seen["step_1.safetensors"] == (UNREADABLE, "its check has failed: ValueError")
    assert seen["step_2.pt"] == (COMPLETE, "")


def test_a_copy_whose_members_take_long_is_judged_on_at_the_next_look_and_is_unknown_until_then(
    unit, put, monkeypatch
):
    put(*(f"step_1/part-{number}.pt" for number in range(10)))
    ticks = iter(range(10_000))
    monkeypatch.setattr(kept.time, "monotonic", lambda: next(ticks) * kept.JUDGE_S_MAX / 4)
    scanner = CopyScanner(str(unit), budget_s=1e9)
    seen = []
    for second in range(8):
        (sighting,) = scanner.look(NOW_S + second, 0.0).sightings
        seen.append(sighting.structure)
    assert seen[0] is UNREADABLE
    assert seen[-1] is SHAPELESS
    assert sighting.why == ""


def test_the_folders_in_a_copy_are_bounded_like_its_files(unit, put, monkeypatch):
    monkeypatch.setattr(kept, "MEMBERS_MAX", 5)
    put("step_1/a.pt")
    for number in range(20):
        (unit / "step_1" / f"{number:02}").mkdir()
        put(f"step_1/{number:02}/b.pt")
    (sighting,) = CopyScanner(str(unit), budget_s=60.0).look(NOW_S, 0.0).sightings
    assert sighting.bytes < 5 * len(WHOLE)


def test_a_link_of_very_many_parts_is_told_as_one_to_nothing(unit, put, look):
    put("d/step_1.pt")
    (unit / "best.pt").symlink_to("d/../" * 800 + "d/step_1.pt")
    assert [one.also for one in look().sightings] == [()]
    assert look(NOW_S + 10).dangling[0][0] == "best.pt"


@pytest.mark.parametrize("name", ["step_1.pt", "model.ckpt", "a.npz", "m.keras", "d.pkl", "e.npy"])
def test_a_file_of_zeros_is_no_copy_that_counts(put, look, name):
    put(name, data=bytes(100_000))
    (sighting,) = look().sightings
    assert sighting.structure is INCOMPLETE
