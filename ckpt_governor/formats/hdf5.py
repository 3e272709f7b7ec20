"""HDF5, as Keras and h5py write it: its beginning tells where the file ends, which is set right when it is closed."""

from __future__ import annotations

import re
from itertools import islice

from ckpt_governor.facts import Structure
from ckpt_governor.formats.interface import HEAD_BYTES, Files, Format, Judgement, OpenFile
from ckpt_governor.formats.naming import names_a_copy, suffix_of
from ckpt_governor.formats.unwritten import judge_tail
from ckpt_governor.formats.zip_records import LOCAL

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_SUFFIXES = ("h5", "hdf5")
_FIRST_BYTES = 160
"""Enough for the fields that are read here, of any version and with addresses of any width."""
_EXTENSION_BYTES = 1024
_OPEN_FOR_WRITING = 1
_RAW_PART = re.compile(r"-[msbrglo]\.[^.]+\Z", re.ASCII)
"""How parts of one copy are named that hold one kind of data each."""
_NUMBER = re.compile("[0-9]+")
_NUMBERS_MAX = 16
_SEVERAL_FILES = (b"NCSAfami", b"NCSAmult")
"""Drivers that spread one copy over files, of which this one is only the first."""


class Hdf5(Format):
    """It grows at its final name. While it is open, the end that it tells is an old one."""

    word = "hdf5"

    def claims_file(self, name: str, head: bytes) -> bool:
        if head.startswith(_SIGNATURE):
            return names_a_copy(name)
        return suffix_of(name) in _SUFFIXES and not head.startswith(LOCAL)

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            return _judge(file, files)


def _judge(file: OpenFile, files: Files) -> Judgement:
    at = _signature_at(file)
    if at is None:
        return _unrecognised(file, files)
    first = file.read_at(at, _FIRST_BYTES)
    version = first[8] if len(first) > 8 else 0
    if len(first) > 8 and version > 3:
        return Judgement(Structure.SHAPELESS, f"it is of version {version}, which cannot be checked")
    width_at = 13 if version < 2 else 9
    width = first[width_at] if len(first) > width_at else 8
    if width not in (2, 4, 8, 16, 32):
        return _incomplete("its beginning is damaged")
    addresses_at = (24, 28, 12, 12)[version]
    if len(first) < addresses_at + 4 * width:
        return _incomplete("its beginning is cut")
    base, second, end, fourth = (
        int.from_bytes(first[at : at + width], "little")
        for at in range(addresses_at, addresses_at + 4 * width, width)
    )
    if version == 3 and first[11] & _OPEN_FOR_WRITING:
        return _incomplete("its writer has not closed it")
    nowhere = (1 << 8 * width) - 1
    expected = end - base + at  # what stands before the signature may have been put there or taken away later
    if file.size == expected:
        return judge_tail(file, files, at + addresses_at + 4 * width)
    if fourth != nowhere if version < 2 else second != nowhere and _is_one_of_several(file, second + at):
        return Judgement(Structure.SHAPELESS, "it is one of several files, and cannot be checked alone")
    if end == nowhere or expected <= at:
        return _incomplete("its writer has not closed it")
    if file.size < expected:
        return _incomplete(f"{expected - file.size} of {expected} bytes are missing")
    return _incomplete(
        f"its writer has not closed it: {file.size - expected} bytes more than its beginning tells"
    )


def _signature_at(file: OpenFile) -> int | None:
    """At the beginning, or behind a block of the user's, whose size is a power of two."""
    at = 0
    while at + len(_SIGNATURE) <= file.size:
        if file.read_at(at, len(_SIGNATURE)) == _SIGNATURE:
            return at
        at = max(512, 2 * at)
    return None


def _unrecognised(file: OpenFile, files: Files) -> Judgement:
    """Raw parts of copies that are spread over files have these names, too."""
    first = file.read_at(0, HEAD_BYTES)
    if not first:
        return _incomplete("empty")
    if _SIGNATURE.startswith(first):
        return _incomplete("its beginning is cut")
    if file.tail_hole() == 0:
        return _incomplete("nothing of it was ever written")
    if not any(first) and _is_alone(files):
        return _incomplete("it begins with nothing but zeros")
    return Judgement(Structure.SHAPELESS, "it does not begin as HDF5 does, and cannot be checked")


def _is_alone(files: Files) -> bool:
    """Whether there is nothing beside it of which it could be a raw part, which may hold zeros: the parts of a copy
    count from zero, or say in their names what they hold."""
    if files.name not in files.beside or _RAW_PART.search(files.name):
        return False
    for number in islice(_NUMBER.finditer(files.name), _NUMBERS_MAX):
        before, after = files.name[: number.start()], files.name[number.end() :]
        for first in {f"{before}0{after}", f"{before}{'0' * len(number[0])}{after}"}:
            if first not in files.beside:
                continue
            try:
                with files.open_beside(first) as file:
                    if _tells_of_several(file):
                        return False
            except OSError:
                return False
    return True


def _tells_of_several(file: OpenFile) -> bool:
    """Whether it begins as HDF5 does, and names a driver that spreads a copy."""
    at = _signature_at(file)
    return at is not None and any(driver in file.read_at(at, _EXTENSION_BYTES) for driver in _SEVERAL_FILES)


def _is_one_of_several(file: OpenFile, extension_at: int) -> bool:
    extension = file.read_at(extension_at, _EXTENSION_BYTES) if extension_at < file.size else b""
    return any(driver in extension for driver in _SEVERAL_FILES)


def _incomplete(why: str) -> Judgement:
    return Judgement(Structure.INCOMPLETE, why)
