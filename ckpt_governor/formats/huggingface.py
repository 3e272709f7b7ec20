"""Hugging Face folders: a model in shards with an index of their tensors, and the Trainer's ``checkpoint-N``."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from ckpt_governor.facts import Structure
from ckpt_governor.formats.forward import Uncheckable
from ckpt_governor.formats.generic import GenericFolder, holds_copies
from ckpt_governor.formats.interface import COMPLETE, HEAD_BYTES, Files, Judgement, Member, OpenFile
from ckpt_governor.formats.naming import COPY_SUFFIXES, suffix_of
from ckpt_governor.formats.parts import incomplete, judge_absent, judge_json, unchecked
from ckpt_governor.formats.zip_records import LOCAL, judge_archive

_INDEX = re.compile(
    r"(?:.*/)?[^/]+\.(?:safetensors|bin)\.index(?:\.[A-Za-z0-9_]+)?\.json", re.ASCII | re.DOTALL
)
_SHARD = re.compile(
    r"((?:.*/)?(?:model|pytorch_model|adapter_model|diffusion_pytorch_model)(?:\.[A-Za-z0-9_]+)?)"
    r"-[0-9]{5,6}-of-([0-9]{5,6})\.(safetensors|bin)",
    re.ASCII | re.DOTALL,
)
_CONFIGS = frozenset(["config.json", "adapter_config.json", "model_index.json"])
_TRAINER_FOLDER = re.compile(r"checkpoint-[0-9]+", re.ASCII)
_TRAINER_STATE = "trainer_state.json"
_TRAINER_ARGUMENTS = "training_args.bin"
_LATE = ("optimizer", "scheduler", "scaler", "rng_state")
"""What the Trainer writes after the model and its arguments, and before its state."""
_BY_HAND = "a model that was saved by hand, or a save that stopped before its optimizer"
_TRAINER_WORD = b"transformers.train"
"""In the Trainer's arguments, by whatever class."""
_ARGUMENTS_BYTES_READ_MAX = 1 << 16
_COMPANIONS = (*_LATE, "training_args", "random_states")
_INDEX_BYTES_READ_MAX = 16 << 20
"""More than a hundred thousand tensors; a longer index is not read, for time and memory."""
_TEXTS = frozenset(["generation_config.json", _TRAINER_STATE, *_CONFIGS])
_ARCHIVES = (".pt", ".pth", ".bin")
_ARCHIVE_BYTES_MIN = 16
"""No pickle and no archive that torch writes is shorter."""
_SMALL_BYTES_MAX = 16 << 20
_SMALL_MAX = 256
_INDEXES_MAX = 64

# Indexes are searched instead of parsed: a fraction of the time, and no memory for their objects. Strings are taken
# one after another from the beginning, so that nothing inside of one is mistaken for another.
# A pattern that repeats escapes keeps a place for each of them, and tries again from every quote: so it may do that
# only a few times, and where there are escapes the quotes of a header are gone through by hand.
_STRING = rb'"([^"\\]*(?:\\.[^"\\]*){0,1000})"'
_PLAIN_KEY = re.compile(rb'"([^"\\]*)"(\s*:\s*\{)?', re.DOTALL)
_OPENS = re.compile(rb"\s*:\s*\{")
_QUOTES_MAX = 1_000_000
_SHARDS_MAX = 20_000
_PLACE = re.compile(rb"\s*" + _STRING + rb"\s*:\s*" + _STRING + rb"\s*([,}])", re.DOTALL)
_BACKSLASH = ord("\\")
_MAP = re.compile(rb'"weight_map"\s*:\s*\{')

_Names = tuple[int, int]
"""Of a set of names: how many, and the sum of their hashes, which needs no memory for each."""


class HuggingFaceModel(GenericFolder):
    """The index is written when all shards are there."""

    word = "hf-model"

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        if holds_copies(name, files, folders):
            return False
        if any(_INDEX.fullmatch(inner) for inner in files):
            return True
        return not _CONFIGS.isdisjoint(files) and any(_SHARD.fullmatch(inner) for inner in files)

    def judge(self, files: Files) -> Judgement:
        judgement = super().judge(files)
        if judgement.structure is not Structure.SHAPELESS:
            return judgement
        return _judge_small(files) or judge_indexes(files) or judgement


class HuggingFaceTrainer(GenericFolder):
    """Its state is the last file that is written into it."""

    word = "hf-trainer"
    misses_by_elders = True

    def claims_folder(self, name: str, files: Collection[str], folders: Collection[str]) -> bool:
        if holds_copies(name, files, folders):
            return False
        if _TRAINER_FOLDER.fullmatch(name) is None:
            return _TRAINER_STATE in files
        return not {_TRAINER_STATE, _TRAINER_ARGUMENTS, *_CONFIGS}.isdisjoint(files)

    def judge(self, files: Files) -> Judgement:
        judgement = super().judge(files)
        if judgement.structure is not Structure.SHAPELESS:
            return judgement
        there = {member.name: member for member in files.members}
        wrong = _judge_small(files)
        if wrong is not None:
            return wrong
        weights = [member for member in files.members if _is_weights(member)]
        if not weights:
            return incomplete("no weights in it")
        indexed = judge_indexes(files) or COMPLETE
        if indexed.structure is Structure.INCOMPLETE:
            return indexed
        if _TRAINER_STATE not in there:
            why = f"its {_TRAINER_STATE} is not there yet"
            if not _is_the_trainers(files, there):
                return unchecked(why)._replace(small=judgement.small)
            late = any(name.startswith(_LATE) for name in there)
            return incomplete(why) if late else Judgement(Structure.AMBIGUOUS, _BY_HAND)
        if indexed.structure is not Structure.COMPLETE:
            return indexed
        state = there[_TRAINER_STATE]
        newer = next((member for member in weights if member.mtime_ns > state.mtime_ns), None)
        return unchecked(f"{newer.name} is newer than its {_TRAINER_STATE}") if newer else COMPLETE


def _judge_small(files: Files) -> Judgement | None:
    """The small companions of a model, which are no copies by themselves: the first that has no end."""
    looked_at = 0
    for member in files.members:
        is_text = member.name in _TEXTS
        is_archive = member.name.startswith(_COMPANIONS) and member.name.endswith(_ARCHIVES)
        if not (is_text or is_archive) or "/" in member.name or member.bytes > _SMALL_BYTES_MAX:
            continue
        looked_at += 1
        if looked_at > _SMALL_MAX:
            break
        wrong = files.learn(member, _wrong_in_text if is_text else _wrong_in_archive)
        if wrong:
            return incomplete(f"{member.name}{wrong}")
    return None


def _wrong_in_text(file: OpenFile) -> str:
    return " is cut" if judge_json(file.read_at(0, file.size)) is Structure.INCOMPLETE else ""


def _wrong_in_archive(file: OpenFile) -> str:
    if file.read_at(0, len(LOCAL)) != LOCAL:
        if file.size < _ARCHIVE_BYTES_MIN:
            return " is cut"
        return "" if any(file.read_at(0, HEAD_BYTES)) else " begins with nothing but zeros"
    judgement = judge_archive(file, lambda _: "")
    return f": {judgement.why}" if judgement.structure is Structure.INCOMPLETE else ""


def _is_the_trainers(files: Files, there: dict[str, Member]) -> bool:
    """Whether its arguments lie in it: another program's copy, or a model alone, has no state to wait for."""
    if _TRAINER_ARGUMENTS not in there:
        return False
    with files.open(_TRAINER_ARGUMENTS) as file:
        return _TRAINER_WORD in file.read_at(0, _ARGUMENTS_BYTES_READ_MAX)


def _is_weights(member: Member) -> bool:
    return suffix_of(member.name) in COPY_SUFFIXES and not member.name.startswith(_COMPANIONS)


def judge_indexes(files: Files) -> Judgement | None:
    """By every index in it; None when there is none, and no shard that would want one. Raises OSError."""
    there = {member.name: member for member in files.members}
    indexes = [name for name in there if _INDEX.fullmatch(name)][:_INDEXES_MAX]
    for name in there:
        shard = _SHARD.fullmatch(name)
        if shard is not None and not any(index.startswith(f"{_stem(shard[1])}.") for index in indexes):
            return incomplete("the index of its shards is not there yet")
    found = [judge_index(files, there[name], there) for name in indexes]
    order = (Structure.INCOMPLETE, Structure.UNREADABLE, Structure.SHAPELESS, Structure.COMPLETE)
    return min(found, key=lambda judgement: order.index(judgement.structure), default=None)


def _stem(name: str) -> str:
    """Without a variant such as ``fp16``, which may stand at another place in the index's name."""
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition('.')[0]}"


def judge_index(files: Files, index: Member, there: dict[str, Member]) -> Judgement:
    """Every shard that it names is there and whole, and holds the tensors that it tells. Raises OSError."""
    if index.bytes > _INDEX_BYTES_READ_MAX:
        return unchecked(f"{index.name} is too long to be checked")
    told, wanted = files.learn(index, _read_index)
    if told is Structure.INCOMPLETE:
        return incomplete(f"{index.name} is cut")
    if not wanted:
        return unchecked(f"{index.name} is of an unknown kind")
    folder = index.name[: len(index.name) - len(index.name.rpartition("/")[2])]
    odd = ""
    for shard, names in sorted(wanted.items()):
        member = there.get(folder + shard)
        judgement = (
            judge_absent(files, folder + shard) if member is None else _judge_shard(files, member, names)
        )
        if judgement.structure in (Structure.INCOMPLETE, Structure.UNREADABLE):
            return judgement
        if judgement.structure is Structure.SHAPELESS:
            odd = odd or judgement.why or f"{shard} cannot be checked"
        if member is not None and member.mtime_ns > index.mtime_ns:
            odd = odd or f"{member.name} is newer than its index"
    odd = odd or _miscounted(wanted)
    return unchecked(odd) if odd else COMPLETE


def _read_index(file: OpenFile) -> tuple[Structure, dict[str, _Names] | None]:
    """Whether it has its end, and the names of the tensors of every shard."""
    text = file.read_at(0, file.size)
    told = judge_json(text)
    return told, _weight_map(text) if told is Structure.COMPLETE else None


def _weight_map(text: bytes) -> dict[str, _Names] | None:
    """The names of the tensors of every shard; None when it is written in another way."""
    begin = _MAP.search(text)
    if begin is None:
        return None
    wanted: dict[bytes, _Names] = {}
    at = begin.end()
    while True:
        place = _PLACE.match(text, at)
        if place is None:
            return None
        count, total = wanted.get(place[2], (0, 0))
        wanted[place[2]] = count + 1, total + _hash(place[1])
        if len(wanted) > _SHARDS_MAX:
            return None
        at = place.end()
        if place[3] == b"}":
            return {_plain(name).decode("utf-8", "replace"): names for name, names in wanted.items()}


def _plain(name: bytes) -> bytes:
    """Without escapes, of which writers make different use."""
    if b"\\" not in name:
        return name
    try:
        text: str = json.loads(b'"' + name + b'"')
    except ValueError:
        return name
    return text.encode("utf-8", "surrogatepass")


def _hash(name: bytes) -> int:
    return hash(_plain(name))


def _judge_shard(files: Files, member: Member, names: _Names) -> Judgement:
    judgement = files.judge_member(member) or unchecked(f"{member.name} cannot be checked")
    if judgement.structure is not Structure.COMPLETE or suffix_of(member.name) != "safetensors":
        return judgement
    told = files.learn(member, _read_header)
    if isinstance(told, str):
        return unchecked(f"{member.name}: {told}")
    count, total = told
    if count < names[0]:
        return incomplete(f"{member.name}: {names[0] - count} of {names[0]} tensors are missing")
    if count == names[0] and total != names[1]:
        return incomplete(f"{member.name} holds other tensors than its index tells")
    if count > names[0]:
        return unchecked(f"{member.name}: {count - names[0]} tensors more than its index tells")
    return COMPLETE


def _read_header(file: OpenFile) -> _Names | str:
    """The names of a shard's tensors, or why they cannot be told."""
    length = int.from_bytes(file.read_at(0, 8), "little")
    if length > _INDEX_BYTES_READ_MAX:
        return "it holds too many tensors to be checked"
    try:
        return _sum(_tensors(file.read_at(8, length)))
    except Uncheckable as why:
        return str(why)


def _tensors(header: bytes) -> Iterator[bytes]:
    """The keys whose values are objects. Raises Uncheckable."""
    if b"\\" not in header:
        for key in _PLAIN_KEY.finditer(header):
            if key[2] is not None and key[1] != b"__metadata__":
                yield key[1]
        return
    for begin, end in _strings(header):
        if _OPENS.match(header, end + 1) and header[begin + 1 : end] != b"__metadata__":
            yield header[begin + 1 : end]


def _strings(text: bytes) -> Iterator[tuple[int, int]]:
    """Where each string has its quotes. Raises Uncheckable."""
    quotes, begin = 0, text.find(b'"')
    while begin >= 0:
        end = begin
        while True:
            end, quotes = text.find(b'"', end + 1), quotes + 1
            if quotes > _QUOTES_MAX:
                raise Uncheckable("its tensors cannot be told cheaply")
            if end < 0:
                return
            slash = end
            while text[slash - 1] == _BACKSLASH:
                slash -= 1
            if (end - slash) % 2 == 0:
                break
        yield begin, end
        begin = text.find(b'"', end + 1)


def _sum(names: Iterator[bytes]) -> _Names:
    count = total = 0
    for name in names:
        count += 1
        total += _hash(name)
    return count, total


def _miscounted(wanted: Collection[str]) -> str:
    """Whether the parts say another number of parts than there are."""
    told = {int(match[2]) for name in wanted if (match := _SHARD.fullmatch(name)) is not None}
    if not told or told == {len(wanted)}:
        return ""
    return f"its index names {len(wanted)} of {max(told)} parts"
