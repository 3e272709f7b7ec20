"""Files of the real h5py: every layout it can write, cut, zeroed, watched and killed."""

from __future__ import annotations

import pytest
from libraries.one_file import (
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
    sightings,
)

pytestmark = pytest.mark.library("h5py")

OPTIONS = {
    "plain": {},
    "earliest": {"libver": "earliest"},
    "v108": {"libver": "v108"},
    "v110": {"libver": "v110"},
    "latest": {"libver": "latest"},
    "user block": {"userblock_size": 512},
    "user block, latest": {"userblock_size": 4096, "libver": "latest"},
    "in memory": {"driver": "core"},
    "in memory, latest, large steps": {"driver": "core", "libver": "latest", "block_size": 1 << 20},
    "stdio": {"driver": "stdio"},
    "pages": {"fs_strategy": "page", "fs_page_size": 4096},
    "pages, latest": {"fs_strategy": "page", "fs_page_size": 4096, "libver": "latest"},
    "pages, kept": {"fs_strategy": "page", "fs_page_size": 4096, "fs_persist": True},  # with latest it never closes
    "free space kept": {"fs_strategy": "fsm", "fs_persist": True},
    "aggregate": {"fs_strategy": "aggregate", "libver": "latest"},
    "no strategy": {"fs_strategy": "none"},
    "ordered": {"track_order": True},
    "large blocks": {"meta_block_size": 1 << 18},
    "aligned": {"alignment_threshold": 1, "alignment_interval": 4096},
}  # fmt: skip
every_layout = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def write(path, options):
    """Groups, dtypes, chunks, filters, attributes, texts, something deleted."""
    import h5py
    import numpy

    with h5py.File(path, "w", **options) as file:
        file["gone"] = numpy.ones((100, 100))
        for number in range(20):
            group = file.create_group(f"layers/dense_{number}/vars")
            group["0"] = numpy.random.default_rng(number).standard_normal((64, 32)).astype("f4")
            group.attrs["name"] = f"dense_{number}"
        file.create_dataset(
            "packed", data=numpy.arange(9000), compression="gzip", shuffle=True, fletcher32=True
        )
        chunked = file.create_dataset("chunked", (500, 500), maxshape=(None, None), chunks=(50, 50))
        chunked[:60, :60] = 3
        chunked.resize((70, 70))
        file.create_dataset("never written", (30, 30))
        file["text"], file["half"], file["flags"] = "a text", numpy.zeros(3, "f2"), numpy.zeros(9, bool)
        file["records"] = numpy.zeros(5, [("a", "i4"), ("b", "f8", (2,))])
        del file["gone"]


@every_layout
def test_a_written_file_is_whole_and_every_cut_of_it_is_not(tmp_path, options):
    path = tmp_path / "step_3.h5"
    write(path, options)
    assert_whole(path, "hdf5", 3)
    least = options.get("userblock_size", 0) + 8
    assert_cuts_are_incomplete(path, least=least if least > 8 else 0)


@every_layout
def test_a_file_that_is_opened_again_and_changed_is_whole(tmp_path, options):
    import h5py
    import numpy

    path = tmp_path / "step_3.h5"
    write(path, options)
    again = {key: value for key, value in options.items() if not key.startswith(("fs_", "userblock"))}
    with h5py.File(path, "a", **again) as file:
        del file["layers"]
        file["more"] = numpy.ones(2000)
    assert_whole(path, "hdf5", 3)
    with h5py.File(path, "r+") as file:
        del file["more"], file["packed"], file["chunked"]
    assert_whole(path, "hdf5", 3)


def test_an_empty_file_and_a_file_of_many_readers_are_whole(tmp_path):
    import h5py

    path = tmp_path / "step_3.h5"
    h5py.File(path, "w").close()
    assert_whole(path, "hdf5", 3)
    with h5py.File(path, "w", libver="latest") as file:
        file["a"] = range(100)
        file.swmr_mode = True
        assert look(path).structure is INCOMPLETE
    assert_whole(path, "hdf5", 3)


@pytest.mark.parametrize("early", [False, True])
def test_datasets_that_nobody_fills_make_no_sound_file_incomplete(tmp_path, early):
    import h5py

    path = tmp_path / "step_3.h5"
    with h5py.File(path, "w") as file:
        kind = h5py.h5t.IEEE_F32LE
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY if early else h5py.h5d.ALLOC_TIME_LATE)
        plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(file.id, b"a", kind, h5py.h5s.create_simple((500_000,)), dcpl=plan)
    assert look(path).structure not in (INCOMPLETE, SHAPELESS)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("driver", [{"driver": "family", "memb_size": 20_000}, {"driver": "split"}])
def test_no_part_of_a_copy_in_several_files_is_called_incomplete(tmp_path, driver, libver):
    import h5py
    import numpy

    path = tmp_path / ("step_3_%d.h5" if driver["driver"] == "family" else "step_3.h5")
    with h5py.File(path, "w", libver=libver, **driver) as file:
        file["zeros"] = numpy.zeros((100, 100))  # so that the raw parts begin with some
    names = sorted(part.name for part in tmp_path.iterdir())
    assert len(names) > 1
    assert not any((tmp_path / names[-1]).read_bytes()[:512])
    found = sightings(tmp_path)
    assert (
        sorted(name for one in found for name in (one.name, *one.also)) == names
    )  # some hold the same zeros
    assert INCOMPLETE not in {one.structure for one in found}


@pytest.mark.parametrize("name", ["step_3.h5", "cp_00003.weights.h5"])
def test_a_file_of_its_full_size_that_holds_nothing_but_zeros_is_incomplete(tmp_path, name):
    for step in ("1", "2"):
        write(tmp_path / name.replace("3", step), {})
    write(tmp_path / name, {})
    (tmp_path / name).write_bytes(bytes((tmp_path / name).stat().st_size))
    found = {sighting.name: sighting.structure for sighting in sightings(tmp_path)}
    assert [one for one, structure in found.items() if structure is INCOMPLETE] == [name]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_an_end_of_zeros_cannot_be_seen_and_one_that_nobody_wrote_is_left_open(tmp_path, libver):
    path = tmp_path / "step_3.h5"
    write(path, {"libver": libver})
    assert_zeroed_tails(path, caught=False)
    assert_an_unwritten_tail_is_left_open(path)


SAVE = """
import h5py, numpy
data = numpy.random.default_rng(3).standard_normal((2048, 1024))
SAVE
with h5py.File(path, "w", libver=LIBVER) as file:
    for number in range(8):
        file.create_dataset(f"layers/{number}/kernel", data=data, chunks=CHUNKS)
"""
SAVED_BYTES = 8 * 2048 * 1024 * 8
WAYS = [("earliest", None), ("latest", None), ("earliest", (256, 256)), ("latest", (256, 256))]
every_way = pytest.mark.parametrize(("libver", "chunks"), WAYS)


def save_code(libver, chunks):
    """The code that saves."""
    return SAVE.replace("LIBVER", repr(libver)).replace("CHUNKS", repr(chunks))


def loads(path):
    """The library reads all of it, as it was saved."""
    import h5py
    import numpy

    data = numpy.random.default_rng(3).standard_normal((2048, 1024))
    with h5py.File(path, "r", locking=False) as file:
        assert all((file[f"layers/{number}/kernel"][:] == data).all() for number in range(8))


@every_way
def test_a_save_that_is_watched_is_whole_only_when_it_is_finished(tmp_path, libver, chunks):
    assert_a_watched_save_is_whole_only_when_finished(
        tmp_path / "step_3.h5", save_code(libver, chunks), loads
    )


@every_way
@pytest.mark.parametrize("share", SHARES)
def test_a_save_that_is_killed_is_never_whole(tmp_path, libver, chunks, share):
    assert_a_killed_save_is_never_whole(
        tmp_path / "step_3.h5", save_code(libver, chunks), share, SAVED_BYTES, loads
    )
