"""Files of the real NumPy: .npy of every type it has, and .npz with and without compression."""

from __future__ import annotations

import pytest
from formats.making import checked_deeply
from libraries.one_file import (
    COMPLETE,
    INCOMPLETE,
    SHAPELESS,
    SHARES,
    assert_a_killed_save_is_never_whole,
    assert_a_watched_save_is_whole_only_when_finished,
    assert_an_unwritten_tail_is_left_open,
    assert_cuts_are_incomplete,
    assert_whole,
    assert_zeroed_tails,
    look,
)
from watching import Watched

from ckpt_governor.facts import CopyStatus

pytestmark = pytest.mark.library("numpy")

TYPES = [
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "c8", "c16", ">f4", ">i8",
    "S5", "U5", "S0", "V7", "M8[ns]", "M8[D]", "m8[25s]", "M8",
]  # fmt: skip
RECORDS = [
    [("a", "i4"), ("b", "f8", (2, 3))],
    [("a", [("x", "i4"), ("y", "U3")]), (("a title", "named"), "f4")],
    [("é", "f4"), ("'", "f4")],
    [(f"field {number}", "f4") for number in range(600)],
    {"names": ["a"], "formats": ["f4"], "offsets": [8], "itemsize": 20},
]
SHAPES = [(), (0,), (7,), (3, 4, 5), (0, 3), (1,) * 20]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", TYPES)
def test_an_array_of_any_type_and_shape_is_whole_and_a_byte_less_is_not(tmp_path, kind, shape):
    import numpy

    path = tmp_path / "step_3.npy"
    for array in (numpy.zeros(shape, kind), numpy.asfortranarray(numpy.zeros(shape, kind))):
        numpy.save(path, array)
        assert_whole(path, "npy", 3)
    path.write_bytes(path.read_bytes()[:-1])
    assert look(path).structure is INCOMPLETE


@pytest.mark.filterwarnings("ignore:Stored array in format .* can only be read by:UserWarning")
@pytest.mark.parametrize("fields", RECORDS, ids=range(len(RECORDS)))
def test_records_are_whole_or_have_no_shape_and_a_byte_less_is_never_whole(tmp_path, fields):
    import numpy

    path = tmp_path / "step_3.npy"
    for kind in (numpy.dtype(fields), numpy.dtype(fields, align=True)):
        numpy.save(path, numpy.zeros(9, kind))
        assert look(path).structure is (SHAPELESS if "'" in kind.names else COMPLETE)
    path.write_bytes(path.read_bytes()[:-1])
    assert look(path).structure is not COMPLETE


def test_types_of_other_packages_are_whole(tmp_path):
    import ml_dtypes
    import numpy

    path = tmp_path / "step_3.npy"
    for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4):
        numpy.save(path, numpy.zeros(9, kind))
        assert_whole(path, "npy", 3)


@pytest.mark.filterwarnings("ignore:Custom dtypes are saved as python objects:UserWarning")
def test_arrays_of_objects_have_no_shape_and_are_incomplete_without_their_last_byte(tmp_path):
    import numpy

    path = tmp_path / "step_3.npy"
    texts = numpy.array(["a", "long" * 99], numpy.dtypes.StringDType())
    for array in (numpy.array([{"a": 1}, None], object), texts):
        numpy.save(path, array, allow_pickle=True)
        assert look(path).structure is SHAPELESS
        path.write_bytes(path.read_bytes()[:-1])
        assert look(path).structure is INCOMPLETE


def test_several_arrays_in_one_file_and_one_that_is_mapped_are_whole(tmp_path):
    import numpy
    from numpy.lib.format import open_memmap, write_array

    path = tmp_path / "step_3.npy"
    with path.open("wb") as file:
        for number in range(5):
            numpy.save(file, numpy.arange(number * 100))
    assert_whole(path, "npy", 3)
    with path.open("wb") as file:
        write_array(file, numpy.arange(30), version=(3, 0))
    assert_whole(path, "npy", 3)
    mapped = open_memmap(path, "w+", "f4", (50_000,))
    mapped[:] = 1.5
    mapped.flush()
    assert_whole(path, "npy", 3)


def test_a_mapped_array_whose_filling_stopped_is_incomplete(tmp_path):
    from numpy.lib.format import open_memmap

    mapped = open_memmap(tmp_path / "step_3.npy", "w+", "f4", (4_000_000,))
    watched = Watched(tmp_path)
    watched.pass_s(1)
    for begin in range(0, 2_000_000, 500_000):
        mapped[begin : begin + 500_000] = 1.5
        mapped.flush()
        watched.pass_s(1)
    (stopped,) = watched.pass_s(60).values()
    assert stopped[0] is CopyStatus.BROKEN
    assert "were never written" in stopped[1]
    mapped[2_000_000:] = 1.5
    mapped.flush()
    assert watched.pass_s(60)["step_3.npy"][0] is CopyStatus.SOUND


def test_every_cut_is_incomplete_and_an_end_of_zeros_cannot_be_seen(tmp_path):
    import numpy

    path = tmp_path / "step_3.npy"
    numpy.save(path, numpy.random.default_rng(3).standard_normal((100, 200)))
    assert_zeroed_tails(path, caught=False)
    assert_an_unwritten_tail_is_left_open(path)
    assert_cuts_are_incomplete(path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_an_archive_of_arrays_is_whole_also_deeply_and_every_cut_of_it_is_not(tmp_path, packed, count):
    import numpy

    path = tmp_path / "step_3.npz"
    arrays = {str(n): numpy.random.default_rng(n).integers(0, 9, (20, n % 30)) for n in range(count)}
    (numpy.savez_compressed if packed else numpy.savez)(path, **arrays)
    assert_whole(path, "zip", 3) if count else None
    structure, why, read_bytes = checked_deeply("zip", path)
    assert (structure is COMPLETE and why == "" and read_bytes > 0) if count else structure is not INCOMPLETE
    if count:
        assert_zeroed_tails(path, caught=True)
        path.unlink()
        (numpy.savez_compressed if packed else numpy.savez)(path, **arrays)
        assert_cuts_are_incomplete(path, least=4)


@pytest.mark.parametrize("packed", [False, True])
def test_a_flipped_bit_is_found_by_the_deep_check(tmp_path, packed):
    import numpy

    path = tmp_path / "step_3.npz"
    (numpy.savez_compressed if packed else numpy.savez)(
        path, a=numpy.random.default_rng(3).standard_normal(9000)
    )
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    assert look(path).structure is COMPLETE
    assert checked_deeply("zip", path)[0] is INCOMPLETE


SAVE = """
import numpy
arrays = {str(n): numpy.random.default_rng(n).standard_normal((512, 4096)) for n in range(8)}
whole = numpy.stack(list(arrays.values()))
SAVE
if path.endswith(".npz"):
    numpy.savez(path, **arrays)
else:
    numpy.save(path, whole)
"""
SAVED_BYTES = 8 * 512 * 4096 * 8
NAMES = ["step_3.npy", "step_3.npz"]


def loads(path):
    """The library reads all of it, as it was saved."""
    import numpy

    found = numpy.load(path)
    for number in range(8):
        array = found[str(number)] if path.suffix == ".npz" else found[number]
        assert (array == numpy.random.default_rng(number).standard_normal((512, 4096))).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_save_that_is_watched_is_whole_only_when_it_is_finished(tmp_path, name):
    assert_a_watched_save_is_whole_only_when_finished(tmp_path / name, SAVE, loads)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", SHARES)
def test_a_save_that_is_killed_is_never_whole(tmp_path, name, share):
    assert_a_killed_save_is_never_whole(tmp_path / name, SAVE, share, SAVED_BYTES, loads)


def test_an_archive_without_an_array_is_whole_and_every_cut_of_it_is_not(tmp_path):
    import numpy

    path = tmp_path / "step_3.npz"
    numpy.savez(path)
    assert_whole(path, "zip", 3)
    assert_cuts_are_incomplete(path, least=4)
