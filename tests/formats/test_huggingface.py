"""Hugging Face folders: shards and their index, and the Trainer's checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest
from formats.making import torch_zip
from formats.making_folders import LONG_AFTER_S, hf_model, only, safetensors_of, seen, trainer_step
from hypothesis import given
from hypothesis import strategies as st
from watching import Watched

from ckpt_governor.facts import CopyStatus, Structure
from ckpt_governor.formats import format_of_folder
from ckpt_governor.observe.copies import CopyScanner

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
INDEX = "model.safetensors.index.json"
FIRST = "model-00001-of-00002.safetensors"
SECOND = "model-00002-of-00002.safetensors"


@pytest.fixture
def model(tmp_path):
    """A whole model in two shards."""
    hf_model(tmp_path / "final")
    return tmp_path / "final"


def told(unit):
    """Its structure and why."""
    found = only(unit)
    return found.structure, found.why


def rewrite_index(model, change):
    """The index with a change."""
    text = json.loads((model / INDEX).read_text())
    change(text)
    (model / INDEX).write_text(json.dumps(text))


def word_of(name, *files, folders=()):
    """The format that claims a folder."""
    format = format_of_folder(name, files, folders)
    return None if format is None else format.word


def test_a_model_in_shards_is_one_copy(model):
    found = only(model.parent)
    assert (found.name, found.format, found.structure, found.why) == ("final", "hf-model", COMPLETE, "")
    assert found.bytes == sum(file.stat().st_size for file in model.iterdir())


@pytest.mark.parametrize(
    ("name", "files", "folders", "word"),
    [
        ("final", [INDEX], [], "hf-model"),
        ("final", ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin"], [], "hf-model"),
        ("final", ["config.json", FIRST], [], "hf-model"),
        ("final", ["diffusion_pytorch_model.safetensors.index.fp16.json"], [], "hf-model"),
        ("final", [FIRST], [], None),
        ("final", ["config.json", "model.safetensors"], [], None),
        ("final", [INDEX], ["checkpoint-500"], None),
        ("step_5", [INDEX], [], "hf-model"),
        ("checkpoint-5", ["config.json"], [], "hf-trainer"),
        ("checkpoint-5", ["adapter_config.json"], [], "hf-trainer"),
        ("checkpoint-5", ["training_args.bin"], [], "hf-trainer"),
        ("checkpoint-5", ["trainer_state.json", INDEX], ["global_step5"], "hf-trainer"),
        ("checkpoint-5", ["optimizer.bin"], ["unet"], "folder"),
        ("best", ["trainer_state.json"], [], "hf-trainer"),
        ("out", ["trainer_state.json"], ["checkpoint-500"], None),
    ],
)
def test_who_claims_a_folder(name, files, folders, word):
    assert word_of(name, *files, folders=folders) == word


def test_shards_without_their_index_are_incomplete(model):
    (model / INDEX).unlink()
    assert told(model.parent) == (INCOMPLETE, "the index of its shards is not there yet")


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_a_missing_shard_is_named(model, name):
    (model / name).unlink()
    assert told(model.parent) == (INCOMPLETE, f"{name} is missing")


def test_a_shard_that_is_a_link_is_neither_followed_nor_missing(model, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "shard"
    (model / FIRST).rename(elsewhere)
    (model / FIRST).symlink_to(elsewhere)
    assert told(model.parent) == (SHAPELESS, f"{FIRST} is a link or cannot be read")


def test_every_cut_of_a_shard_is_incomplete(model):
    size = (model / SECOND).stat().st_size
    for count in range(size - 1, -1, -5):
        os.truncate(model / SECOND, count)
        assert only(model.parent).structure is INCOMPLETE


def test_every_cut_of_the_index_but_its_last_line_end_is_incomplete(model):
    whole = (model / INDEX).read_bytes()
    for count in range(len(whole)):
        (model / INDEX).write_bytes(whole[:count])
        assert only(model.parent).structure is (COMPLETE if count == len(whole) - 1 else INCOMPLETE)


@pytest.mark.parametrize("at", [0, 1, 40, 200])
def test_an_index_with_a_zeroed_end_is_incomplete(model, at):
    whole = (model / INDEX).read_bytes()
    (model / INDEX).write_bytes(whole[:at] + bytes(len(whole) - at))
    assert told(model.parent) == (INCOMPLETE, f"{INDEX} is cut")


def test_tensors_that_a_shard_lacks_are_counted(model):
    rewrite_index(model, lambda text: text["weight_map"].update(more=FIRST, another=FIRST))
    assert told(model.parent) == (INCOMPLETE, f"{FIRST}: 2 of 4 tensors are missing")


def test_a_shard_of_another_model_is_found(model):
    (model / FIRST).write_bytes(safetensors_of(["transformer.h.1.attn.weight", "other"]))
    os.utime(model / INDEX)
    assert told(model.parent) == (INCOMPLETE, f"{FIRST} holds other tensors than its index tells")


def test_tensors_that_the_index_does_not_name_prove_nothing(model):
    rewrite_index(model, lambda text: text["weight_map"].pop("transformer.h.1.attn.weight"))
    assert told(model.parent) == (SHAPELESS, f"{FIRST}: 1 tensors more than its index tells")


def test_a_shard_that_is_newer_than_the_index_proves_nothing(model):
    os.utime(model / INDEX, (1000, 1000))
    assert told(model.parent) == (SHAPELESS, f"{FIRST} is newer than its index")


def test_an_index_that_names_fewer_parts_than_they_say_proves_nothing(model):
    (model / FIRST).rename(model / "model-00001-of-00003.safetensors")
    text = (model / INDEX).read_text().replace(FIRST, "model-00001-of-00003.safetensors")
    (model / INDEX).write_text(text)
    assert told(model.parent) == (SHAPELESS, "its index names 2 of 3 parts")


def test_names_are_compared_without_their_escapes(tmp_path):
    names = ["ä.weight", 'quo"te', "back\\slash", "{", '": {']
    hf_model(tmp_path / "final", 1)
    (tmp_path / "final" / "model-00001-of-00001.safetensors").write_bytes(safetensors_of(names))
    text = {"weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
    (tmp_path / "final" / INDEX).write_text(json.dumps(text))
    assert told(tmp_path) == (COMPLETE, "")


def test_notes_that_look_like_an_index_are_no_tensors(tmp_path):
    hf_model(tmp_path / "final", 1)
    notes = {"config": json.dumps({"a": {"b": {"dtype": "F32"}}}), "x": '"q": {"dtype"'}
    names = ["transformer.h.1.attn.weight", "transformer.h.1.mlp.weight"]
    path = tmp_path / "final" / "model-00001-of-00001.safetensors"
    path.write_bytes(safetensors_of(names, metadata=notes))
    os.utime(tmp_path / "final" / INDEX)
    assert told(tmp_path) == (COMPLETE, "")


def test_pickled_shards_are_judged_by_their_own_ends(tmp_path):
    folder = tmp_path / "final"
    folder.mkdir()
    places = {f"layer.{part}": f"pytorch_model-0000{part}-of-00002.bin" for part in (1, 2)}
    for name in places.values():
        (folder / name).write_bytes(torch_zip())
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    assert told(tmp_path) == (COMPLETE, "")
    os.truncate(folder / name, 900)
    assert told(tmp_path) == (INCOMPLETE, f"{name}: no end record")


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"weight_map": {}}',
        '{"weight_map": []}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": {"b": "c"}}}',
        '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
    ],
    ids=["nothing", "no names", "list", "number", "deeper", "deep"],
)
def test_an_index_of_another_kind_proves_nothing(model, text):
    (model / INDEX).write_text(text)
    assert told(model.parent) == (SHAPELESS, f"{INDEX} is of an unknown kind")


@pytest.mark.parametrize(
    "name", ["../final/config.json", "/etc/passwd", "a//b", ".", "x" * 9000, "a\0b", "\ud800", "a/../b"]
)
def test_an_index_cannot_name_files_outside(model, name):
    rewrite_index(model, lambda text: text["weight_map"].update(more=name))
    assert only(model.parent).structure in (INCOMPLETE, SHAPELESS)


def test_a_very_long_index_is_not_read(model):
    os.truncate(model / INDEX, 17 << 20)
    assert told(model.parent) == (SHAPELESS, f"{INDEX} is too long to be checked")


def test_an_index_of_very_many_tensors_is_read_in_time(tmp_path):
    hf_model(tmp_path / "final", 1)
    names = [f"model.layers.{number}.mlp.experts.{number % 97}.down_proj.weight" for number in range(100_000)]
    (tmp_path / "final" / "model-00001-of-00001.safetensors").write_bytes(safetensors_of(names))
    places = dict.fromkeys(names, "model-00001-of-00001.safetensors")
    (tmp_path / "final" / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    began_s = time.monotonic()
    assert told(tmp_path) == (COMPLETE, "")
    assert time.monotonic() - began_s < 10.0


def test_a_text_of_very_many_quotes_costs_no_more(model):
    long = json.dumps({"x": '"' * 2_000_000, "weight_map": 1})
    (model / INDEX).write_text(long)
    (model / FIRST).write_bytes(safetensors_of(["a"], metadata={"x": '":{' * 300_000}))
    began_s = time.monotonic()
    assert only(model.parent).structure in (INCOMPLETE, SHAPELESS)
    assert time.monotonic() - began_s < 10.0


@given(st.binary(max_size=80), st.integers(0, 400))
def test_no_bytes_of_an_index_make_the_check_fail_in_another_way(tmp_path_factory, noise, at):
    folder = tmp_path_factory.mktemp("noise")
    hf_model(folder / "final")
    whole = (folder / "final" / INDEX).read_bytes()
    (folder / "final" / INDEX).write_bytes(whole[:at] + noise + whole[at + len(noise) :])
    assert only(folder).structure in (COMPLETE, INCOMPLETE, SHAPELESS)


def test_a_pipeline_of_models_is_judged_by_all_their_indexes(tmp_path):
    hf_model(tmp_path / "step_5" / "transformer")
    hf_model(tmp_path / "step_5")
    assert told(tmp_path) == (COMPLETE, "")
    (tmp_path / "step_5" / "transformer" / SECOND).unlink()
    assert told(tmp_path) == (INCOMPLETE, f"transformer/{SECOND} is missing")


# The Trainer


@pytest.fixture
def checkpoint(tmp_path):
    """A whole checkpoint of a Trainer."""
    trainer_step(tmp_path / "checkpoint-500")
    return tmp_path / "checkpoint-500"


def test_a_trainer_s_checkpoint_is_one_copy(checkpoint):
    found = only(checkpoint.parent)
    assert (found.name, found.format, found.step) == ("checkpoint-500", "hf-trainer", 500)
    assert (found.structure, found.why) == (COMPLETE, "")


def test_a_write_is_incomplete_until_its_state_is_there(tmp_path):
    trainer_step(tmp_path / "checkpoint-500", state=False)
    assert told(tmp_path) == (INCOMPLETE, "its trainer_state.json is not there yet")


def test_a_model_alone_has_no_state_to_wait_for(checkpoint):
    for name in ("trainer_state.json", "optimizer.pt", "rng_state.pth", "training_args.bin"):
        (checkpoint / name).unlink()
    assert told(checkpoint.parent) == (SHAPELESS, "its trainer_state.json is not there yet")


BY_HAND = "a model that was saved by hand, or a save that stopped before its optimizer"


def test_a_model_with_the_trainer_s_arguments_may_be_a_save_that_stopped(checkpoint):
    for name in ("trainer_state.json", "optimizer.pt", "rng_state.pth"):
        (checkpoint / name).unlink()
    assert told(checkpoint.parent) == (Structure.AMBIGUOUS, BY_HAND)


def test_a_first_save_that_stops_anywhere_behind_its_model_is_never_sound(tmp_path):
    order = ["config.json", "model.safetensors", "training_args.bin", "optimizer.pt", "rng_state.pth"]
    trainer_step(tmp_path / "made")
    for stop in range(3, len(order) + 1):
        unit = tmp_path / f"unit{stop}"
        (unit / "checkpoint-5").mkdir(parents=True)
        for name in order[:stop]:
            shutil.copy(tmp_path / "made" / name, unit / "checkpoint-5" / name)
        watched = Watched(unit)
        early, late = watched.pass_s(3)["checkpoint-5"], watched.pass_s(100)["checkpoint-5"]
        assert early[0] is CopyStatus.WRITING
        assert late[0] is (CopyStatus.UNKNOWN if stop == 3 else CopyStatus.BROKEN)
        (unit / "checkpoint-5" / "optimizer.pt").write_bytes(torch_zip({"data.pkl": b"\x80\x02N."}))
        assert watched.pass_s(2)["checkpoint-5"][0] is CopyStatus.WRITING
        shutil.copy(tmp_path / "made" / "trainer_state.json", unit / "checkpoint-5")
        assert watched.pass_s(2)["checkpoint-5"][0] is CopyStatus.SOUND


def test_settings_without_weights_are_no_copy_yet(checkpoint):
    for path in checkpoint.iterdir():
        if path.name != "config.json":
            path.unlink()
    assert told(checkpoint.parent) == (INCOMPLETE, "no weights in it")


def test_another_program_s_copy_has_no_state_to_wait_for(checkpoint):
    (checkpoint / "trainer_state.json").unlink()
    (checkpoint / "training_args.bin").write_bytes(
        torch_zip({"data.pkl": b"\x80\x02cargparse\nNamespace\n."})
    )
    assert told(checkpoint.parent) == (SHAPELESS, "its trainer_state.json is not there yet")


def test_every_cut_of_the_state_but_its_last_line_end_is_incomplete(checkpoint):
    whole = (checkpoint / "trainer_state.json").read_bytes()
    for count in range(len(whole)):
        (checkpoint / "trainer_state.json").write_bytes(whole[:count])
        assert only(checkpoint.parent).structure is (COMPLETE if count == len(whole) - 1 else INCOMPLETE)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "rng_state.pth", "training_args.bin"])
def test_every_cut_of_a_part_is_incomplete(checkpoint, name):
    size = (checkpoint / name).stat().st_size
    for count in range(size - 1, -1, -9):
        os.truncate(checkpoint / name, count)
        assert only(checkpoint.parent).structure is INCOMPLETE


@pytest.mark.parametrize("text", [b"", b"{", bytes(99)], ids=["empty", "cut", "zeros"])
def test_a_text_without_its_end_is_incomplete(checkpoint, text):
    (checkpoint / "config.json").write_bytes(text)
    assert told(checkpoint.parent) == (INCOMPLETE, "config.json is cut")


def test_what_lies_in_it_as_a_distributed_copy_is_judged_as_one(checkpoint):
    shard = checkpoint / "pytorch_model_fsdp_0" / "__0_0.distcp"
    shard.parent.mkdir()
    shard.write_bytes(b"x" * 100)
    os.utime(checkpoint / "trainer_state.json")
    assert only(checkpoint.parent).structure is INCOMPLETE
    assert only(checkpoint.parent).why.startswith("pytorch_model_fsdp_0: ")


def test_a_checkpoint_without_weights_is_incomplete(checkpoint):
    (checkpoint / "model.safetensors").unlink()
    assert told(checkpoint.parent) == (INCOMPLETE, "no weights in it")


def test_weights_that_are_newer_than_the_state_prove_nothing(checkpoint):
    os.utime(checkpoint / "trainer_state.json", (1000, 1000))
    assert told(checkpoint.parent) == (SHAPELESS, "model.safetensors is newer than its trainer_state.json")


def test_the_shards_of_a_checkpoint_are_judged_by_their_index(checkpoint):
    (checkpoint / "model.safetensors").unlink()
    hf_model(checkpoint)
    os.utime(checkpoint / "trainer_state.json")
    assert told(checkpoint.parent) == (COMPLETE, "")
    (checkpoint / FIRST).unlink()
    assert told(checkpoint.parent) == (INCOMPLETE, f"{FIRST} is missing")


def test_what_its_elders_had_is_missed_in_a_checkpoint(tmp_path):
    for step in (1, 2, 3):
        trainer_step(tmp_path / f"checkpoint-{step}")
    (tmp_path / "checkpoint-3" / "optimizer.pt").unlink()
    found = seen(tmp_path)["checkpoint-3"]
    assert (found.structure, found.lacks) == (COMPLETE, "optimizer.pt is missing, which checkpoint-2 has")


def test_a_checkpoint_that_is_being_removed_is_at_worst_incomplete(tmp_path):
    for step in (1, 2):
        trainer_step(tmp_path / f"checkpoint-{step}")
    scanner = CopyScanner(str(tmp_path), budget_s=60.0)
    for file in sorted((tmp_path / "checkpoint-1").iterdir()):
        file.unlink()
        found = {one.name: one for one in scanner.look(LONG_AFTER_S, 0.0).sightings}
        assert found["checkpoint-2"].structure is COMPLETE
        if "checkpoint-1" in found:
            assert found["checkpoint-1"].structure in (COMPLETE, INCOMPLETE, SHAPELESS)
    (tmp_path / "checkpoint-1").rmdir()
    assert list(seen(tmp_path)) == ["checkpoint-2"]


def test_the_final_model_beside_checkpoints_does_not_hide_them(tmp_path):
    trainer_step(tmp_path / "out" / "checkpoint-1")
    hf_model(tmp_path / "out")
    assert sorted(seen(tmp_path)) == ["out/checkpoint-1", "out/model-*-of-00002.safetensors"]


@pytest.mark.parametrize(
    "header",
    [
        b'{"' + b'\\"' * 3_000_000 + b"}",
        b'{"a' + b"\\\\" * 3_000_000 + b'":{}}',
        b'{"' + b'","' * 700_000 + b'\\":{}}',
        b'{"a\\n":{' + b" " * 2_000_000 + b"}}",
    ],
    ids=["escaped quotes", "backslashes", "empty strings", "spaces"],
)
def test_a_header_that_was_made_to_be_slow_is_gone_through_once(tmp_path, header):
    folder = tmp_path / "checkpoint-1"
    folder.mkdir()
    (folder / "model-00001-of-00001.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (folder / INDEX).write_text('{"weight_map": {"a": "model-00001-of-00001.safetensors"}}')
    (folder / "config.json").write_text("{}")
    assert only(tmp_path).structure is not COMPLETE  # where it could be hours


def test_an_index_of_escapes_or_of_very_many_files_cannot_be_checked(model):
    for text in (
        '{"weight_map": {"' + '\\"' * 2_000_000 + '": "a"}}',
        '{"weight_map": {' + ",".join(f'"{n}": "part-{n}"' for n in range(60_000)) + "}}",
    ):
        (model / INDEX).write_text(text)
        assert only(model.parent).structure is SHAPELESS


def test_tensors_are_told_alike_with_and_without_escapes_in_the_header(model):
    path = model / FIRST
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = {"note": 'a \\ and a "quoted": {word}', "other": "\\\\"}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    os.utime(model / INDEX)
    assert told(model.parent) == (COMPLETE, "")
