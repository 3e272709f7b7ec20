"""A copy that was sound and has lost a file or an end since is sound no more, also where no check of it can tell."""

from __future__ import annotations

import os
import shutil

import pytest
from attrs import evolve
from formats.making import torch_zip
from formats.making_distributed import TWO_RANKS, write_dcp, write_deepspeed
from formats.making_folders import orbax_step, trainer_step
from hypothesis import given
from hypothesis import strategies as st
from watching import Watched

from ckpt_governor.copies import newest, newest_sound
from ckpt_governor.facts import CopyStatus
from ckpt_governor.ledger import Ledger
from ckpt_governor.memory import encode_ledger, parse_ledger
from ckpt_governor.observe.copies import CopyScanner
from ckpt_governor.observe.losses import PARTS_MAX, bounded_wholes

SOUND, WRITING, BROKEN, UNKNOWN = CopyStatus.SOUND, CopyStatus.WRITING, CopyStatus.BROKEN, CopyStatus.UNKNOWN
NODE = "default/d/1946ed4af3029822be096ca00b2d3bff"
OF_A_PROCESS = "default/ocdbt.process_0/d/1946ed4af3029822be096ca00b2d3bff"


class Unit(Watched):
    """A unit with a copy that was judged sound."""

    def restart(self):
        """Another process goes on from the ledger."""
        text = encode_ledger(Ledger(copies=self.copies, wholes=bounded_wholes(self.wholes)))
        ledger = parse_ledger(text)
        self.copies = ledger.copies
        self.scanner = CopyScanner(str(self.path), budget_s=60.0, wholes=ledger.wholes)

    def why(self, name, seconds=1):
        """What is said of one of them."""
        return self.pass_s(seconds)[name]

    def cut(self, name, size):
        os.truncate(self.path / name, size)


@pytest.fixture
def unit(tmp_path):
    return Unit(tmp_path)


@pytest.fixture
def step(unit):
    """An Orbax step that was seen to be sound."""
    orbax_step(unit.path / "100")
    assert unit.why("100") == (SOUND, "")
    return unit


@pytest.mark.parametrize("name", [NODE, OF_A_PROCESS])
def test_a_data_file_that_is_cut_later_is_writing_and_then_broken(step, name):
    step.cut(f"100/{name}", 70)
    why = f"{name}: 50 of 120 bytes are missing since it was sound"
    assert step.why("100") == (WRITING, why)
    assert step.why("100", 31) == (BROKEN, why)
    assert (newest(step.copies).name, newest_sound(step.copies)) == ("100", None)


def test_a_data_file_that_is_deleted_later_is_missed(step):
    (step.path / "100" / OF_A_PROCESS).unlink()
    assert step.why("100", 31) == (BROKEN, f"{OF_A_PROCESS} is missing since it was sound")


def test_a_folder_of_data_that_is_emptied_later_is_missed(unit):
    orbax_step(unit.path / "100")
    folder = unit.path / "100" / "default" / "ocdbt.process_0" / "d"
    (folder / ("0" * 32)).write_bytes(b"node")
    unit.pass_s(1)
    shutil.rmtree(folder)
    missed = f"default/ocdbt.process_0/d/{'0' * 32} is missing since it was sound, and 1 more of its files"
    assert unit.why("100", 31) == (BROKEN, missed)


def test_it_is_missed_after_a_restart_as_well(step):
    step.cut(f"100/{OF_A_PROCESS}", 70)
    step.restart()
    assert step.why("100", 31) == (BROKEN, f"{OF_A_PROCESS}: 50 of 120 bytes are missing since it was sound")


def test_a_restart_forgets_no_loss(step):
    (step.path / "100" / OF_A_PROCESS).unlink()
    assert step.why("100", 31)[0] is BROKEN
    step.restart()
    assert step.why("100", 61) == (BROKEN, f"{OF_A_PROCESS} is missing since it was sound")


def test_it_is_sound_again_when_the_bytes_are_back(step):
    data = (step.path / "100" / OF_A_PROCESS).read_bytes()
    step.cut(f"100/{OF_A_PROCESS}", 70)
    assert step.why("100", 31)[0] is BROKEN
    step.restart()
    (step.path / "100" / OF_A_PROCESS).write_bytes(data)
    assert step.why("100") == (SOUND, "")


def test_the_sound_copy_before_it_is_the_newest_sound_one(unit):
    for number in (100, 200):
        orbax_step(unit.path / str(number))
        unit.pass_s(1)
    unit.cut(f"200/{OF_A_PROCESS}", 1)
    unit.pass_s(31)
    assert (newest(unit.copies).name, newest_sound(unit.copies).name) == ("200", "100")
    orbax_step(unit.path / "300")
    assert {name: status for name, (status, _) in unit.pass_s(2).items()} == {
        "100": SOUND,
        "200": BROKEN,
        "300": SOUND,
    }


def test_an_older_copy_that_loses_files_is_being_deleted(unit):
    for number in (100, 200):
        orbax_step(unit.path / str(number))
        unit.pass_s(1)
    (unit.path / "100" / OF_A_PROCESS).unlink()
    assert unit.why("100") == (WRITING, "being deleted")
    assert unit.why("100", 31) == (UNKNOWN, "half deleted")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("times", lambda folder: [os.utime(file) for file in folder.rglob("*") if file.is_file()]),
        ("a new file", lambda folder: (folder / "default" / "more").write_bytes(b"x")),
        ("a log", lambda folder: (folder / "run.log").write_bytes(b"")),
        ("a temporary", lambda folder: (folder / "x.tmp").unlink()),
        ("a document", lambda folder: (folder / "README.md").unlink()),
        ("a shorter text", lambda folder: (folder / "config.json").write_text("{}")),
        ("a mark", lambda folder: (folder / "DONE").unlink()),
        ("a new name", lambda folder: (folder / OF_A_PROCESS).rename(folder / "default" / "moved")),
    ],
)
def test_what_is_no_loss_leaves_it_sound(unit, name, change):
    folder = unit.path / "100"
    orbax_step(folder)
    for more in ("run.log", "x.tmp", "README.md", "DONE"):
        (folder / more).write_bytes(b"what a copy is not")
    (folder / "config.json").write_text('{"layers": 12}')
    unit.pass_s(12)
    change(folder)
    assert unit.why("100", 12) == (SOUND, ""), name


def test_parts_that_were_merged_into_one_file_are_no_loss(unit):
    folder = unit.path / "step_1"
    folder.mkdir()
    for rank in range(4):
        (folder / f"rank{rank}.state").write_bytes(bytes([rank]) * 1000)
    (folder / "fixed").write_bytes(b"fixed")
    assert unit.why("step_1", 12)[0] is SOUND
    (folder / "merged.state").write_bytes(b"m" * 4100)
    for rank in range(4):
        (folder / f"rank{rank}.state").unlink()
    assert unit.why("step_1", 31) == (SOUND, "")


def test_a_new_file_does_not_stand_for_a_larger_one_that_is_lost(step):
    (step.path / "100" / "default" / "d" / ("0" * 32)).write_bytes(b"node")
    (step.path / "100" / OF_A_PROCESS).unlink()
    assert step.why("100", 31) == (BROKEN, f"{OF_A_PROCESS} is missing since it was sound")


def test_a_text_may_be_shorter_and_not_empty(step):
    (step.path / "100" / "config.json").write_text('{"layers": 12}')
    step.pass_s(2)
    step.cut("100/config.json", 0)
    assert step.why("100", 31) == (BROKEN, "config.json: 14 of 14 bytes are missing since it was sound")


def test_a_folder_that_replaces_it_under_its_name_is_another_copy(step):
    (step.path / "100").rename(step.path / "old")
    orbax_step(step.path / "100")
    (step.path / "100" / OF_A_PROCESS).unlink()
    shutil.rmtree(step.path / "old")
    assert step.why("100", 2) == (SOUND, "")


def test_whoever_saves_all_of_it_again_may_save_less(unit):
    write_deepspeed(unit.path / "last")
    folder = unit.path / "last"
    (folder / "extra.bin").write_bytes(b"more" * 1000)
    unit.pass_s(12)
    (folder / "extra.bin").write_bytes(b"less")
    assert unit.why("last", 2)[0] is WRITING
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes())
    assert unit.why("last", 12)[0] is SOUND


def test_a_file_that_is_whole_by_its_own_format_has_lost_nothing(unit):
    trainer_step(unit.path / "checkpoint-100")
    (unit.path / "checkpoint-100" / "optimizer.pt").write_bytes(
        torch_zip({"data.pkl": b"\x80\x02}q\x00.", "data/0": bytes(5000)})
    )
    assert unit.why("checkpoint-100", 12)[0] is SOUND
    (unit.path / "checkpoint-100" / "optimizer.pt").write_bytes(torch_zip())
    assert unit.why("checkpoint-100", 12) == (SOUND, "")


def test_a_file_that_no_index_names_is_not_missed_where_an_index_names_all(unit):
    write_dcp(unit.path / "step_1", TWO_RANKS)
    (unit.path / "step_1" / "__7_0.distcp").write_bytes(b"of another save")
    unit.pass_s(2)
    (unit.path / "step_1" / "__7_0.distcp").unlink()
    assert unit.why("step_1") == (SOUND, "")


def test_loose_parts_of_a_copy_are_missed_like_files_of_a_folder(unit):
    for number in (1, 2):
        (unit.path / f"model-0000{number}-of-00002.state").write_bytes(os.urandom(5000))
    (name,) = unit.pass_s(12)
    unit.cut("model-00002-of-00002.state", 4900)
    why = "model-00002-of-00002.state: 100 of 5000 bytes are missing since it was sound"
    assert unit.why(name, 31) == (BROKEN, why)


def test_a_copy_of_very_many_files_is_remembered_while_the_process_lives(unit):
    orbax_step(unit.path / "100")
    for number in range(PARTS_MAX):
        (unit.path / "100" / "default" / "d" / f"{number:032x}").write_bytes(b"node")
    unit.pass_s(2)
    assert bounded_wholes(unit.wholes) == ()
    (unit.path / "100" / "default" / "d" / f"{7:032x}").unlink()
    assert unit.why("100")[1] == f"default/d/{7:032x} is missing since it was sound"


def test_a_ledger_with_a_foreign_memory_of_a_copy_makes_nothing_broken(step):
    step.wholes = tuple(evolve(whole, inode="0:0", parts={"gone": 5}) for whole in step.wholes)
    step.restart()
    assert step.why("100", 31) == (SOUND, "")


FILES = ("d/a", "d/b", "c")
changes = st.lists(
    st.tuples(st.sampled_from(FILES), st.sampled_from(["cut", "remove", "restore", "grow", "touch", "wait"])),
    max_size=8,
)


@given(changes)
def test_it_is_sound_exactly_while_every_file_has_at_least_the_bytes_that_it_had(tmp_path_factory, history):
    unit = Unit(tmp_path_factory.mktemp("unit"))
    folder = unit.path / "step_1"
    (folder / "d").mkdir(parents=True)
    size = {}
    for name in FILES:
        (folder / name).write_bytes(b"x" * 100)
        size[name] = 100
    (folder / "fixed").write_bytes(b"fixed")
    (folder / "_METADATA").write_text("{}")
    unit.pass_s(12)
    for name, what in history:
        path = folder / name
        if what == "cut" and path.exists():
            os.truncate(path, path.stat().st_size // 2)
        elif what == "remove":
            path.unlink(missing_ok=True)
        elif what in ("restore", "grow"):
            path.write_bytes(b"x" * (size[name] + 10 * (what == "grow")))
        elif what == "touch" and path.exists():
            os.utime(path)
        status, why = unit.pass_s(61)["step_1"]
        now = {name: (folder / name).stat().st_size if (folder / name).exists() else 0 for name in FILES}
        whole = all(now[name] >= size[name] for name in FILES)
        assert (status is SOUND) == whole, why
        assert whole or "since it was sound" in why
        if whole:
            size = now
