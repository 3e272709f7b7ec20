"""What a name tells: its step, whether it is temporary, whether it could be a copy. Pure; no name is trusted."""

from __future__ import annotations

import re

_SUFFIXES = (
    "pt pth ckpt bin safetensors npz npy pkl pickle joblib h5 hdf5 keras gguf ggml msgpack state weights model dcp "
    "distcp nemo tar pdparams pdopt params zarr"
)
COPY_SUFFIXES = frozenset(_SUFFIXES.split())
"""A plain file with one of these endings is taken for a copy."""

CONCATENATED_SUFFIXES = frozenset(["distcp"])
"""Of torch.distributed.checkpoint: archives one after another, whose offsets are not those of the file."""

_PACKED = frozenset(["gz", "bz2", "xz", "zst", "lz4", "z"])

_OTHERS = (
    "log txt out err json jsonl ndjson yaml yml csv tsv md rst py pyc sh toml cfg conf ini html htm xml js css png jpg "
    "jpeg gif svg webp pdf mp4 wav ipynb lock pid done sum sha256 md5 crc index meta db sqlite arrow parquet feather "
    "so whl c h cpp cu wandb trace prof profile tfrecord patch diff"
)
OTHER_SUFFIXES = frozenset(_OTHERS.split())
"""A plain file with one of these endings is never a copy, whatever else its name or its bytes say."""

_LOGS = frozenset(
    ["log", "out", "err", "tfrecord", "wandb", "lock", "pid", "trace", "prof", "jsonl", "ndjson"]
)

_NEVER = (
    "events.out.tfevents nohup. slurm- tokenizer vocab merges spiece sentencepiece training_args scheduler "
    "lr_scheduler scaler rng_state random_state latest_checkpointed_iteration"
)
_NEVER_BEGINNINGS = tuple(_NEVER.split())
"""Logs, and the small companions that a copy in other files has."""

_TEMPORARY = re.compile(
    r"^(?:\.tmp.+|tmp[a-z0-9_]{8}(?:\..+)?"  # those of safetensors and of mkstemp say nothing of the final name
    r"|tmp[-_](?P<after>.+)"
    r"|(?P<before>.+?)(?:\.(?:tmp|temp|part|partial|incomplete|bck|__lock)(?:[.\-_]?[0-9a-f]+)?"
    r"|\.tmp[.\-_].+|_te?mp|\.orbax-checkpoint-tmp.*|-unfinished)"
    r"|\.(?P<within>.+)\.[A-Za-z0-9]{6})$",  # rsync
    re.ASCII | re.DOTALL,
)
_IGNORED_BEGINNINGS = (".nfs", ".fuse_hidden", ".~lock", ".manifest.json.tmp")

# A word with a number, or a number alone, or one before the word "steps".
_TOKEN = re.compile(
    r"(?<![0-9a-z])([a-z]*)([-_=.]?)([0-9]+)(?:[-_]?(steps?)(?![a-z]|[-_=.]?[0-9]))?(?![0-9a-z])", re.ASCII
)
_TIMES = re.compile(
    r"(?:19|20)[0-9]{2}[-_]?(?:0[1-9]|1[0-2])[-_]?(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[-_t]?(?:[01][0-9]|2[0-3])[-_]?[0-5][0-9](?:[-_]?[0-5][0-9])?)?(?![0-9])"
    r"|(?<![0-9])1[5-9][0-9]{8}(?:[0-9]{3})?(?![0-9])",
    re.ASCII,
)
# In order of preference: what comes later counts only when nothing before it is there.
_RANKS = {
    word: rank
    for rank, words in enumerate(
        (
            "step steps globalstep",
            "",  # a number before the word
            "ba batch",
            "iter iters iteration iterations",
            "checkpoint ckpt cp",
            "epoch epochs ep",
            "model state snapshot save",
        )
    )
    for word in words.split()
}
_BEFORE_THE_WORD, _CERTAIN, _WEAK, _BARE = 1, 4, 6, 7
"""Ranks below _CERTAIN name steps beyond doubt; a number after the others may be a date."""
_WORDS_ALONE = frozenset(
    ["step", "iter", "iteration", "checkpoint", "ckpt", "epoch", "model", "state", "snapshot", "save"]
)
_PART = "rank mp pp tp dp of shard part process proc world node gpu host worker fold seed version v"
_PARTS = frozenset(_PART.split())
"""A number after one of these is none of a step."""

_SHARD = re.compile(r"^(.*?)[0-9]{1,6}-of-([0-9]{1,6})(.*)$", re.ASCII | re.DOTALL)


def step_of(name: str) -> int | None:
    """The step that the last part of a path names; None when no number in it can be one."""
    text = _without_suffix(name.rpartition("/")[2].lower())
    found = [token for token in _numbers(text) if token[0] < _CERTAIN] or _numbers(_without_times(text))
    if not found:
        return None
    best = min(rank for rank, _ in found)
    return _step(next(digits for rank, digits in reversed(found) if rank == best))


def _numbers(text: str) -> list[tuple[int, str]]:
    """The numbers that may be steps, each with the rank of its word."""
    found: list[tuple[int, str]] = []
    for match in _TOKEN.finditer(text):
        word, mark, digits, after = match.groups()
        if word in _PARTS or text.startswith("-of-", match.end()):
            continue
        rank = _BEFORE_THE_WORD if after else _RANKS.get(word, _BARE)
        if rank == _BARE and ((word and not mark) or _is_decimal(text, match.start(3), match.end())):
            continue
        found.append((rank, digits))
    return found


def _is_decimal(text: str, begin: int, end: int) -> bool:
    """Whether digits follow digits and a dot, or have a dot and digits behind them."""
    return (text[begin - 1 : begin] == "." and text[begin - 2 : begin - 1].isdecimal()) or (
        text[end : end + 1] == "." and text[end + 1 : end + 2].isdecimal()
    )


def _without_times(text: str) -> str:
    return _TIMES.sub("|", text)


def _step(digits: str) -> int | None:
    """As a number; a nonsense of digits is none, and costs nothing."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= 15 else None


def _without_suffix(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and stem and (suffix in COPY_SUFFIXES or suffix in _PACKED) else name


def suffix_of(name: str) -> str:
    """The ending without its dot, small; of ``a.pkl.gz`` it is ``pkl``. Empty when there is none."""
    parts = name.lower().rpartition("/")[2].split(".")
    if len(parts) > 2 and parts[-1] in _PACKED:
        parts.pop()
    return parts[-1] if len(parts) > 1 and parts[-1].isascii() and " " not in parts[-1] else ""


def is_temporary(name: str) -> bool:
    """Whether a file or folder of this name is a part of a write and not a copy yet."""
    return _TEMPORARY.match(name.rpartition("/")[2]) is not None


def final_of(name: str) -> str:
    """The final name that a temporary one promises; empty when it promises none."""
    match = _TEMPORARY.match(name.rpartition("/")[2])
    return next(filter(None, match.groups()), "") if match else ""


def is_bare_write(promised: str, head: bytes) -> bool:
    """Whether a temporary that bears no name of a copy is one all the same: the index that ends a folder of shards, or
    a file that was given its size and in which nobody has written yet."""
    return promised == ".metadata" or (not promised and head != b"" and not any(head))


def mark_of(name: str) -> str:
    """NeMo's mark beside a copy: from before its first byte until after its last, and again while it is deleted."""
    return f"{name.removesuffix('.nemo').removesuffix('.ckpt').removesuffix('-EMA')}-unfinished"


def is_unfinished_mark(name: str) -> bool:
    """Whether it is the mark of NeMo that a copy is being written, or deleted; in which step, its name tells."""
    return name.endswith("-unfinished") and numbered_word(final_of(name))


def is_ignored(name: str) -> bool:
    """Whether nothing is to be seen in it: deleted but open files, locks, empty marks."""
    last = name.rpartition("/")[2]
    return last.startswith(_IGNORED_BEGINNINGS) or last.endswith("-unfinished")


def is_other(name: str) -> bool:
    """Whether a plain file of this name is something else than a copy beyond doubt: not even its bytes are asked."""
    low = name.lower()
    if suffix_of(low) in OTHER_SUFFIXES or low.startswith(_NEVER_BEGINNINGS) or ".tfevents" in low:
        return True
    return low in ("latest", "core") or (low.startswith("core.") and low[5:].isdecimal())


def is_no_part(name: str) -> bool:
    """The same of a file in a copy's folder: its small companions are a part of it there, and have formats."""
    return suffix_of(name) in OTHER_SUFFIXES or ".tfevents" in name.lower()


def is_log(name: str) -> bool:
    """Whether a file of this name grows while nothing is being saved, also inside a copy's folder."""
    return suffix_of(name) in _LOGS or ".tfevents" in name


def names_a_copy(name: str) -> bool:
    """Whether a plain file whose bytes tell nothing is a copy by its name alone."""
    if is_other(name):
        return False
    suffix = suffix_of(name)
    if suffix in COPY_SUFFIXES:
        return True
    low = name.lower()
    return any(rank < _BARE for rank, _ in _numbers(low)) or (not suffix and low in _WORDS_ALONE)


def numbered_word(name: str) -> bool:
    """Whether it says step, checkpoint or the like with a number, or is nothing but a number that is no date."""
    low = name.lower()
    if low.isascii() and low.isdecimal():
        return _without_times(low) == low and len(low) <= 15
    return any(rank < _BARE for rank, _ in _numbers(_without_times(low)))


def certain_steps(name: str) -> set[int]:
    """The numbers after words that can mean nothing else; ``model-1`` or a bare number may be anything."""
    numbers = _numbers(_without_times(_without_suffix(name.lower())))
    return {step for rank, digits in numbers if rank < _WEAK and (step := _step(digits)) is not None}


def shard_group(name: str) -> tuple[str, int] | None:
    """Of ``model-00002-of-00003.bin`` what all its parts have in common, and how many there are."""
    match = _SHARD.match(name)
    if match is None or not 1 <= int(match[2]) <= 100_000:
        return None
    return f"{match[1]}*-of-{match[2]}{match[3]}", int(match[2])
