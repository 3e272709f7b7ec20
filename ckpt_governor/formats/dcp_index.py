"""The index of torch.distributed.checkpoint: which files it names, and how long each of them must be.

It is a pickle, walked and never made. It tells of each stored item in which file it lies, from where and how long.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ckpt_governor.formats.inert import Budget, Failure, Inert, Unsupported, walk
from ckpt_governor.formats.interface import Member, OpenFile

_OPCODES_MAX = 2_000_000
"""About 16,000 items: a second, and memory of sixty megabytes while it is read."""
_BYTES_MAX = 32 << 20
"""A longer one has more items than that, beyond doubt."""
_FILE_BYTES_MAX = 1 << 4096
"""Python refuses to print a number of very many digits, and no file system holds as much."""
_REMEMBERED_INDEXES = 16
_REMEMBERED_SHARDS = 20_000

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

    def get(self, key: Key, open_index: Open) -> Index:
        """The index with this identity; read only when it is not remembered. Raises OSError."""
        index = self._known.get(key)
        if index is None:
            with open_index() as file:
                index = _read(file)
            self._known[key] = index
            while len(self._known) > 1 and self._too_many():
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return index

    def _too_many(self) -> bool:
        total = sum(len(index.shards) for index in self._known.values())
        return len(self._known) > _REMEMBERED_INDEXES or total > _REMEMBERED_SHARDS


def _read(file: OpenFile) -> Index:
    try:
        return Index(_shards(items(file)))
    except Failure as failure:
        return Index({}, failure.with_traceback(None))


def items(file: OpenFile) -> Iterator[Item]:
    """All items in their order. Raises Failure and OSError."""
    if file.size > _BYTES_MAX:
        raise Unsupported(f"it has {file.size} bytes, too many to be checked")
    walked = walk(file, budget=Budget(opcodes=_OPCODES_MAX))
    stored = walked.value.fields().get("storage_data") if isinstance(walked.value, Inert) else None
    if not isinstance(stored, dict):
        raise Unsupported("its index tells no sizes, so that it cannot be checked")
    for key, place in stored.items():
        fields = place.fields() if isinstance(place, Inert) else {}
        shard, offset, length = (fields.get(word) for word in ("relative_path", "offset", "length"))
        if (
            type(shard) is not str
            or type(offset) is not int
            or type(length) is not int
            or not 0 <= offset + length <= _FILE_BYTES_MAX
            or min(offset, length) < 0
        ):
            raise Unsupported("its index tells sizes in a way that is not known here and cannot be checked")
        name = key.fields().get("fqn") if isinstance(key, Inert) else None
        yield Item(_inside(shard), offset, length, name if type(name) is str else "")


def _inside(path: str) -> str:
    """A path below the folder; whatever could lead out of it is refused."""
    while path.startswith("./"):
        path = path[2:]
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise Unsupported("its index names a file outside of it, which is not looked at")
    return path


def _shards(items: Iterator[Item]) -> dict[str, Shard]:
    shards: dict[str, Shard] = {}
    for item in items:
        shard = shards.get(item.shard)
        if shard is None:
            shard = shards[item.shard] = Shard()
        if item.offset + item.length >= shard.bytes:
            shard.bytes, shard.last_at = item.offset + item.length, item.offset
    return shards
