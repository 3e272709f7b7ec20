"""Pickles alone and in a row, and joblib's with arrays between the opcodes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import pickle
import zlib

import pytest
from formats.making import judged, word_of
from formats.making_binary import Counting, judged_bytes
from formats.making_pickles import Call, Codes, Global, dtype, joblib_array, pickled
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import SmallSize, Structure
from ckpt_governor.observe.copies import CopyScanner

VALUE = {"weights": [bytes(range(256)) * 9, "text", 2.5], "step": 100, "more": {"a": (1, None)}}
COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
FLOATS, OBJECTS = dtype("f4"), dtype("O8", flags=63)
ARRAYS = pickled(
    {
        "plain": joblib_array((5, 7), FLOATS, b"\0.\xff" * 46 + b"ab"),
        "of nothing": joblib_array((0, 7), FLOATS, b""),
        "a number": joblib_array((), dtype("f8"), bytes(8)),
        "of texts": joblib_array((3,), dtype("U2", 8), bytes(24)),
        "of objects": joblib_array((2,), OBJECTS, pickled([1, "two"]), filled=None),
        "from an old version": joblib_array((3,), dtype("i8"), bytes(24), filled=None),
        "by another name": joblib_array(
            (1,), FLOATS, b"1234", module="sklearn.externals.joblib.numpy_pickle"
        ),
        "after": "all",
    }
)
every_protocol = pytest.mark.parametrize("protocol", range(6))


@pytest.fixture
def judge(tmp_path):
    """Judges these bytes as a file."""

    def write_and_judge(data, name="step_100.pkl"):
        (tmp_path / name).write_bytes(data)
        return judged("pickle", tmp_path / name)

    return write_and_judge


def structures(data, counts):
    """What is said of it cut to each of these sizes."""
    return {judged_bytes("pickle", data[:count], "step_1.pkl").structure for count in counts}


@every_protocol
def test_a_whole_pickle_is_complete(judge, protocol):
    assert judge(pickle.dumps(VALUE, protocol)) == (COMPLETE, "", None, False, SmallSize.PROOF)


@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
def test_every_cut_of_a_pickle_is_incomplete(protocol):
    data = pickle.dumps(VALUE, protocol)
    assert structures(data, range(0 if protocol else 6, len(data))) == {INCOMPLETE}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_end_of_zeros_is_incomplete(protocol):
    data = pickle.dumps(VALUE, protocol)
    for kept in range(3, len(data), 5):
        zeroed = data[:kept] + bytes(len(data) - kept)
        assert judged_bytes("pickle", zeroed).structure is INCOMPLETE, kept


def test_an_incomplete_pickle_says_why(judge):
    data = pickle.dumps(VALUE)
    assert judge(data[:-1])[:2] == (INCOMPLETE, "its end is missing")
    assert judge(data[:-2] + b"\0\0")[:2] == (INCOMPLETE, f"it is damaged before byte {len(data) - 1}")
    assert judge(b"")[:2] == (INCOMPLETE, "empty")
    assert judge(bytes(5000))[:2] == (INCOMPLETE, "its beginning was never written")


def test_pickles_one_after_another_are_complete_and_each_cut_of_the_last_is_not(judge):
    first, second = pickle.dumps(VALUE), pickle.dumps([1, 2, 3], 2)
    data = first + second + pickle.dumps("last", 5)
    assert judge(data).structure is COMPLETE
    assert judge(data[:-1]).structure is INCOMPLETE
    assert judge(first + second[:-2]).structure is INCOMPLETE
    assert judge(first + second).structure is COMPLETE  # nobody can say that more was to come


@pytest.mark.parametrize("more", [b"\0" * 9, b"raw bytes", b"\x93NUMPY\1\0"])
def test_what_follows_is_ignored_by_the_loader_and_proves_nothing(judge, more):
    assert judge(pickle.dumps(VALUE) + more)[:2] == (
        SHAPELESS, f"{len(more)} bytes follow its end, and cannot be checked",
    )  # fmt: skip


def test_a_mark_that_it_is_done_counts_where_nothing_else_can_be_said(judge, tmp_path):
    judge(pickle.dumps(VALUE) + b"more")
    (tmp_path / "step_100.pkl.done").touch()
    assert judged("pickle", tmp_path / "step_100.pkl").structure is COMPLETE


def test_arrays_between_the_opcodes_are_jumped_over(judge):
    assert judge(ARRAYS, "step_100.joblib") == (COMPLETE, "", None, False, SmallSize.PROOF)


def test_every_cut_of_a_file_with_arrays_is_incomplete():
    assert structures(ARRAYS, range(len(ARRAYS))) == {INCOMPLETE}


def test_a_large_array_is_not_read():
    data = pickled([joblib_array((1000, 1000), FLOATS, bytes(4_000_000)), pickle.dumps, "end"][::2])
    file = Counting(data)
    assert judged_bytes("pickle", file).structure is COMPLETE
    assert file.read_bytes < 10_000
    assert judged_bytes("pickle", data[:-4_000_000]).structure is INCOMPLETE


UNKNOWN = {
    "a class of its own": joblib_array((3,), Global("numpy.dtypes", "StringDType"), b"abc"),
    "a new state": joblib_array((3,), Codes(b"cnumpy\ndtype\nU\2f4\x85RK\5\x85b"), b"abc"),
    "a size that is no number": joblib_array((3,), dtype("f"), b"abc"),
    "no tuple": joblib_array([3], FLOATS, b"abc"),
    "a side below nothing": joblib_array((-3,), FLOATS, b"abc"),
    "a side that is no number": joblib_array(("3",), FLOATS, b"abc"),
    "too many sides": joblib_array((1,) * 65, FLOATS, b"abc"),
}


@pytest.mark.parametrize("array", UNKNOWN.values(), ids=UNKNOWN)
def test_an_array_that_is_not_known_proves_nothing(judge, array):
    assert judge(pickled([array]))[:2] == (SHAPELESS, "it holds arrays of a sort that cannot be checked")


def test_sizes_that_a_file_merely_claims_cost_nothing(judge):
    data = pickled([joblib_array(((1 << 62) - 1,) * 60, FLOATS, b"abc")])
    assert judge(data)[:2] == (INCOMPLETE, "its end is missing")


PACKED = {
    "a.pkl.gz": gzip.compress,
    "a.joblib.z": zlib.compress,
    "a.pickle.bz2": bz2.compress,
    "a.joblib.xz": lzma.compress,
    "a.joblib": lambda data: zlib.compress(data, 3),
    "a.pkl": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
}


@pytest.mark.parametrize(("name", "pack"), PACKED.items(), ids=PACKED)
def test_what_is_compressed_proves_nothing(judge, name, pack):
    data = pack(pickle.dumps(VALUE))
    assert word_of(name, data[:512]) == "pickle"
    assert judge(data, name)[:2] == (SHAPELESS, "it is compressed and cannot be checked")
    assert judge(data[:-9], name).structure is SHAPELESS


@pytest.mark.parametrize("data", [b"some text", b'{"a": 1}', b"\x80\x09}.", b"\x80\x02\xff.", b"\1" * 99])
def test_what_is_no_pickle_under_such_a_name_proves_nothing(judge, data):
    assert judge(data)[:2] == (SHAPELESS, "it does not begin as a pickle does, and cannot be checked")


def test_what_holds_too_much_proves_nothing(judge):
    many = pickle.dumps(list(range(600_000)))
    assert judge(many)[:2] == (SHAPELESS, "it holds too many objects to be checked")


def test_it_is_recognised_by_name_or_by_bytes_under_the_name_of_a_copy():
    assert word_of("replay.pkl", b"") == "pickle"
    assert word_of("model.joblib", b"\x80\x04\x95") == "pickle"
    for protocol in range(2, 6):
        for value in (VALUE, [], 7, "x", None, int, 2.5, 1 << 90, b"x" * 99_999, (), {1}):
            data = pickle.dumps(value, protocol)
            assert word_of("checkpoint_100", data[:512]) == "pickle"
            assert word_of("algorithm_state", data[:512]) is None
    assert word_of("model.pt", b"\x80") == "pickle"
    assert word_of("weights.bin", b"\x80\x03\0\0") == "file"


def test_it_is_found_as_one_copy(tmp_path):
    data = pickle.dumps(VALUE)
    (tmp_path / "iter_7.pkl").write_bytes(data)
    (tmp_path / "iter_8.joblib").write_bytes(ARRAYS)
    (tmp_path / "iter_9.pkl").write_bytes(data[:-1])
    (tmp_path / "iter_10.pkl.tmp").write_bytes(data[:-1])
    found = CopyScanner(str(tmp_path), budget_s=60.0).look(2e9, 0.0).sightings
    assert sorted((one.step, one.format, one.structure, one.bytes, one.temporary) for one in found) == [
        (7, "pickle", COMPLETE, len(data), False),
        (8, "pickle", COMPLETE, len(ARRAYS), False),
        (9, "pickle", INCOMPLETE, len(data) - 1, False),
        (10, "pickle", INCOMPLETE, len(data) - 1, True),
    ]


def test_nothing_in_it_is_run(judge, tmp_path):
    trace = tmp_path / "trace"
    evil = Call(Global("os", "system"), (f"touch {trace}",))
    places = [
        pickled(evil),
        pickled({"a": [evil], evil: evil}),
        pickled([joblib_array((2,), OBJECTS, pickled([evil]), filled=None)]),
        pickled([joblib_array((evil,), evil, b"")]),
        pickled(joblib_array((2,), Call(Global("builtins", "exec"), (f"open({str(trace)!r}, 'w')",)), b"")),
        pickled({"a": 1}) + pickled(evil),
        f"cos\nsystem\n(S'touch {trace}'\ntR.".encode(),
        f"(S'touch {trace}'\nios\nsystem\n.".encode(),
    ]
    for data in places:
        judge(data)
        judge(data[:-1])
    assert not trace.exists()
    assert pickle.loads(places[-1]) == 0  # it would have been
    assert trace.exists()


@given(st.binary(max_size=40), st.integers(0, len(ARRAYS)))
def test_no_bytes_make_the_check_fail_in_another_way(tmp_path_factory, noise, at):
    path = tmp_path_factory.mktemp("noise") / "step_1.joblib"
    path.write_bytes(ARRAYS[:at] + noise + ARRAYS[at + len(noise) :])
    assert judged("pickle", path).structure in (COMPLETE, INCOMPLETE, SHAPELESS)
