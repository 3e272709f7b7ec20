"""joblib and pickle with real arrays: every dtype, order and protocol, compressed, cut, zeroed, watched and killed."""

from __future__ import annotations

import collections
import datetime
import decimal
import os
import pathlib
import pickle
import uuid

import pytest
from libraries.one_file import (
    COMPLETE,
    SHAPELESS,
    SHARES,
    assert_a_killed_save_is_never_whole,
    assert_a_watched_save_is_whole_only_when_finished,
    assert_cuts_are_incomplete,
    assert_whole,
    assert_zeroed_tails,
    look,
)
from watching import Watched

from ckpt_governor.facts import CopyStatus

pytestmark = pytest.mark.library("joblib")

SAVE = {
    "joblib": """
import joblib, numpy
value = {f"layer.{n}": numpy.random.default_rng(n).random(1 << 19) for n in range(24)}
SAVE
joblib.dump(value, path)
""",
    "pkl": """
import pickle, numpy
value = {f"layer.{n}": numpy.random.default_rng(n).random(1 << 19) for n in range(24)}
SAVE
with open(path, "wb") as file:
    pickle.dump(value, file)
""",
}
DTYPES = "f2 f4 f8 g i1 i2 i4 i8 u1 u2 u4 u8 ? c8 c16 U10 S7 V3 M8[ns] m8[s] >f4 >U3"
WHOLE_BYTES = 24 * (4 << 20)
every_protocol = pytest.mark.parametrize("protocol", range(6))
both = pytest.mark.parametrize("suffix", ["joblib", "pkl"])


def arrays():
    """Of every dtype that numpy has, and of ml_dtypes where it is."""
    import numpy

    found = {name: numpy.zeros((5, 3), name) for name in DTYPES.split()}
    found["records"] = numpy.zeros(5, [("a", "i4"), ("b", "f8", (2,)), ("c", [("d", "?")])])
    found["aligned"] = numpy.zeros(5, numpy.dtype([("a", "i1"), ("b", "f8")], align=True))
    found["objects"] = numpy.array([1, "text", numpy.arange(3), None], dtype=object)
    found["records with objects"] = numpy.zeros(3, [("a", "O"), ("b", "f4")])
    found["objects in rows"] = numpy.asfortranarray(numpy.full((3, 4), "x", dtype=object))
    try:
        import ml_dtypes

        found["bfloat16"] = numpy.zeros(5, ml_dtypes.bfloat16)
        found["float8"] = numpy.zeros(5, ml_dtypes.float8_e4m3fn)
    except ImportError:
        pass
    table = numpy.random.default_rng(1).random((30, 20))
    found |= {"fortran": numpy.asfortranarray(table), "steps": table[::2, ::3], "turned": table.T}
    found |= {"a number": numpy.array(3.5), "nothing": numpy.zeros((0, 3)), "large": numpy.zeros((300, 400))}
    return found


def value():
    """What a job may save."""
    import numpy

    held = {
        "arrays": arrays(),
        "generator": numpy.random.default_rng(1),
        "state": numpy.random.RandomState(1),
        "masked": numpy.ma.array([1, 2], mask=[0, 1]),
        "scalar": numpy.float32(2),
        "standard": [
            datetime.datetime.now(datetime.UTC), decimal.Decimal("1.5"), uuid.uuid4(), pathlib.Path("a"),
            collections.Counter("abca"), collections.deque([1], maxlen=3), {1, (2, 3)}, frozenset([(1, 2)]),
            collections.OrderedDict(a=1), os.path.join, dict, ValueError("a"), range(5), slice(1, 2), 1 + 2j,
        ],
        "long": [2**5000, -(2**70), b"x" * 70_000, "ü" * 70_000, bytearray(100_000), list(range(3000))],
        (1, 2): "a tuple for a key",
    }  # fmt: skip
    held["itself"] = [held]
    return held


def dump(value, path, protocol=None):
    """By what the name says."""
    import joblib

    if path.suffix == ".joblib":
        joblib.dump(value, path, protocol=protocol)
    else:
        path.write_bytes(pickle.dumps(value, protocol))


def load(path):
    """As anybody loads it."""
    import joblib

    return joblib.load(path) if path.suffix == ".joblib" else pickle.loads(path.read_bytes())


@both
@every_protocol
def test_whatever_is_saved_is_whole(tmp_path, suffix, protocol):
    path = tmp_path / f"step_3.{suffix}"
    dump(value(), path, protocol)
    assert_whole(path, "pickle", 3)


@both
def test_an_array_of_every_kind_alone_is_whole(tmp_path, suffix):
    path = tmp_path / f"step_3.{suffix}"
    for name, array in arrays().items():
        for one in (array, [array, "after"]):
            dump(one, path)
            assert look(path).structure is COMPLETE, name


def test_many_pickles_in_a_row_are_whole(tmp_path):
    path = tmp_path / "step_3.pkl"
    with path.open("wb") as file:
        for protocol in (2, 3, 4, 5):
            pickle.dump(arrays()["large"], file, protocol)
    assert_whole(path, "pickle", 3)


@pytest.mark.parametrize("compress", [3, ("gzip", 3), ("bz2", 3), ("xz", 3), ("lzma", 3)], ids=str)
def test_what_is_compressed_is_not_checked(tmp_path, compress):
    import joblib

    path = tmp_path / "step_3.joblib"
    joblib.dump(value(), path, compress=compress)
    assert (look(path).format, look(path).structure) == ("pickle", SHAPELESS)


def test_a_smaller_compressed_file_is_unknown_and_a_cut_one_never_sound(tmp_path):
    import joblib
    import numpy

    watched = Watched(tmp_path)
    watched.pass_s(1)
    for step in (1, 2):
        joblib.dump(numpy.random.default_rng(step).random(9000), tmp_path / f"step_{step}.joblib", compress=3)
        watched.pass_s(60)
    joblib.dump(
        numpy.round(numpy.random.default_rng(3).random(9000), 1), tmp_path / "step_3.joblib", compress=3
    )
    assert watched.pass_s(60)["step_3.joblib"][0] is CopyStatus.UNKNOWN
    cut = (tmp_path / "step_1.joblib").read_bytes()[:30_000]
    (tmp_path / "step_4.joblib").write_bytes(cut)
    assert watched.pass_s(60)["step_4.joblib"][0] is CopyStatus.UNKNOWN


def test_a_dtype_that_is_not_known_proves_nothing(tmp_path):
    import numpy

    path = tmp_path / "step_3.joblib"
    dump([numpy.array(["a", "b"], numpy.dtypes.StringDType()), 1], path)
    assert look(path).structure in (COMPLETE, SHAPELESS)


@both
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_cuts_and_ends_of_zeros_are_incomplete(tmp_path, suffix, protocol):
    path = tmp_path / f"step_3.{suffix}"
    dump(value(), path, protocol)
    whole = path.read_bytes()
    assert_cuts_are_incomplete(path)
    path.write_bytes(whole)
    assert_zeroed_tails(path, caught=True)


@both
def test_a_large_one_costs_as_little_as_a_small_one(tmp_path, suffix):
    import numpy

    path = tmp_path / f"step_3.{suffix}"
    dump({"a": numpy.zeros(1 << 22), "b": numpy.ones(1 << 21)}, path)
    assert_whole(path, "pickle", 3)


@both
def test_a_watched_save_is_whole_only_when_finished(tmp_path, suffix):
    assert_a_watched_save_is_whole_only_when_finished(tmp_path / f"step_3.{suffix}", SAVE[suffix], load)


@both
@pytest.mark.parametrize("share", SHARES)
def test_a_killed_save_is_never_whole(tmp_path, suffix, share):
    assert_a_killed_save_is_never_whole(tmp_path / f"step_3.{suffix}", SAVE[suffix], share, WHOLE_BYTES, load)
