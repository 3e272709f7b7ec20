"""Walks a pickle of very many alike objects, in pieces of time and in little memory: each is told, then forgotten.

An index of a hundred thousand entries is nothing but such objects. Whoever asks is told of each object as soon as it
has its state, and says what is to stand in its place from then on: the object itself, something small, or
``FORGOTTEN``. What was made for the object alone goes with it, out of the memo as well; only texts and globals stay, of
which later objects make use. Who comes back to a forgotten part finds ``FORGOTTEN`` there, which is no fault of the
pickle. A list or a dict holds no forgotten elements.
"""

from __future__ import annotations

from collections.abc import Callable

from ckpt_governor.formats.inert_bytes import Budget, Window
from ckpt_governor.formats.inert_machine import OBJECT, SMALL, Inert, Machine
from ckpt_governor.formats.inert_opcodes import OPCODES
from ckpt_governor.formats.interface import OpenFile

_OPCODES_AT_ONCE = 50_000
"""Some hundredths of a second."""


class Forgotten:
    """In the place of what was told and forgotten."""

    __slots__ = ()


FORGOTTEN = Forgotten()
Told = Callable[[Inert, object], object]
"""Takes an object and what lies below it on the stack, which for a value of a dict is its key; gives what stays."""


class Stream(Machine):
    """One pickle, walked as long as somebody has time."""

    def __init__(self, file: OpenFile, told: Told, budget: Budget) -> None:
        super().__init__(Window(file, 0, budget), None)
        self.told = told

    def walk(self, file: OpenFile, check_time: Callable[[], None]) -> object:
        """The value. ``file`` is the same one, opened again. Raises what ``check_time`` and ``told`` raise, after which
        it may be called again, Failure and OSError."""
        self.window.file = file
        while not self.go_on(_OPCODES, _OPCODES_AT_ONCE):
            check_time()
        return self.value

    def newborn(self) -> None:
        """A new object: what comes from here on to its state is its own."""
        args = self.stack.pop()
        maker = self.stack.pop()
        if type(maker) is not Inert:
            self.made(maker, args)
            return
        born = Inert(maker.module, maker.name, args)
        born.born = self.held, len(self.memo)
        self.put(born, OBJECT)

    def built(self) -> None:
        """It has its state."""
        self.build()
        born = self.stack[-1]
        if type(born) is not Inert or born.born is None:
            return
        place = self.told(born, self.stack[-2] if len(self.stack) > 1 else None)
        if place is not born:
            self.stack[-1] = place
            self.forget(*born.born)

    def forget(self, held: int, begin: int) -> None:
        """All that was remembered from this number on, but for what others may use."""
        memo = self.memo

        for index in range(begin, len(memo)):
            value = memo[index]
            if type(value) is str or type(value) is bytes:
                held += SMALL + 4 * len(value)
            elif type(value) is Inert and value.args is None:
                held += OBJECT
            else:
                memo[index] = FORGOTTEN
        self.held = held

    def set_items(self, pairs: list[object]) -> None:
        """Keys and values into what is on top."""
        if FORGOTTEN in pairs[1::2]:
            both = zip(pairs[::2], pairs[1::2], strict=False)
            pairs = [one for pair in both if pair[1] is not FORGOTTEN for one in pair]
        super().set_items(pairs)

    def add_items(self, values: list[object]) -> None:
        """Elements into what is on top."""
        super().add_items([value for value in values if value is not FORGOTTEN])


def _newborn(machine: Machine) -> None:
    assert isinstance(machine, Stream)
    machine.newborn()


def _built(machine: Machine) -> None:
    assert isinstance(machine, Stream)
    machine.built()


_OPCODES = {**OPCODES, 0x81: _newborn, ord("b"): _built}
