"""The walk in pieces: every object is told, what it left is forgotten, and memory does not grow with their number."""

from __future__ import annotations

import contextlib
import io
import pickle
import struct
import tracemalloc

import pytest
from formats.making_binary import Counting
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.formats.inert import Budget, Failure, Inert, TooBig, walk
from ckpt_governor.formats.inert_stream import FORGOTTEN, Stream


class Place:
    """As a format's index has very many of."""

    def __init__(self, path, offset):
        self.path, self.offset = path, offset


class Key:
    """Of a place."""

    def __init__(self, name, part):
        self.name, self.part = name, (part, 0)


class Index:
    """What holds them."""

    def __init__(self, places, others=()):
        self.places, self.others = places, list(others)


class Later(Exception):
    """There is no more time."""


def index_of(count, shards=4):
    """An index of so many places; a name is one object, as in a real one, so that it is written once."""
    names, paths = [f"tensor {n}" for n in range(count // shards + 1)], [f"shard {n}" for n in range(shards)]
    return Index({Key(names[n // shards], n): Place(paths[n % shards], 1000 * n) for n in range(count)})


class Reader:
    """What was told of the places of a pickle."""

    def __init__(self, data, budget=None):
        self.file = Counting(data)
        self.found = []
        self.stream = Stream(
            self.file, self.told, budget or Budget(opcodes=10**8, memory=8 << 20, bytes=1 << 30)
        )
        self.pauses = 0

    def told(self, made, key):
        """Of each the path, the offset and the name of its key."""
        if made.name == "Place":
            self.found.append((made.fields()["path"], made.fields()["offset"], key))
            return FORGOTTEN
        if made.name == "Key":
            return made.fields()["name"]
        return made

    def walk(self):
        """To the end at one stroke."""
        return self.stream.walk(self.file, lambda: None)

    def walk_in_pieces(self):
        """To the end with a pause after every piece, by a file that is opened anew each time."""
        while True:
            try:
                return self.stream.walk(Counting(self.file.data), self.pause)
            except Later:
                self.pauses += 1

    def pause(self):
        """Nobody has time."""
        raise Later


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("count", [0, 1, 2, 999, 1000, 1001, 4321])
def test_every_object_is_told_with_its_key(count, protocol):
    reader = Reader(pickle.dumps(index_of(count), protocol))
    value = reader.walk()
    assert reader.found == [(f"shard {n % 4}", 1000 * n, f"tensor {n // 4}") for n in range(count)]
    assert (type(value), value.name, value.fields()["places"]) == (Inert, "Index", {})


def test_a_walk_goes_on_where_it_was_left():
    data = pickle.dumps(index_of(9000))
    reader, whole = Reader(data), Reader(data)
    assert reader.walk_in_pieces().fields()["places"] == {}
    whole.walk()
    assert reader.pauses >= 3
    assert reader.found == whole.found


def test_a_part_that_somebody_comes_back_to_is_forgotten_and_no_fault():
    place = Place("shard 0", 5)
    reader = Reader(pickle.dumps(Index({Key("a", 0): place}, [place, "b", Key("c", 1)])))
    others = reader.walk().fields()["others"]
    assert (others, reader.found) == (["b", "c"], [("shard 0", 5, "a")])


def test_texts_that_a_forgotten_object_brought_are_known_to_later_ones():
    long = "p" * 300
    reader = Reader(pickle.dumps(Index({n: Place(long, n) for n in range(50)})))
    reader.walk()
    assert {path for path, _, _ in reader.found} == {long}


def test_memory_does_not_grow_with_the_objects():
    def peak_bytes(count):
        data = pickle.dumps(index_of(count))
        reader = Reader(data)
        reader.stream.told = lambda made, _: FORGOTTEN if made.name in ("Place", "Key") else made
        tracemalloc.start()
        reader.walk()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    few, many = peak_bytes(4_000), peak_bytes(40_000)
    assert many - few < 36_000 * 150, (
        "of each object no more than its numbers in the memo and a share of its name"
    )


def test_what_is_held_is_bounded():
    with pytest.raises(TooBig):
        Reader(
            pickle.dumps(Index([str(n) for n in range(30_000)])), Budget(memory=1 << 20, opcodes=10**8)
        ).walk()
    with pytest.raises(TooBig):
        Reader(pickle.dumps(index_of(9000)), Budget(opcodes=10_000)).walk()
    reader = Reader(pickle.dumps(index_of(30_000)), Budget(memory=6 << 20, opcodes=10**8))
    reader.walk()
    assert len(reader.found) == 30_000, "what is forgotten is held no more"


@pytest.mark.parametrize("cut", [10, 500, 5_000, 50_000, 99_999])
def test_a_cut_is_told_as_in_any_walk(cut):
    data = pickle.dumps(index_of(3000))[:cut]
    with pytest.raises(Failure) as streamed:
        Reader(data).walk()
    with pytest.raises(Failure) as walked:
        walk(Counting(data))
    assert (type(streamed.value), str(streamed.value)) == (type(walked.value), str(walked.value))


def test_what_the_teller_raises_ends_the_walk():
    def told(made, key):
        raise Failure("not like this")

    stream = Stream(Counting(pickle.dumps(index_of(3))), told, Budget())
    with pytest.raises(Failure, match="not like this"):
        stream.walk(stream.window.file, lambda: None)


def test_an_object_without_a_state_is_not_told_and_harms_no_other():
    made = io.BytesIO()
    pickle.dump(Index({"a": Place("x", 1)}), made, 2)
    bare = b"cbuiltins\nobject\n)\x810"
    data = made.getvalue()[:2] + bare * 5 + made.getvalue()[2:]
    reader = Reader(data)
    reader.walk()
    assert reader.found == [("x", 1, "a")]


@given(st.binary(max_size=200), st.integers(0, 500), st.integers(0, 30))
def test_no_bytes_raise_anything_but_a_failure(noise, at, gone):
    data = pickle.dumps(index_of(5))
    at = min(at, len(data))
    damaged = data[:at] + noise + data[at + gone :]
    reader = Reader(damaged, Budget(opcodes=20_000, memory=4 << 20))
    with contextlib.suppress(Failure):
        reader.walk_in_pieces()
    assert reader.stream.window.budget.opcodes <= 20_000


def test_numbers_of_the_memo_that_are_chosen_take_no_memory():
    data = b"\x80\x02" + b"".join(b"Nr" + struct.pack("<I", n * 1000) + b"0" for n in range(1, 5000)) + b"N."
    tracemalloc.start()
    with pytest.raises(Failure):
        Reader(data).walk()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
