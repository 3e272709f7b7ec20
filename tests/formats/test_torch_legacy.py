"""torch's older format: pickles, and storages whose lengths must be as pickled."""

from __future__ import annotations

import pickle
import struct

import pytest
from formats.making import judged, word_of
from formats.making_binary import cuts_called_complete, judged_bytes
from formats.making_pickles import (
    STORAGES,
    TORCH_MAGIC,
    WEIGHTS,
    Call,
    Codes,
    Global,
    opcodes,
    pickled,
    storage,
    tensor,
    torch_legacy,
)
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import SmallSize, Structure
from ckpt_governor.formats.interface import HEAD_BYTES
from ckpt_governor.observe.copies import CopyScanner

WHOLE = torch_legacy()
COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
DATA_BYTES = sum(8 + count * size for count, size in STORAGES.values())


@pytest.fixture
def judge(tmp_path):
    """Judges these bytes as a file."""

    def write_and_judge(data, **more):
        path = tmp_path / "model_100.pt"
        path.write_bytes(data)
        return judged("torch-legacy", path, **more)

    return write_and_judge


def one(kind, count, size):
    """A file with one tensor of a kind."""
    return torch_legacy({"a": tensor(storage("1", count, kind), count)}, {"1": (count, size)})


SOUND = {
    "tensors": WHOLE,
    "nothing": torch_legacy({}, {}),
    "an empty tensor": one("Float", 0, 4),
    "two over the same data": torch_legacy({"a": WEIGHTS["a"], "b": WEIGHTS["a"]}, {"10": (500, 4)}),
    "bytes": one("Byte", 3, 1),
    "halves": one("BFloat16", 3, 2),
    "complex": one("ComplexDouble", 3, 16),
    "without a type": one("Untyped", 13, 1),
    "quantized": one("QInt32", 5, 4),
}


@pytest.mark.parametrize("data", SOUND.values(), ids=SOUND)
def test_a_whole_file_is_complete(judge, data):
    assert word_of("model_100.pt", data[:HEAD_BYTES]) == "torch-legacy"
    assert judge(data) == (COMPLETE, "", None, False, SmallSize.PROOF)


def test_every_cut_is_incomplete():
    assert cuts_called_complete("torch-legacy", WHOLE) == []
    structures = {judged_bytes("torch-legacy", WHOLE[:count]).structure for count in range(len(WHOLE))}
    assert structures == {INCOMPLETE}


def test_a_cut_says_how_much_is_missing_once_that_is_known(judge):
    assert judge(WHOLE[:-7])[:2] == (INCOMPLETE, f"7 of {len(WHOLE)} bytes are missing")
    assert judge(WHOLE[:-DATA_BYTES])[:2] == (INCOMPLETE, f"{DATA_BYTES} of {len(WHOLE)} bytes are missing")
    assert judge(WHOLE[:60])[:2] == (INCOMPLETE, "its end is missing")


def test_every_end_of_zeros_before_the_last_tensor_is_incomplete():
    last_at = len(WHOLE) - 8 - 60
    for kept in range(15, last_at, 7):
        data = WHOLE[:kept] + bytes(len(WHOLE) - kept)
        assert judged_bytes("torch-legacy", data).structure is INCOMPLETE, kept
    assert (
        judged_bytes("torch-legacy", WHOLE[:-60] + bytes(60)).structure is COMPLETE
    )  # of itself it may be zeros


def test_a_length_that_is_not_as_pickled_is_damage(judge):
    at = len(WHOLE) - DATA_BYTES
    wrong = WHOLE[:at] + struct.pack("<q", 501) + WHOLE[at + 8 :]
    assert judge(wrong)[:2] == (INCOMPLETE, f"a tensor is not where its index says, at byte {at}")


def test_what_follows_the_last_tensor_is_ignored_by_the_loader_and_proves_nothing(judge):
    assert judge(WHOLE + bytes(9))[:2] == (SHAPELESS, "9 bytes follow its end, and cannot be checked")


def test_a_mark_that_it_is_done_counts_where_nothing_else_can_be_said(judge, tmp_path):
    judge(WHOLE + bytes(9))
    (tmp_path / "model_100.pt.done").touch()
    assert judged("torch-legacy", tmp_path / "model_100.pt").structure is COMPLETE
    (tmp_path / "model_100.pt").write_bytes(WHOLE[:-9])
    assert judged("torch-legacy", tmp_path / "model_100.pt").structure is INCOMPLETE


OTHER = {
    "version": torch_legacy(version=1002),
    "byte order": torch_legacy(little=False),
    "kind": one("Float3", 3, 4),
    "no kind": torch_legacy({"a": tensor(storage("1", 3), 3)}, {"2": (3, 4)}),
    "keys that are no list": torch_legacy(keys={"10": 1}),
    "keys that are no texts": torch_legacy(keys=[10, (11,)]),
    "count below nothing": torch_legacy({"a": tensor(storage("1", 3, numel=-3), 3)}, {"1": (3, 4)}),
    "absurd count": torch_legacy({"a": tensor(storage("1", 3, numel=1 << 80), 3)}, {"1": (3, 4)}),
    "newer pickle": WHOLE.replace(b"\x80\x02}(X\1\0\0\0a", b"\x80\x07}(X\1\0\0\0a"),
    "too many objects": torch_legacy({"a": Codes(b"N" + b"N0" * 500_000)}, {}),
    "too many tensors": torch_legacy({}, {}, keys=["1"] * 20_001),
}


@pytest.mark.parametrize("data", OTHER.values(), ids=OTHER)
def test_what_is_not_known_proves_nothing(judge, data):
    judgement = judge(data)
    assert judgement.structure is SHAPELESS
    assert judgement.why.endswith("be checked")


def test_lengths_that_a_file_merely_claims_cost_nothing(judge):
    huge = torch_legacy({"a": tensor(storage("1", 0, numel=1 << 61), 3)}, {"1": (3, 4)})
    judgement = judge(huge)
    assert judgement.structure is INCOMPLETE
    assert judgement.why.endswith("bytes are missing")


@pytest.mark.usefixtures("volume_that_stores_zeros_as_holes")
def test_an_end_that_nobody_wrote_is_left_open_while_it_is_young(tmp_path):
    data = one("Float", 1 << 20, 4)
    path = tmp_path / "model.pt"
    with path.open("wb") as file:
        file.write(data[:100_000])
        file.truncate(len(data))
    judgement = judged("torch-legacy", path, age_s=1.0)
    if judgement.hole_at is None:
        pytest.skip("holes: this file system shows none")
    assert (judgement.structure, judgement.provisional) == (INCOMPLETE, True)


def test_it_is_recognised_by_its_bytes_under_any_name():
    for protocol in range(2, 6):
        assert word_of("weights", pickle.dumps(TORCH_MAGIC, protocol) + b"more") == "torch-legacy"
    assert word_of("__0_0.distcp", WHOLE[:HEAD_BYTES]) != "torch-legacy"
    assert word_of("model.pt", WHOLE[:2]) == "pickle"  # as far as can be told


def test_it_is_found_as_one_copy(tmp_path):
    (tmp_path / "model_step_100.pth").write_bytes(WHOLE)
    (tmp_path / "model_step_90.pth").write_bytes(WHOLE[:-1])
    found = CopyScanner(str(tmp_path), budget_s=60.0).look(2e9, 0.0).sightings
    assert {(one.name, one.format, one.step, one.structure, one.bytes) for one in found} == {
        ("model_step_100.pth", "torch-legacy", 100, COMPLETE, len(WHOLE)),
        ("model_step_90.pth", "torch-legacy", 90, INCOMPLETE, len(WHOLE) - 1),
    }


@pytest.mark.parametrize("place", range(5))
def test_nothing_in_any_of_its_pickles_is_run(judge, tmp_path, place):
    trace = tmp_path / "trace"
    evil = Call(Global("os", "system"), (f"touch {trace}",))
    system = {"little_endian": True, "evil": evil} if place == 2 else {"little_endian": True}
    held = {"a": evil, "b": Codes(opcodes(("storage", evil, "1", evil, 3, evil)) + b"Q"), evil: evil}
    parts = [TORCH_MAGIC, 1001, system, held if place == 3 else {}, [evil] if place == 4 else []]
    data = b"".join(map(pickled, parts[:place])) + pickled(parts[place] if place > 1 else evil)
    judge(data + b"".join(map(pickled, parts[place + 1 :])))
    assert not trace.exists()


@given(st.binary(max_size=40), st.integers(0, len(WHOLE)))
def test_no_bytes_make_the_check_fail_in_another_way(tmp_path_factory, noise, at):
    path = tmp_path_factory.mktemp("noise") / "model.pt"
    path.write_bytes(WHOLE[:at] + noise + WHOLE[at + len(noise) :])
    assert judged("torch-legacy", path).structure in (COMPLETE, INCOMPLETE, SHAPELESS)
