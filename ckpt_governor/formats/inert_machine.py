"""The stack, the memo and the marks of a pickle that is walked, and what the opcodes do with them."""

from __future__ import annotations

import struct
from collections import ChainMap
from collections.abc import Callable, Mapping
from itertools import repeat
from operator import length_hint

from ckpt_governor.formats.inert_bytes import Cut, Damaged, Skipped, TooBig, Unsupported, Window

_PROTOCOL_MAX = 5
_PLAIN_KEY_BELOW = 4096
"""Numbers can be chosen so that a dict looks for each at the places of all others; of so few that costs nothing."""
_UNUSED_MAX = 1024
"""Numbers of the memo that are left out."""
_DICTS = frozenset(["OrderedDict", "defaultdict", "dict"])
_BUILT_IN = frozenset(["builtins", "__builtin__", "collections"])
_RECONSTRUCTORS = frozenset([("copyreg", "_reconstructor"), ("copy_reg", "_reconstructor")])

# What one more value takes, rather too much than too little.
PLACE, SMALL, ENTRY, TABLE, OBJECT = 10, 64, 128, 256, 128


class Inert:
    """A global, or what a call of one would have made."""

    __slots__ = ("args", "born", "items", "module", "name", "state")

    def __init__(self, module: str, name: str, args: object = None) -> None:
        self.module = module
        self.name = name
        self.args = args
        self.state: object = None
        self.items: list[object] | None = None
        self.born: tuple[int, int] | None = None
        """What was held and remembered when it was begun, where that is asked."""

    def fields(self) -> Mapping[object, object]:
        """Its attributes, as far as its state tells them by name. Not copied: one state may be that of very many."""
        state = self.state
        if type(state) is dict:
            return state
        if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:  # of a class with slots
            return ChainMap(state[1], state[0]) if type(state[0]) is dict else state[1]
        return {}


class Persistent:
    """What the pickle says is somewhere else, by this id."""

    __slots__ = ("id",)

    def __init__(self, id: object) -> None:
        self.id = id


AfterBuild = Callable[[Inert, int], int]
Opcodes = Mapping[int, Callable[["Machine"], object]]


class Machine:
    """The stack, the memo and the marks of one pickle."""

    def __init__(self, window: Window, after_build: AfterBuild | None) -> None:
        self.window = window
        self.after_build = after_build
        self.stack: list[object] = []
        self.memo: list[object] = []
        self.unused = 0
        self.marks: list[int] = []
        self.persistent_ids: list[object] = []
        self.held = 0
        self.frame_end = 0
        self.value: object = None

    def go_on(self, others: Opcodes, opcodes: int) -> bool:
        """As ``run``; what goes wrong is told apart. Raises Failure and OSError."""
        if self.window.budget.opcodes <= 0:
            raise TooBig
        try:
            return self.run(others, opcodes)
        except (IndexError, KeyError, ValueError, struct.error):
            if self.window.is_past_end():
                raise Cut from None
            raise Damaged(self.window.position()) from None

    def run(self, others: Opcodes, opcodes: int) -> bool:
        """So many opcodes further; whether it came to the end, which leaves the ``value``. What one call did not reach
        the next one goes on with. The opcodes of which pickles have most are here, for speed; the others in a table.
        """
        window, stack, memo = self.window, self.stack, self.memo
        push, remember, u32 = stack.append, memo.append, struct.Struct("<I").unpack_from
        data, at, limit = window.data, window.at, window.limit
        allowed = max(0, min(opcodes, window.budget.opcodes))
        left = repeat(None, allowed)
        try:
            for _ in left:
                if at >= limit:
                    window.at = at
                    self.check_memory()
                    window.move_on()
                    data, at, limit = window.data, window.at, window.limit
                code = data[at]
                at += 1
                if code == 0x94:  # MEMOIZE
                    remember(stack[-1])
                elif code == 0x68:  # BINGET
                    at += 1
                    push(memo[data[at - 1]])
                elif code == 0x6A:  # LONG_BINGET
                    at += 4
                    push(memo[u32(data, at - 4)[0]])
                elif code == 0x4B:  # BININT1
                    at += 1
                    push(data[at - 1])
                elif code == 0x85:  # TUPLE1
                    self.held += SMALL
                    stack[-1] = (stack[-1],)
                elif code == 0x28:  # MARK
                    self.marks.append(len(stack))
                elif code == 0x2E:  # STOP
                    window.at = at
                    self.stop()
                    return True
                else:
                    window.at = at
                    others[code](self)
                    data, at, limit = window.data, window.at, window.limit
            window.at = at
            self.check_memory()
        except (IndexError, KeyError):
            if window.data is data:
                window.at = max(at, window.at)
            raise
        finally:  # what a pickle inside this one spent has been counted down already
            window.budget.opcodes -= allowed - length_hint(left)
        return False

    def check_memory(self) -> None:
        """As the window moves: between two times no more can come than a window has opcodes."""
        held = self.held + PLACE * (len(self.memo) + len(self.stack) + len(self.marks))
        if held > self.window.budget.memory:
            raise TooBig

    def stop(self) -> None:
        """Takes the value that is left."""
        if self.window.is_past_end():
            raise Cut
        if self.window.position() < self.frame_end:
            raise Damaged(self.window.position())
        self.value = self.stack.pop()

    def above_mark(self) -> list[object]:
        """What is on the stack since the last mark, taken off."""
        mark = self.marks.pop()
        taken = self.stack[mark:]
        del self.stack[mark:]
        return taken

    def frame(self) -> None:
        """A frame must fit into the file, and begins where the former has ended."""
        length = self.window.u64()
        if self.window.is_past_end() or self.window.position() + length > self.window.size:
            raise Cut
        if self.window.position() - 9 < self.frame_end:
            raise Damaged(self.window.position())
        self.frame_end = self.window.position() + length

    def protocol(self) -> None:
        """The number of the protocol, which may stand anywhere."""
        number = self.window.data[self.window.at]
        self.window.at += 1
        if number > _PROTOCOL_MAX:
            raise Unsupported("it is a pickle of a newer sort and cannot be checked")

    def text(self, count: int, encoding: str = "utf-8") -> None:
        """A text of so many bytes."""
        data = self.payload(count, 4)
        self.stack.append(data if isinstance(data, Skipped) else data.decode(encoding, "surrogatepass"))

    def raw(self, count: int) -> None:
        """So many bytes."""
        self.stack.append(self.payload(count, 1))

    def number(self, count: int) -> None:
        """A whole number of so many bytes."""
        data = self.payload(count, 2)
        number = data if isinstance(data, Skipped) else int.from_bytes(data, "little", signed=True)
        self.stack.append(number)

    def payload(self, count: int, cost: int) -> bytes | Skipped:
        """So many bytes of the file, each of which takes so much."""
        data = self.window.payload(count)
        self.held += SMALL
        if isinstance(data, Skipped):
            self.check_memory()
        else:
            self.held += cost * count
        return data

    def put(self, value: object, cost: int = SMALL) -> None:
        """A value on the stack, with what it takes."""
        self.held += cost
        self.stack.append(value)

    def remember(self, index: int) -> None:
        """What is on top, under this number. They are given one after another; Python 2 began with one."""
        memo = self.memo
        if index == len(memo):
            memo.append(self.stack[-1])
            return
        self.unused += max(0, index - len(memo))
        if index < 0 or self.unused > _UNUSED_MAX:
            raise Unsupported("it is a pickle of an unusual sort and cannot be checked")
        memo.extend(repeat(None, max(0, index + 1 - len(memo))))
        memo[index] = self.stack[-1]

    def line(self) -> str | Skipped:
        """The text up to the end of the line, its escapes as they are."""
        line = self.window.line()
        if isinstance(line, Skipped):
            return line
        self.held += SMALL + len(line)
        return line.decode("latin-1")

    def made(self, maker: object, args: object) -> None:
        """What a call would have made."""
        made: object
        if type(maker) is not Inert:
            made = Inert("", "", args)
        elif maker.args is None and maker.module in _BUILT_IN and maker.name in _DICTS:
            made = self.filled({}, args) if maker.name != "defaultdict" else {}
        elif maker.args is None and maker.module in _BUILT_IN and maker.name in ("set", "frozenset"):
            made = self.collected(args)
        elif (maker.module, maker.name) in _RECONSTRUCTORS and type(args) is tuple and args:
            known = args[0]
            made = (
                Inert(known.module, known.name, args[1:]) if isinstance(known, Inert) else Inert("", "", args)
            )
        else:
            made = Inert(maker.module, maker.name, args)
        self.put(made, OBJECT)

    def filled(self, table: dict[object, object], args: object) -> object:
        """A dict that was made of a list of pairs, as Python 2 wrote it, or of another dict."""
        first = args[0] if type(args) is tuple and args else None
        if type(first) is dict:
            self.pay(len(first))
            table.update(first)
        elif type(first) is list or type(first) is tuple:
            self.pay(len(first))
            for pair in first:
                if (type(pair) is list or type(pair) is tuple) and len(pair) == 2:
                    table[self.key(pair[0])] = pair[1]
        return table

    def collected(self, args: object) -> object:
        """A set that was made of a list."""
        first = args[0] if type(args) is tuple and args else None
        if type(first) is not list and type(first) is not tuple:
            return set()
        self.pay(len(first))
        return {self.key(one) for one in first}

    def pay(self, count: int) -> None:
        """For so many entries that are copied at one stroke: one list in the memo can be copied by every opcode."""
        self.held += ENTRY * count
        self.check_memory()

    def key(self, value: object) -> object:
        """As a key whose hash costs next to nothing."""
        kind = type(value)
        if kind is str or kind is bytes or kind is Inert or kind is bool or value is None:
            return value
        if kind is int and 0 <= value < _PLAIN_KEY_BELOW:  # type: ignore[operator]
            return value
        self.held += OBJECT
        return Inert("", "key", (value,))

    def set_items(self, pairs: list[object]) -> None:
        """Keys and values into what is on top."""
        self.held += ENTRY * len(pairs)
        target = self.stack[-1]
        if type(target) is dict:
            key = self.key
            for index in range(0, len(pairs) - 1, 2):
                target[key(pairs[index])] = pairs[index + 1]
        elif type(target) is Inert:
            target.items = target.items or []
            target.items.extend(zip(pairs[::2], pairs[1::2], strict=False))
        elif type(target) is not Persistent:
            raise ValueError

    def add_items(self, values: list[object]) -> None:
        """Elements into what is on top."""
        self.held += ENTRY * len(values)
        target = self.stack[-1]
        if type(target) is list:
            target.extend(values)
        elif type(target) is set:
            target.update(map(self.key, values))
        elif type(target) is Inert:
            target.items = target.items or []
            target.items.extend(values)
        elif type(target) is not Persistent:
            raise ValueError

    def build(self) -> None:
        """The state of what is on top; then joblib's bytes may follow."""
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is not Inert:
            return
        target.state = state
        if self.after_build is not None:
            here = self.window.position()
            if here > self.window.size:
                raise Cut
            there = self.after_build(target, here)
            if there < here:
                raise ValueError
            self.window.jump(there)
            self.check_memory()

    def persistent(self, id: object) -> None:
        """Something that is somewhere else."""
        self.persistent_ids.append(id)
        self.put(Persistent(id), OBJECT)

    def fixed(self, layout: struct.Struct) -> None:
        """A number of a fixed length."""
        (number,) = layout.unpack_from(self.window.data, self.window.at)
        self.window.at += layout.size
        self.put(number)

    def top(self, count: int) -> None:
        """The topmost values as a tuple."""
        if len(self.stack) < count:
            raise IndexError
        taken = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.put(taken)

    def called(self) -> None:
        """A call of what is below the arguments."""
        args = self.stack.pop()
        self.made(self.stack.pop(), args)
