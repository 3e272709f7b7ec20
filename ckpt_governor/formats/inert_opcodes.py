"""What each opcode of a pickle does to the machine; the most frequent ones are in the machine itself."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ckpt_governor.formats.inert_machine import OBJECT, TABLE, Inert, Machine


def _word(value: object) -> str:
    """The module or name of a global."""
    if type(value) is not str:
        raise ValueError
    return value


def _index(text: object) -> int:
    """The number of something remembered."""
    index = int(_word(text))
    if index < 0:
        raise ValueError
    return index


def _extension(machine: Machine, count: int) -> None:
    """A global that is registered by a number in the program that wrote it."""
    machine.number(count)
    machine.put(Inert("copyreg", "extension", (machine.stack.pop(),)), OBJECT)


def _whole_number_line(machine: Machine) -> None:
    """A whole number as text; ``00`` and ``01`` are the truth values of protocol 0."""
    text = machine.line()
    if isinstance(text, str):
        machine.put({"00": False, "01": True}[text] if text in ("00", "01") else int(text.rstrip("L")))
    else:
        machine.put(text)


def _fraction_line(machine: Machine) -> None:
    """A number with a fraction as text."""
    text = machine.line()
    machine.put(float(text) if isinstance(text, str) else text)


def _quoted_line(machine: Machine) -> None:
    """A text of Python 2 between quotes."""
    text = machine.line()
    if isinstance(text, str):
        if len(text) < 2 or text[0] != text[-1] or text[0] not in "\"'":
            raise ValueError
        text = text[1:-1]
    machine.put(text)


def _new_with_words(machine: Machine) -> None:
    """A new object of a class with arguments by place and by name."""
    words, args, maker = machine.stack.pop(), machine.stack.pop(), machine.stack.pop()
    machine.made(maker, (args, words))


def _instance(machine: Machine) -> None:
    """An object of protocol 0: its class follows on two lines."""
    args = tuple(machine.above_mark())
    module, name = machine.line(), machine.line()
    machine.made(Inert(_word(module), _word(name)), args)


def _called_from_mark(machine: Machine) -> None:
    """An object of protocol 0 or 1: its class lies above the mark."""
    taken = machine.above_mark()
    machine.made(taken[0], tuple(taken[1:]))


def _named_on_stack(machine: Machine) -> None:
    """A global whose module and name are the topmost values."""
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.put(Inert(_word(module), _word(name)), OBJECT)


def _named(machine: Machine) -> None:
    """A global, its module and its name on two lines."""
    module, name = machine.line(), machine.line()
    machine.put(Inert(_word(module), _word(name)), OBJECT)


def _pop(machine: Machine) -> None:
    """Off with the topmost value, or with a mark that lies above it."""
    if machine.marks and machine.marks[-1] == len(machine.stack):
        machine.marks.pop()
    else:
        machine.stack.pop()


def _one_item(machine: Machine) -> None:
    """A key and a value."""
    value = machine.stack.pop()
    machine.set_items([machine.stack.pop(), value])


def _paired(machine: Machine) -> None:
    """A dict of what lies above the mark."""
    pairs = machine.above_mark()
    machine.put({}, TABLE)
    machine.set_items(pairs)


def _collection(machine: Machine) -> None:
    """A frozenset of what lies above the mark."""
    values = machine.above_mark()
    machine.put(set(), TABLE)
    machine.add_items(values)


_DOUBLE, _INT = struct.Struct(">d"), struct.Struct("<i")
OPCODES: dict[int, Callable[[Machine], object]] = {
    ord("0"): _pop,
    ord("1"): Machine.above_mark,
    ord("2"): lambda machine: machine.put(machine.stack[-1], 0),
    ord("F"): _fraction_line,
    ord("I"): _whole_number_line,
    ord("J"): lambda machine: machine.fixed(_INT),
    ord("L"): _whole_number_line,
    ord("M"): lambda machine: machine.put(machine.window.u16()),
    ord("N"): lambda machine: machine.put(None, 0),
    ord("P"): lambda machine: machine.persistent(machine.line()),
    ord("Q"): lambda machine: machine.persistent(machine.stack.pop()),
    ord("R"): Machine.called,
    ord("S"): _quoted_line,
    ord("T"): lambda machine: machine.text(machine.window.u32(), "latin-1"),
    ord("U"): lambda machine: machine.text(machine.window.u8(), "latin-1"),
    ord("V"): lambda machine: machine.put(machine.line()),
    ord("X"): lambda machine: machine.text(machine.window.u32()),
    ord("B"): lambda machine: machine.raw(machine.window.u32()),
    ord("C"): lambda machine: machine.raw(machine.window.u8()),
    ord("G"): lambda machine: machine.fixed(_DOUBLE),
    ord("]"): lambda machine: machine.put([]),
    ord("a"): lambda machine: machine.add_items([machine.stack.pop()]),
    ord("b"): Machine.build,
    ord("c"): _named,
    ord("d"): _paired,
    ord("e"): lambda machine: machine.add_items(machine.above_mark()),
    ord("g"): lambda machine: machine.put(machine.memo[_index(machine.line())], 0),
    ord("i"): _instance,
    ord("l"): lambda machine: machine.put(machine.above_mark()),
    ord("o"): _called_from_mark,
    ord("p"): lambda machine: machine.remember(int(_word(machine.line()))),
    ord("q"): lambda machine: machine.remember(machine.window.u8()),
    ord("r"): lambda machine: machine.remember(machine.window.u32()),
    ord("s"): _one_item,
    ord("t"): lambda machine: machine.put(tuple(machine.above_mark())),
    ord("u"): lambda machine: machine.set_items(machine.above_mark()),
    ord(")"): lambda machine: machine.put((), 0),
    ord("}"): lambda machine: machine.put({}),
    0x80: Machine.protocol,
    0x81: Machine.called,
    0x82: lambda machine: _extension(machine, 1),
    0x83: lambda machine: _extension(machine, 2),
    0x84: lambda machine: _extension(machine, 4),
    0x86: lambda machine: machine.top(2),
    0x87: lambda machine: machine.top(3),
    0x88: lambda machine: machine.put(True, 0),
    0x89: lambda machine: machine.put(False, 0),
    0x8A: lambda machine: machine.number(machine.window.u8()),
    0x8B: lambda machine: machine.number(machine.window.u32()),
    0x8C: lambda machine: machine.text(machine.window.u8()),
    0x8D: lambda machine: machine.text(machine.window.u64()),
    0x8E: lambda machine: machine.raw(machine.window.u64()),
    0x8F: lambda machine: machine.put(set(), TABLE),
    0x90: lambda machine: machine.add_items(machine.above_mark()),
    0x91: _collection,
    0x92: _new_with_words,
    0x93: _named_on_stack,
    0x95: Machine.frame,
    0x96: lambda machine: machine.raw(machine.window.u64()),
    0x97: lambda machine: machine.put(Inert("", "buffer"), OBJECT),
    0x98: lambda machine: machine.stack[-1],
}
"""By the byte of the opcode; those that ``Machine.run`` has itself are not here."""
