"""The index of torch.distributed.checkpoint: which files it names, and how long each of them must be.

It is a pickle, walked and never made. It tells of each stored item in which file it lies, from where and how long. That
of a large model on very many ranks has hundreds of thousands of items: so it is read in pieces of time, from look to
look, and of an item nothing stays but what it says of its file.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ckpt_governor.formats.inert import Budget, Failure, Inert, TooBig, Unsupported
from ckpt_governor.formats.inert_stream import FORGOTTEN, Stream
from ckpt_governor.formats.interface import Member, OpenFile, TakesLong

_OPCODES_MAX = 100_000_000
_BYTES_MAX = 256 << 20
_MEMORY_MAX = 96 << 20
"""About half a million items, which are told by some seventy opcodes and a hundred and fifty bytes each."""
_FILE_BYTES_MAX = 1 << 4096
"""Python refuses to print a number of very many digits, and no file system holds as much."""
_REMEMBERED_INDEXES = 16
_REMEMBERED_SHARDS = 20_000
_SHARDS_MAX = 100_000
_ABANDONED_S = 20.0
"""Nobody has gone on with an index for so long: its copy is gone, or was replaced."""

Key = tuple[object, ...]
Open = Callable[[], OpenFile]


class Item(NamedTuple):
    """One tensor or object as the index tells it."""

    shard: str
    offset: int
    length: int
    name: str


class Shard:
    """One file of the copy as the index tells it."""

    __slots__ = ("bytes", "last_at")

    def __init__(self, bytes: int = 0) -> None:
        self.bytes = bytes
        """Where its last item ends."""
        self.last_at = 0
        """Where its last item begins."""


class Index:
    """What was read of one index, and what was seen of the files that it names."""

    def __init__(self, shards: dict[str, Shard], failure: Failure | None = None) -> None:
        self.shards = shards
        self.failure = failure
        """Why it could not be read; then it names no shard."""
        self.whole_ns: int | None = None
        """The latest time of a shard when all of them belonged to this index beyond doubt; None when never seen so."""
        self.archives = False
        """Whether an item was seen that is an archive; then all are."""
        self.ended: dict[str, Member] = {}
        """The shards whose end was read, as they were then."""


class Indexes:
    """The last indexes that were read: to read one takes its time, and a copy is judged at every change in it."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, Index] = OrderedDict()
        self._begun: _Begun | None = None

    def get(self, key: Key, open_index: Open, check_time: Callable[[], None]) -> Index:
        """The index with this identity; read only when it is not remembered.

        Raises OSError, and TakesLong when there is no time to read it to its end: whoever comes again with the same
        key goes on where it was left. One is read at a time, for memory, and the others wait.
        """
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = self._read(key, open_index, check_time)
            while len(self._known) > 1 and self._too_many():
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return index

    def _read(self, key: Key, open_index: Open, check_time: Callable[[], None]) -> Index:
        begun = self._begun
        if begun is not None and begun.key != key:
            if time.monotonic() - begun.went_on_s < _ABANDONED_S:
                raise TakesLong
            begun = None
        self._begun = begun = begun or _Begun(key)
        failure = None
        try:
            with open_index() as file:
                begun.reading.go_on(file, check_time)
        except Failure as why:
            failure, begun.shards = why.with_traceback(None), {}
        except TakesLong:
            begun.went_on_s = time.monotonic()
            raise
        except BaseException:
            self._begun = None
            raise
        self._begun = None
        return Index(begun.shards, failure)

    def _too_many(self) -> bool:
        total = sum(len(index.shards) for index in self._known.values())
        return len(self._known) > _REMEMBERED_INDEXES or total > _REMEMBERED_SHARDS


class _Begun:
    """The index that is being read."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.shards: dict[str, Shard] = {}
        self.reading = Reading(self._add)
        self.went_on_s = time.monotonic()

    def _add(self, item: Item) -> None:
        shard = self.shards.get(item.shard)
        if shard is None:
            if len(self.shards) >= _SHARDS_MAX:
                raise TooBig
            shard = self.shards[item.shard] = Shard()
        if item.offset + item.length >= shard.bytes:
            shard.bytes, shard.last_at = item.offset + item.length, item.offset


class Reading:
    """One index that is being read, as far as somebody had time."""

    def __init__(self, told: Callable[[Item], None]) -> None:
        self._told = told
        self._stream: Stream | None = None

    def go_on(self, file: OpenFile, check_time: Callable[[], None]) -> None:
        """To its end. Raises what ``check_time`` raises, and may then be called again; Failure and OSError."""
        if file.size > _BYTES_MAX:
            raise Unsupported(f"it has {file.size} bytes, too many to be checked")
        if self._stream is None:
            budget = Budget(opcodes=_OPCODES_MAX, memory=_MEMORY_MAX, bytes=2 * _BYTES_MAX)
            self._stream = Stream(file, self._place, budget)
        value = self._stream.walk(file, check_time)
        stored = value.fields().get("storage_data") if isinstance(value, Inert) else None
        if not isinstance(stored, dict):
            raise Unsupported("its index tells no sizes, so that it cannot be checked")
        if stored:
            raise _unknown_sizes()

    def _place(self, made: Inert, key: object) -> object:
        """What stays of an object."""
        if made.name == "_StorageInfo":
            self._told(_item(made.fields(), key if type(key) is str else ""))
            return FORGOTTEN
        if made.name == "MetadataIndex":
            name = made.fields().get("fqn")
            return name if type(name) is str else ""
        return FORGOTTEN if made.module.startswith("torch.") and made.name != "Metadata" else made


def items(file: OpenFile) -> list[Item]:
    """All items in their order, however long that takes. Raises Failure and OSError."""
    found: list[Item] = []
    Reading(found.append).go_on(file, lambda: None)
    return found


def _item(place: Mapping[object, object], name: str) -> Item:
    shard, offset, length = (place.get(word) for word in ("relative_path", "offset", "length"))
    if (
        type(shard) is not str
        or type(offset) is not int
        or type(length) is not int
        or not 0 <= offset + length <= _FILE_BYTES_MAX
        or min(offset, length) < 0
    ):
        raise _unknown_sizes()
    return Item(_inside(shard), offset, length, name)


def _unknown_sizes() -> Unsupported:
    return Unsupported("its index tells sizes in a way that is not known here and cannot be checked")


def _inside(path: str) -> str:
    """A path below the folder; whatever could lead out of it is refused."""
    while path.startswith("./"):
        path = path[2:]
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise Unsupported("its index names a file outside of it, which is not looked at")
    return path
