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

_NEVER = re.compile(
    r"^(?:events\.out\.tfevents.*|tokenizer.*|vocab.*|merges.*|spiece.*|sentencepiece.*|training_args.*|nohup.*"
    r"|(?:lr_)?scheduler.*|scaler.*|rng_states?.*|random_states?.*"  # small companions of a copy in other files
    r"|latest|latest_checkpointed_iteration.*|slurm-\d+.*|core(?:\.\d+)?)$",
    re.ASCII | re.IGNORECASE,
)

_TEMPORARY = re.compile(
    r"^(?:\.tmp.+|tmp[a-z0-9_]{8}(?:\..+)?"  # those of safetensors and of mkstemp say nothing of the final name
    r"|tmp[-_](?P<after>.+)"
    r"|(?P<before>.+?)(?:\.(?:tmp|temp|part|partial|incomplete|bck|__lock)(?:[.\-_]?[0-9a-f]+)?"
    r"|\.tmp[.\-_].+|_temp|\.orbax-checkpoint-tmp.*|-unfinished)"
    r"|\.(?P<within>.+)\.[A-Za-z0-9]{6})$",  # rsync
    re.ASCII | re.DOTALL,
)
_IGNORED = re.compile(r"^(?:\.nfs.*|\.fuse_hidden.*|\.~lock.*|.+-unfinished)$", re.ASCII | re.DOTALL)

_WORDS = "global_?step|step|iteration|iter|checkpoint|ckpt|epoch|model|state|snapshot|save|batch|ba|ep"
_WORD_NUMBER = re.compile(rf"(?<![a-z])(?:{_WORDS})s?[-_=.]?[0-9]+(?![0-9a-z])", re.ASCII)
_WORD_ALONE = re.compile(
    r"^(?:step|iter|iteration|checkpoint|ckpt|epoch|model|state|snapshot|save)$", re.ASCII
)

# In order of preference: what comes later counts only when nothing before it matched.
_STEPS = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"(?<![a-z])(?:global_?step|steps?)[-_=.]?([0-9]+)(?![0-9a-z])",
        r"(?<![0-9a-z.])([0-9]+)[-_]?steps?(?![a-z])",
        r"(?<![a-z])(?:ba|batch)[-_=]?([0-9]+)(?![0-9a-z])",
        r"(?<![a-z])iter(?:ation)?s?[-_=.]?([0-9]+)(?![0-9a-z])",
        r"(?<![a-z])(?:checkpoint|ckpt)[-_=.]?([0-9]+)(?![0-9a-z])",
        r"(?<![a-z])(?:epoch|ep)[-_=.]?([0-9]+)(?![0-9a-z])",
        r"(?<![a-z])(?:model|state|snapshot|save)[-_=]?([0-9]+)(?![0-9a-z])",
    )
)
_CERTAIN = 4  # so many of them name steps beyond doubt; a number after the others may be a date

_PARTS = re.compile(
    r"[0-9]+-of-[0-9]+"
    r"|(?<![a-z])(?:rank|mp|pp|tp|dp|ep_rank|cp|of|shard|part|process|proc|world|node|gpu|host|worker|fold|seed|version|v)"
    r"s?[-_=.]?[0-9]+",
    re.ASCII,
)
_LAST_NUMBER = re.compile(r"(?<![0-9a-z.])([0-9]+)(?![0-9a-z])(?!\.[0-9])", re.ASCII)
_DATE = re.compile(
    r"(?:19|20)[0-9]{2}[-_]?(?:0[1-9]|1[0-2])[-_]?(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[-_t]?(?:[01][0-9]|2[0-3])[-_]?[0-5][0-9](?:[-_]?[0-5][0-9])?)?(?![0-9])",
    re.ASCII,
)
_UNIX_TIME = re.compile(r"(?<![0-9])1[5-9][0-9]{8}(?:[0-9]{3})?(?![0-9])", re.ASCII)
_STEP_MAX = 10**15

_SHARD = re.compile(r"^(.*?)[0-9]{1,6}-of-([0-9]{1,6})(.*)$", re.ASCII | re.DOTALL)


def step_of(name: str) -> int | None:
    """The step that the last part of a path names; None when no number in it can be one."""
    text = _PARTS.sub("|", _without_suffix(name.rpartition("/")[2].lower()))
    for certain, pattern in enumerate(_STEPS):
        found = pattern.findall(text if certain < _CERTAIN else _without_times(text))
        if found:
            return _step(found[-1])
    numbers = _LAST_NUMBER.findall(_without_times(text))
    return _step(numbers[-1]) if numbers else None


def _without_times(text: str) -> str:
    return _UNIX_TIME.sub("|", _DATE.sub("|", text))


def _step(digits: str) -> int | None:
    """As a number; a nonsense of digits is none, and costs nothing."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= 15 and int(digits) < _STEP_MAX else None


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


def is_ignored(name: str) -> bool:
    """Whether nothing is to be seen in it: deleted but open files, locks, empty marks."""
    return _IGNORED.match(name.rpartition("/")[2]) is not None


def is_other(name: str) -> bool:
    """Whether a plain file of this name is something else than a copy beyond doubt: not even its bytes are asked."""
    return suffix_of(name) in OTHER_SUFFIXES or _NEVER.match(name) is not None or ".tfevents" in name


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
    return _WORD_NUMBER.search(name.lower()) is not None or (
        not suffix and _WORD_ALONE.match(name.lower()) is not None
    )


def numbered_word(name: str) -> bool:
    """Whether it says step, checkpoint or the like with a number, or is nothing but a number that is no date."""
    low = name.lower()
    if low.isascii() and low.isdecimal():
        return _without_times(low) == low and len(low) <= 15
    return _WORD_NUMBER.search(_without_times(_PARTS.sub("|", low))) is not None


def certain_steps(name: str) -> set[int]:
    """The numbers after words that can mean nothing else; ``model-1`` or a bare number may be anything."""
    text = _without_times(_PARTS.sub("|", _without_suffix(name.lower())))
    found = (_step(digits) for pattern in _STEPS[:6] for digits in pattern.findall(text))
    return {step for step in found if step is not None}


def shard_group(name: str) -> tuple[str, int] | None:
    """Of ``model-00002-of-00003.bin`` what all its parts have in common, and how many there are."""
    match = _SHARD.match(name)
    if match is None or not 1 <= int(match[2]) <= 100_000:
        return None
    return f"{match[1]}*-of-{match[2]}{match[3]}", int(match[2])
