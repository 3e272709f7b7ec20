"""The walk through a pickle: what the values are, which bytes fail how, and that nothing is ever made or run."""

from __future__ import annotations

import builtins
import collections
import datetime
import io
import os
import pickle
import pickletools
import struct
import sys
import time
from typing import NamedTuple

import pytest
from formats.making_binary import Counting
from formats.making_pickles import Built, Call, Codes, Global, opcodes, pickled
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.formats.inert import (
    Budget,
    Cut,
    Damaged,
    Failure,
    Inert,
    Persistent,
    Skipped,
    TooBig,
    Unsupported,
    walk,
)

PLAIN = {
    "numbers": [0, 1, -1, 255, 256, 65_535, 65_536, -(2**31), 2**40, 2**100, 2**3000, 1.5, -0.0, 1e300],
    "words": ["", "a", "ü€😀\n\\'", "x" * 300, "y" * 4000, True, False, None],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((1, (2,)),)],
    "holders": [{}, [], {"a": {"b": [1]}}, {1: 2, 4095: 3, None: 5, False: 6}, {1, 2}, set()],
}
every_protocol = pytest.mark.parametrize("protocol", range(6))


def walked(data, **more):
    """The walk from the first byte of these."""
    return walk(Counting(data), 0, **more)


def value_of(data):
    """What is in them."""
    return walked(data).value


def ends(data, budget=None):
    """The kind of failure that these bytes end in, None when they can be walked."""
    try:
        walk(Counting(data), 0, budget)
    except Failure as failure:
        return type(failure)
    return None


@every_protocol
def test_plain_values_arrive_as_they_are(protocol):
    values = {
        name: value for name, value in PLAIN.items() if protocol or name != "words"
    }  # escapes stay there
    data = pickle.dumps(values, protocol)
    assert walked(data)[:2] == (values, len(data))


@every_protocol
def test_bytes_and_the_dicts_of_the_standard_library_are_plain(protocol):
    values = [collections.OrderedDict(a=1), collections.defaultdict(list, b=[2]), frozenset([3])]
    assert value_of(pickle.dumps(values, protocol)) == [{"a": 1}, {"b": [2]}, {3}]
    if protocol >= 3:
        assert value_of(pickle.dumps(b"abc", protocol)) == b"abc"


@every_protocol
def test_what_follows_a_pickle_is_not_looked_at(protocol):
    data = pickle.dumps(PLAIN, protocol)
    assert walked(data + b"\xff" * 3000).end == len(data)


def test_a_pickle_may_begin_anywhere():
    file = Counting(bytes(5000) + pickle.dumps(7) + pickle.dumps([8]))
    first = walk(file, 5000)
    assert (first.value, walk(file, first.end).value) == (7, [8])


@every_protocol
def test_every_cut_is_told_as_one(protocol):
    data = pickle.dumps([PLAIN, datetime.timedelta(3), b"bytes", len], protocol)
    assert {ends(data[:count]) for count in range(len(data))} == {Cut}


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_every_end_of_zeros_fails(protocol):
    data = pickle.dumps([PLAIN, datetime.timedelta(3)], protocol)
    kinds = {ends(data[:count] + bytes(len(data) - count)) for count in range(len(data))}
    assert kinds <= {Cut, Damaged}


class Slotted:
    """An object whose attributes are in slots."""

    __slots__ = ("left", "right")

    def __init__(self):
        self.left, self.right = 1, [2]


class Common:
    """An object with a dict."""

    def __init__(self):
        self.left, self.right = 1, [2]


class Listed(list):
    """A list with more."""


class Keyed(dict):
    """A dict with more."""


@pytest.mark.parametrize(
    ("kind", "protocol"), [*((Common, protocol) for protocol in range(6)), (Slotted, 2), (Slotted, 4)]
)
def test_an_object_is_its_class_by_name_with_its_state(kind, protocol):
    found = value_of(pickle.dumps(kind(), protocol))
    assert (type(found), found.module, found.name) == (Inert, __name__, kind.__name__)
    assert dict(found.fields()) == {"left": 1, "right": [2]}


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_what_is_put_into_an_object_is_kept(protocol):
    assert value_of(pickle.dumps(Listed([1, 2]), protocol)).items == [1, 2]
    assert value_of(pickle.dumps(Keyed(a=1, b=2), protocol)).items == [("a", 1), ("b", 2)]
    assert value_of(pickle.dumps(Listed([1]), protocol)).items == [1]
    assert value_of(pickle.dumps(Keyed(a=1), protocol)).items == [("a", 1)]


def test_a_call_is_its_function_with_its_arguments():
    found = value_of(pickle.dumps(datetime.timedelta(3)))
    assert (found.module, found.name, found.args) == ("datetime", "timedelta", (3, 0, 0))
    (itself,) = value_of(pickle.dumps([datetime.timedelta]))
    assert (itself.name, itself.args) == ("timedelta", None)


def test_an_object_of_the_first_protocols_is_known_by_its_class():
    assert value_of(b"(ios\nsystem\np0\n.").name == "system"
    assert value_of(b"(cos\nsystem\nS'ls'\no.").args == ("ls",)
    assert value_of(b"\x80\x02cos\nsystem\n(I1\nI01\nt}U\1aK\1s\x92.").args == ((1, True), {"a": 1})


class Far(NamedTuple):
    """Something that is not in the pickle."""

    number: int


class FarPickler(pickle.Pickler):
    """Leaves it out."""

    def persistent_id(self, value):
        """Of what is far."""
        return ("storage", value.number) if isinstance(value, Far) else None


@pytest.mark.parametrize("protocol", range(1, 6))
def test_persistent_ids_are_kept_in_their_order(protocol):
    file = io.BytesIO()
    FarPickler(file, protocol).dump([Far(1), [Far(2), Far(1)]])
    found = walked(file.getvalue())
    assert found.persistent_ids == [("storage", 1), ("storage", 2), ("storage", 1)]
    assert (type(found.value[0]), found.value[1][0].id) == (Persistent, ("storage", 2))


def test_a_persistent_id_of_the_first_protocol_is_a_line():
    assert walked(b"Pname\n.").persistent_ids == ["name"]


def test_keys_of_any_kind_are_kept_and_none_is_hashed_that_could_be_slow():
    deep = Codes(b")" + b"2\x86" * 60)
    data = pickled({(1, 2): 3, deep: 4, 2**61 - 1: 5, Codes(b"C\1b"): 6, Global("a", "b"): 7})
    begun_s = time.perf_counter()
    found = value_of(data)
    assert time.perf_counter() - begun_s < 1.0
    assert sorted(found.values()) == [3, 4, 5, 6, 7]
    assert [key.args for key, value in found.items() if value == 3] == [((1, 2),)]
    assert [key.args for key, value in found.items() if value == 5] == [(2**61 - 1,)]
    assert found[b"b"] == 6


def test_what_is_long_is_jumped_over_and_not_read():
    for long in ("x" * 3_000_000, b"x" * 3_000_000, bytearray(3_000_000), 1 << 20_000_000):
        data = pickle.dumps(["before", long, "after"], 5)
        file = Counting(data)
        before, skipped, after = walk(file).value
        assert (before, after, type(skipped)) == ("before", "after", Skipped)
        assert 2_000_000 < skipped.bytes < 3_000_100
        assert file.read_bytes < 10_000


def test_a_long_line_of_text_is_read_and_not_held():
    begin, skipped = value_of(b"(lp0\nVa\naV" + b"x" * 3_000_000 + b"\na.")
    assert (begin, skipped.bytes) == ("a", 3_000_000)


@pytest.mark.parametrize("length", [*range(4080, 4110), 8191, 8192, 70_000])
def test_texts_of_every_length_end_where_they_should(length):
    for before in (0, 1500, 2040):
        value = ["b" * before, "x" * length, "after"]
        for data in (pickle.dumps(value, 0), pickle.dumps(value, 4)):
            found = walked(data)
            assert found.end == len(data)
            assert found.value[2] == "after"
            kept = found.value[1]
            assert kept == "x" * length if length <= 4096 else kept.bytes == length


def test_values_that_contain_themselves_are_walked():
    loop: list[object] = []
    loop.append(loop)
    found = value_of(pickle.dumps(loop))
    assert found[0] is found


@pytest.mark.parametrize("code", [b"\x85", b"]\x86", b"}\x86", b"cos\nsystem\n\x86", b")R"], ids=repr)
def test_any_depth_is_walked_and_let_go(code):
    found = value_of(b"\x80\x02cos\nsystem\n" + code * 200_000 + b".")
    assert found is not None
    del found


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", Cut),
        (b"\0", Damaged),
        (b"\x80\x04\0", Damaged),
        (b"\x80\x06N.", Unsupported),
        (b".", Damaged),
        (b"h\7.", Damaged),
        (b"j\0\0\0\1.", Damaged),
        (b"0N.", Damaged),
        (b"t.", Damaged),
        (b"N]a.", Damaged),
        (b"K\1K\2s.", Damaged),
        (b"N\x86.", Damaged),
        (b"K\1K\1\x93.", Damaged),
        (b"Ix\n.", Damaged),
        (b"Fx\n.", Damaged),
        (b"S'a\n.", Damaged),
        (b"gx\n.", Damaged),
        (b"X\1\0\0\0\xff.", Damaged),
        (b"X\xff\xff\xff\xffa.", Cut),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffa.", Cut),
        (b"\x96\xff\xff\xff\xff\xff\xff\xff\x7fa.", Cut),
        (b"\x8b\xff\xff\xff\x7f.", Cut),
        (b"\x80\4\x95\3\0\0\0\0\0\0\0N.", Cut),
        (b"\x80\4\x95\3\0\0\0\0\0\0\0N.NN", Damaged),
        (b"\x80\4\x95\x0c\0\0\0\0\0\0\0N\x95\3\0\0\0\0\0\0\0NNN.", Damaged),
    ],
    ids=lambda one: repr(one) if isinstance(one, bytes) else "",
)
def test_a_failure_says_of_which_kind_it_is(data, kind):
    assert ends(data) is kind


@pytest.mark.parametrize("index", [0, 1, 7, 1000, 2000, 2**31, 2**32 - 1])
def test_the_memo_takes_no_memory_by_a_number_in_the_file(index):
    data = b"\x80\x02K\x05r" + struct.pack("<I", index) + b"0j" + struct.pack("<I", index) + b"."
    if index <= 1000:
        assert value_of(data) == 5
    else:
        assert ends(data) is Unsupported


def test_what_is_too_much_is_left():
    assert ends(b"\x80\4" + b"N0" * 5000 + b"N.", Budget(opcodes=10_000)) is TooBig
    assert ends(b"\x80\4" + b"\x8f" * 9000 + b".", Budget(memory=1 << 20)) is TooBig
    assert ends(b"V" + b"a" * 90_000 + b"\n.", Budget(bytes=1 << 15)) is TooBig
    assert ends(b"\x80\4(" + (b"B\0\0\1\0" + bytes(65_536)) * 20 + b"t.", Budget(jumps=19)) is TooBig
    assert ends(b"\x80\4(" + (b"B\0\0\1\0" + bytes(65_536)) * 20 + b"t.", Budget(jumps=20)) is None


HOSTILE = {
    "one list copied by every opcode": Codes(
        b"ccollections\nOrderedDict\nq\0](" + b"]" * 40_000 + b"eq\1" + b"h\0h\1\x85R0" * 60_000 + b"N"
    ),
    "one set copied by every opcode": Codes(
        b"cbuiltins\nset\nq\0](" + b"K\1" * 40_000 + b"eq\1" + b"h\0h\1\x85R0" * 60_000 + b"N"
    ),
    "keys of one hash": Codes(b"}(" + b"".join(opcodes((2**61 - 1) * n) + b"N" for n in range(90_000)) + b"u"),
    "tuples of themselves": Codes(b"N" + b"2\x86" * 100_000 + b"q\0}h\0Ns"),
    "items for a function": Codes(b"cos\nsystem\n" + b"NNs" * 90_000),
    "one great state": Codes(
        b"cos\nsystem\nq\0}(" + b"".join(opcodes(n) + b"N" for n in range(40_000)) + b"uN\x86q\1b" + b"h\1b" * 90_000
    ),
    "marks": Codes(b"(1" * 200_000 + b"N"),
    "digits": Codes((b"L" + b"9" * 4000 + b"L\n0") * 900 + b"N"),
}  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_no_bytes_take_long(value):
    begun_s = time.process_time()
    ends(pickled(value), Budget(opcodes=500_000))
    assert time.process_time() - begun_s < 5.0


class Runs:
    """Runs something as it is loaded."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@every_protocol
def test_nothing_in_a_pickle_is_run_or_imported(tmp_path, protocol):
    trace = tmp_path / "trace"
    evil = [
        Runs(os.system, f"touch {trace}"),
        Runs(builtins.exec, f"open({str(trace)!r}, 'w')"),
        Runs(builtins.eval, f"open({str(trace)!r}, 'w')"),
        Runs(getattr, Runs(__import__, "antigravity"), "x"),
        Runs(open, str(trace), "w"),
    ]

    class Pickler(pickle._Pickler):
        """With ids that run something, too."""

        def persistent_id(self, value):
            """Of one text."""
            return (evil[0], evil[1]) if value == "elsewhere" and self.bin else None

    file = io.BytesIO()
    Pickler(file, protocol).dump([*evil, "elsewhere", {"key": evil[0]}, (evil[1],), Keyed(a=evil[2])])
    known = set(sys.modules)
    found = walked(file.getvalue())
    assert [one.name for one in found.value[:5]] == ["system", "exec", "eval", "getattr", "open"]
    assert not trace.exists()
    assert set(sys.modules) == known
    pickle.loads(pickle.dumps(evil[0], protocol))  # it would have
    assert trace.exists()


def test_a_name_of_a_module_that_is_not_there_is_only_a_name():
    found = value_of(
        pickled(Call(Global("no.such.module", "thing"), (Built(Global("neither", "this"), {"a": 1}),)))
    )
    assert (found.module, found.name, found.args[0].fields()) == ("no.such.module", "thing", {"a": 1})


def test_raw_bytes_may_stand_behind_an_object():
    data = pickled([Built(Global("a", "Array"), {"n": 5000}, b"\0" * 5000), "after"])

    def behind(built, at):
        return at + built.fields()["n"]

    found = walked(data, after_build=behind)
    assert (found.value[1], found.end) == ("after", len(data))
    assert ends(data) is Damaged
    with pytest.raises(Cut):
        walked(data[:4000], after_build=behind)
    with pytest.raises(Damaged):
        walked(data, after_build=lambda _, at: at - 1)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickles_that_were_made_smaller_are_walked(protocol):
    data = pickletools.optimize(pickle.dumps([PLAIN, Common()], protocol))
    assert walked(data).end == len(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(VALUES, st.integers(3, 5))
def test_any_plain_value_arrives_as_it_is(value, protocol):
    data = pickle.dumps(value, protocol)
    assert walked(data)[:2] == (value, len(data))


WHOLE = pickle.dumps([PLAIN, Common(), datetime.timedelta(3), len], 4)


@given(st.binary(max_size=60), st.integers(0, len(WHOLE)))
def test_no_bytes_raise_anything_else(noise, at):
    assert ends(WHOLE[:at] + noise + WHOLE[at + len(noise) :]) in (None, Cut, Damaged, TooBig, Unsupported)
    assert ends(noise) in (None, Cut, Damaged, TooBig, Unsupported)


def test_a_file_that_shrinks_while_it_is_walked_is_cut():
    class Shrinking(Counting):
        """Half of what it says is there."""

        def read_at(self, offset, count):
            """Nothing behind the middle."""
            half = self.size // 2
            return super().read_at(offset, min(count, half - offset)) if offset < half else b""

    with pytest.raises(Cut):
        walk(Shrinking(pickle.dumps(list(range(100_000)))))


def test_a_large_one_is_walked_fast():
    data = pickle.dumps([{"name": f"layer.{n}", "shape": (n, 1), "parts": [Common()]} for n in range(20_000)])
    begun_s = time.process_time()
    assert len(value_of(data)) == 20_000
    assert time.process_time() - begun_s < 3.0


def test_keys_that_could_be_chosen_to_collide_are_no_keys_of_a_dict():
    value = value_of(pickle.dumps({2**40: 1, -5: 2, 2.0**70: 3, 7: 4}))
    assert [type(key).__name__ for key in value] == ["Inert", "Inert", "Inert", "int"]
