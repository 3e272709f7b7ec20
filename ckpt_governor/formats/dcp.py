"""torch.distributed.checkpoint, which FSDP, Lightning, Megatron and others save with: shards, and then ``.metadata``.

A shard grows at its final name and is exactly as long as its last item reaches; then the index is written beside and
renamed. Who saves into the same folder again keeps the old index over the new shards until then, and as a model has
the same sizes at every step, they tell only while a shard is still short. What tells afterwards is the time:

- Shards that are younger than the index with which they once were seen whole: strong, somebody writes over them.
- Shards that are younger at first sight: a write, or ``cp -r`` and downloads, which give new times in any order. So it
  counts only when so much time lies between that nobody copies this slowly, and when ``ctime`` says that neither time
  was set by hand, as rsync, tar and object stores do. Otherwise nothing is claimed: it has no shape.
- Equal times, or times that differ by what clocks of two nodes do: nothing.

An index that somebody touches, or replaces by one of the same bytes, is another index, of which nothing is remembered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import chain, groupby, islice
from typing import NamedTuple

from ckpt_governor.facts import SmallSize, Structure
from ckpt_governor.formats.dcp_index import Index, Indexes, Item, Key, Open, Shard, items
from ckpt_governor.formats.inert import Cut, Damaged, Failure
from ckpt_governor.formats.interface import (
    COMPLETE,
    Damage,
    Files,
    Format,
    Judgement,
    Member,
    OpenFile,
    Plan,
    gathered,
    plans_of_members,
    same_file,
)
from ckpt_governor.formats.naming import is_log, is_temporary, numbered_word
from ckpt_governor.formats.parts import incomplete, judge_absent, unchecked
from ckpt_governor.formats.zip_records import LOCAL, plan_archive

INDEX = ".metadata"
SHARD_SUFFIX = ".distcp"
_INDEX = re.compile(r"(?:__[0-9]{1,9})?\.metadata", re.ASCII)
_RANK = re.compile(r"__([0-9]{1,9})_[0-9]{1,9}\.distcp", re.ASCII)
_SOURCES_MAX = 1024
"""Of more indexes in one copy the rest is believed."""
_LOOSE = "__*.distcp"
"""The name of a copy that lies in the unit itself, beside other things."""
_LIGHTNING = re.compile(r"(?:.*[-_])?(?:epoch|step)=[0-9]+.*\.ckpt", re.ASCII | re.DOTALL)
_LIGHTNING_STATE = "meta.pt"
_CLOCKS_NS = 2_000_000_000
_COPY_PAUSE_NS = 60_000_000_000
_COPY_NS_PER_BYTE = 100
"""Ten megabytes a second: nobody copies a checkpoint more slowly."""
_ENDS_READ_MAX = 128
_ENDS_READ_WITHOUT_SIZES_MAX = 4096
_OTHERS_MAX = 4096
_END = b"PK\5\6"
_END_BYTES = 22

_INDEXES = Indexes()


class Dcp(Format):
    """The index is what makes a copy; ranks that held nothing of their own have written nothing, or empty files."""

    word = "dcp"
    tells_all = True
    misses_by_elders = True

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        if any(inner.endswith(SHARD_SUFFIX) for inner in files):
            return True
        return INDEX in files and not folders and numbered_word(name)

    def group_of(self, name: str) -> str | None:
        return _LOOSE if _RANK.fullmatch(name) else None

    def watches_beside(self, name: str) -> tuple[str, ...]:
        return (INDEX, f"{INDEX}.tmp") if name == _LOOSE else ()

    def judge(self, files: Files) -> Judgement:
        judgement = judge_shards(files)
        if judgement.structure not in (Structure.COMPLETE, Structure.SHAPELESS):
            return judgement
        others = _judge_others(files)
        if others is not None:
            return others
        if _LIGHTNING.fullmatch(files.name) and all(m.name != _LIGHTNING_STATE for m in files.members):
            return incomplete(f"its {_LIGHTNING_STATE} is not there yet")
        return judgement

    def plan(self, files: Files) -> Plan:
        sources = {_same_index(source): source for source in _sources(files)}
        shards = (_plan_shards(files, source) for source in sources.values())
        return gathered(chain(shards, plans_of_members(files, _others(files))))


def _identity(source: _Source) -> Key:
    """Whatever its name: many names of one file are one index."""
    return source.key[1:] if isinstance(source.key, Member) else source.key


def _same_index(source: _Source) -> Key:
    """What the names of one file have in common: each index takes its time."""
    return same_file(source.key) if isinstance(source.key, Member) else source.key


class _Source(NamedTuple):
    """One index, wherever it lies."""

    name: str
    key: Key
    mtime_ns: int
    written_here: bool
    """Whether its time is known to be that of its write; of one in the unit itself it is not known."""
    open: Open


def judge_shards(files: Files) -> Judgement:
    """By the index and the sizes of what it names alone; other files in the folder are not looked at."""
    sources = _sources(files)
    if not sources:
        return incomplete(f"its {INDEX} is not there yet")
    renewed = _being_replaced(files, sources)
    if renewed:
        return incomplete(f"its {renewed} is being replaced")
    there = {member.name: member for member in files.members}
    doubt = COMPLETE
    for source in sources:
        index = _INDEXES.get(_identity(source), source.open, files.check_time)
        if isinstance(index.failure, Cut | Damaged):
            return incomplete(f"{source.name} is {'cut' if isinstance(index.failure, Cut) else 'damaged'}")
        if index.failure is not None:
            judgement = _judge_without_sizes(files, source, index, str(index.failure))
        else:
            judgement = _judge_index(files, there, source, index)
        if judgement.structure is Structure.INCOMPLETE:
            return judgement
        doubt = judgement if judgement is not COMPLETE else doubt
    return _judge_ranks(files, sources) or doubt


def _sources(files: Files) -> list[_Source]:
    """The index of the whole copy; or one of each rank, where the ranks save without each other."""
    if files.name == _LOOSE:
        found = [_beside(files, INDEX)] if INDEX in files.beside else []
    else:
        found = [
            _Source(
                member.name,
                member,
                member.mtime_ns,
                _written_here(member),
                lambda name=member.name: files.open(name),  # type: ignore[misc]
            )
            for member in files.members
            if _INDEX.fullmatch(member.name)
        ][:_SOURCES_MAX]
    whole = next((source for source in found if source.name == INDEX), None)
    if whole is not None and all(source.mtime_ns <= whole.mtime_ns for source in found):
        return [whole]
    return [source for source in found if source is not whole]


def _beside(files: Files, name: str) -> _Source:
    with files.open_beside(name) as file:
        size = file.size
    mtime_ns = files.mtime_ns_beside(name) or 0
    first = files.members[0] if files.members else None
    key = (first and (first.device, first.inode), name, size, mtime_ns)
    return _Source(name, key, mtime_ns, False, lambda: files.open_beside(name))


def _being_replaced(files: Files, sources: list[_Source]) -> str:
    """The name of an index of which a new one is already written beside it; empty when there is none."""
    times_ns = {member.name: member.mtime_ns for member in files.members}
    for source in sources:
        beside = f"{source.name}.tmp"
        if files.name == _LOOSE:
            mtime_ns = files.mtime_ns_beside(beside) if beside in files.beside else None
        else:
            mtime_ns = times_ns.get(beside)
        if mtime_ns is not None and mtime_ns >= source.mtime_ns:
            return source.name
    return ""


def _judge_index(files: Files, there: dict[str, Member], source: _Source, index: Index) -> Judgement:
    listed: list[Member] = []
    longer: list[Member] = []
    for name, shard in index.shards.items():
        member = there.get(name)
        if member is None:
            return judge_absent(files, name)
        if member.bytes < shard.bytes:
            return incomplete(f"{name}: {shard.bytes - member.bytes} of {shard.bytes} bytes are missing")
        (longer if member.bytes > shard.bytes else listed).append(member)
    doubt = COMPLETE
    for member in longer:
        judgement = _judge_longer(files, member, source, index)
        if judgement.structure is Structure.INCOMPLETE:
            return judgement
        doubt = judgement if judgement is not COMPLETE else doubt
    judgement = _judge_times(files, source, index, listed + longer)
    if judgement.structure is Structure.INCOMPLETE:
        return judgement
    some = listed[:: -(-len(listed) // _ENDS_READ_MAX) or 1]
    ends = _judge_ends(files, index, some, index.shards)
    return next((one for one in (ends, doubt, judgement) if one is not COMPLETE), COMPLETE)


def _judge_without_sizes(files: Files, source: _Source, index: Index, why: str) -> Judgement:
    """Where the index is not read: whoever cuts an archive cuts its end record, and times tell what they tell."""
    own = [
        member
        for member in files.members
        if member.bytes and member.name.endswith(SHARD_SUFFIX) and _is_of(source, member.name)
    ]
    times = _judge_times(files, source, index, own)
    if times.structure is Structure.INCOMPLETE:
        return times
    places = {member.name: Shard(member.bytes) for member in own}
    ends = _judge_ends(files, index, own[:_ENDS_READ_WITHOUT_SIZES_MAX], places)
    return _ended(f"{source.name}: {why}") if ends is COMPLETE else ends


def _judge_longer(files: Files, member: Member, source: _Source, index: Index) -> Judgement:
    """It holds more than its index tells: another format inside, something new, or what a tool has dropped."""
    judgement = files.judge_member(member)
    if judgement is not None and judgement.structure is not Structure.SHAPELESS:
        return judgement if not judgement.why else judgement._replace(why=f"{member.name}: {judgement.why}")
    more = member.bytes - index.shards[member.name].bytes
    if member.mtime_ns > source.mtime_ns and _written_here(member):
        return incomplete(f"{member.name} is being written over: {more} bytes more than {source.name} tells")
    return _ended(f"{member.name} has {more} bytes more than {source.name} tells")


def _ended(why: str) -> Judgement:
    """The index comes last: where it stands, the size of all is no sign of anything."""
    return unchecked(why)._replace(small=SmallSize.NOTHING)


def _judge_times(files: Files, source: _Source, index: Index, listed: list[Member]) -> Judgement:
    """Whether a shard is of a later write than the index; see the head of this module."""
    latest_ns = max((member.mtime_ns for member in listed), default=source.mtime_ns)
    if index.whole_ns is not None:
        whole_ns = index.whole_ns
        for member in files.members:
            if (
                member.mtime_ns > whole_ns
                and member.name.endswith(SHARD_SUFFIX)
                and _is_of(source, member.name)
            ):
                return incomplete(f"it is being written over: {member.name} is newer than its {source.name}")
        return COMPLETE
    newer = [
        member
        for member in listed
        if member.mtime_ns > source.mtime_ns + _CLOCKS_NS and _written_here(member)
    ]
    if not newer:
        index.whole_ns = max(latest_ns, source.mtime_ns)
        return COMPLETE
    first = min(newer, key=lambda member: member.mtime_ns)
    pause_ns = first.mtime_ns - source.mtime_ns
    copied_ns = _COPY_PAUSE_NS + _COPY_NS_PER_BYTE * sum(member.bytes for member in listed)
    if source.written_here and pause_ns > copied_ns:
        seconds = pause_ns // 1_000_000_000
        return incomplete(
            f"it is being written over: {first.name} is {seconds} s newer than its {source.name}"
        )
    return _ended(f"{first.name} is newer than its {source.name}")


def _written_here(member: Member) -> bool:
    """Whether nobody has set its time by hand."""
    return abs(member.ctime_ns - member.mtime_ns) <= _CLOCKS_NS


def _is_of(source: _Source, shard: str) -> bool:
    """Whether a shard can belong to this index: where each rank has one of its own, only its own shards."""
    rank = _RANK.fullmatch(shard)
    return source.name == INDEX or rank is None or source.name == f"__{rank[1]}{INDEX}"


def _judge_ends(files: Files, index: Index, members: list[Member], places: dict[str, Shard]) -> Judgement:
    """Shards of full size whose tail was never written: the last item of each is an archive, which has an end."""
    blank: list[str] = []
    for member in members:
        shard = places[member.name]
        if index.ended.get(member.name) == member or shard.bytes - shard.last_at < _END_BYTES:
            continue
        files.check_time()
        with files.open(member.name) as file:
            begin = file.read_at(shard.last_at, len(LOCAL))
            end = file.read_at(shard.bytes - _END_BYTES, _END_BYTES)
        if begin == LOCAL and not end.startswith(_END):
            return incomplete(f"{member.name}: its last item has no end record")
        if not any(begin) and not any(end):
            blank.append(member.name)
            continue
        index.archives = index.archives or begin == LOCAL
        index.ended[member.name] = member
    if blank and (index.archives or _begins_as_archive(files, blank[0])):
        return incomplete(f"{blank[0]}: its last item was never written")
    return COMPLETE


def _begins_as_archive(files: Files, name: str) -> bool:
    with files.open(name) as file:
        return file.read_at(0, len(LOCAL)) == LOCAL


def _judge_ranks(files: Files, sources: list[_Source]) -> Judgement | None:
    """Where each rank has an index of its own: a rank that has shards and no index is still being written."""
    names = {source.name for source in sources}
    if INDEX in names:
        return None
    for member in files.members:
        rank = _RANK.fullmatch(member.name)
        if rank is not None and f"__{rank[1]}{INDEX}" not in names:
            return incomplete(f"__{rank[1]}{INDEX} is not there yet")
    return None


def _others(files: Files) -> Iterator[Member]:
    """Members that the index does not know: states of a framework, configurations."""
    others = (
        member
        for member in files.members
        if not member.name.endswith((SHARD_SUFFIX, INDEX))
        and not is_log(member.name)
        and not is_temporary(member.name)
    )
    return islice(others, _OTHERS_MAX)


def _judge_others(files: Files) -> Judgement | None:
    """What is wrong with the first bad one of them; None when nothing is."""
    for member in _others(files):
        judgement = files.judge_member(member)
        if judgement is not None and judgement.structure in (Structure.INCOMPLETE, Structure.UNREADABLE):
            return judgement._replace(why=f"{member.name}: {judgement.why}")
    return None


def _plan_shards(files: Files, source: _Source) -> Plan:
    """Every item that is an archive: its records have checksums. Raises Damage and OSError."""
    try:
        with source.open() as file:
            found = items(file)
    except (Cut, Damaged) as failure:
        raise Damage(f"{source.name}: {failure}") from None
    except Failure as failure:
        return Plan((), f"{source.name}: {failure}")
    return gathered(_plans_of_items(files, found))


def _plans_of_items(files: Files, found: list[Item]) -> Iterator[Plan]:
    """An item that lies over another is left out before anything of it is read, as their number is not ours to choose.

    The format allows it: an item is read by its own place alone.
    """
    there = {member.name: member for member in files.members}
    lost = next((item.shard for item in found if item.shard not in there), "")
    if lost:
        yield Plan((), f"{lost} is no file in it, and is not checked")
    known = [item for item in found if item.shard in there and item.length]
    known.sort(key=lambda item: (same_file(there[item.shard]), item.offset, -item.length))
    over, last = 0, None
    for shard, stored in groupby(known, key=lambda item: item.shard):
        with files.open(shard) as file:
            for item in stored:
                same = last is not None and same_file(there[last.shard]) == same_file(there[shard])
                if last is not None and same and item.offset < last.offset + last.length:
                    over += (item.offset, item.length) != (last.offset, last.length)
                    continue
                last = item
                if file.read_at(item.offset, len(LOCAL)) == LOCAL:
                    yield _plan_item(file, item)
    if over:
        yield Plan((), f"items that lie over others are not checked: {over}")


def _plan_item(file: OpenFile, item: Item) -> Plan:
    what = f"{item.shard}: {item.name}" if item.name else item.shard
    try:
        plan = plan_archive(file, item.shard, item.offset, item.length)
    except Damage as damage:
        raise Damage(f"{what}: {damage}") from None
    return plan._replace(pieces=tuple(piece._replace(what=what) for piece in plan.pieces))
