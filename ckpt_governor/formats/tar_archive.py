"""tar, as NeMo packs a model into one .nemo file: headers that tell the size of what follows, and zeros at the end."""

from __future__ import annotations

import re

from ckpt_governor.facts import Structure
from ckpt_governor.formats.forward import Cut, Forward, Uncheckable
from ckpt_governor.formats.interface import Damage, Files, Format, Judgement, OpenFile
from ckpt_governor.formats.naming import names_a_copy, suffix_of
from ckpt_governor.formats.unwritten import judge_tail

_BLOCK_BYTES = 512
_HEADERS_MAX = 20_000
_SPARSE_MAPS_MAX = 20_000
_RECORD_BYTES = 10_240
"""An archive is filled up with zeros to a multiple of this, by most writers."""
_EXTENDED_BYTES_MAX = 1 << 20
_SIZE = re.compile(rb"(?:^|\n)[0-9]{1,9} size=([0-9]{1,20})\n")
_FILES, _WITHOUT_DATA, _SPARSE, _LONG_NAMES = b"\x0007DMV", b"123456", b"S", b"KL"
_EXTENDED, _EXTENDED_FOR_ALL = b"xXg", b"g"
_ZEROS = bytes(_BLOCK_BYTES)
_SUFFIXES = ("tar", "nemo")
_NAME = re.compile(rb"[!-~][ -~]*\0*(?:[0-9]+.*)?\Z", re.ASCII | re.DOTALL)


class TarArchive(Format):
    """It grows at its final name. Packed ones are left to those that have no shape, as torch files named .tar are."""

    word = "tar"

    def claims_file(self, name: str, head: bytes) -> bool:
        if len(head) < _BLOCK_BYTES:  # cut in its first header, which begins with a name
            suffix = suffix_of(name)
            return (suffix == "nemo" and not head) or (suffix in _SUFFIXES and _NAME.match(head) is not None)
        return names_a_copy(name) and _is_header(head[:_BLOCK_BYTES])

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            return _judge(file, files)


def _judge(file: OpenFile, files: Files) -> Judgement:
    if file.size == 0:
        return Judgement(Structure.INCOMPLETE, "empty")
    forward = Forward(file)
    try:
        _walk(forward)
    except Cut:
        return Judgement(Structure.INCOMPLETE, f"it is cut at byte {file.size}, before its end")
    except Damage as damage:
        return Judgement(Structure.INCOMPLETE, str(damage))
    except Uncheckable as why:
        return Judgement(Structure.SHAPELESS, str(why))
    tail = judge_tail(file, files, _BLOCK_BYTES)
    more = file.size - forward.at
    # Where nobody has written yet, or a piece was lost, there are zeros, and any place in them looks like the end.
    if tail.structure is Structure.COMPLETE and (
        more >= _RECORD_BYTES or file.read_at(forward.at, more).strip(b"\0")
    ):
        follow = f"{more} bytes follow its end, and cannot be checked"
        return Judgement(Structure.SHAPELESS, follow, tail.hole_at)
    return tail


def _walk(forward: Forward) -> None:
    """To the two blocks of zeros that end it. Raises Cut, Damage, Uncheckable and OSError."""
    size: int | None = None
    for _ in range(_HEADERS_MAX):
        at = forward.at
        header = forward.take(_BLOCK_BYTES)
        if at == 0 and not _is_header(header):
            raise Uncheckable("it does not begin as tar does, and cannot be checked")
        if header == _ZEROS:
            if forward.take(_BLOCK_BYTES) != _ZEROS:
                raise Damage(f"a header is missing at byte {at}")
            return
        if not _is_header(header):
            raise Damage(f"a header is damaged at byte {at}")
        size = _skip_file(forward, header, size)
    raise Uncheckable("it holds more files than can be checked")


def _skip_file(forward: Forward, header: bytes, size: int | None) -> int | None:
    """Leap over what follows a header. ``size``: as headers before it tell it; returned is what this one tells."""
    told, kind = _number(header[124:136]), header[156:157]
    if told is None:
        raise Uncheckable("a size in it is none that can be checked")
    if kind in _EXTENDED:
        return _extended_size(forward, told, kind, size)
    if kind in _LONG_NAMES:
        forward.skip(_filled_up(told))
        return size
    if kind == _SPARSE:
        _skip_maps(forward, header)
    elif kind in _WITHOUT_DATA:
        if told or size:
            raise Uncheckable("a link in it has a size, which cannot be checked")
    elif kind not in _FILES:
        raise Uncheckable("it holds a kind of file that cannot be checked")
    forward.skip(_filled_up(told if size is None else size))
    return None


def _is_header(block: bytes) -> bool:
    """By its checksum, of which old writers took the bytes as signed numbers."""
    told = _number(block[148:156])
    if told is None or not block[0]:
        return False
    plain = block[:148] + b" " * 8 + block[156:]
    unsigned = sum(plain)
    return told in (unsigned, unsigned - 256 * sum(byte > 127 for byte in plain))


def _number(field: bytes) -> int | None:
    """As text in base 8, or in the bytes themselves where that would be too long; None when it is neither."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    text = field.split(b"\0")[0].strip()
    try:
        return int(text or b"0", 8) if not text.strip(b"01234567") else None
    except ValueError:
        return None


def _filled_up(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def _extended_size(forward: Forward, told: int, kind: bytes, size: int | None) -> int | None:
    """The size that an extended header tells of the next file, whose own header may have no room for it."""
    if told > _EXTENDED_BYTES_MAX:
        forward.skip(told)
        raise Uncheckable("it tells more about a file than can be checked")
    found = _SIZE.search(forward.take(_filled_up(told))[:told])
    if found and kind == _EXTENDED_FOR_ALL:
        raise Uncheckable("it tells sizes in a way that cannot be checked")
    return int(found[1]) if found else size


def _skip_maps(forward: Forward, header: bytes) -> None:
    """Where the data of a sparse file lies stands before it, in as many blocks as that takes."""
    more = header[482]
    for _ in range(_SPARSE_MAPS_MAX):
        if not more:
            return
        more = forward.take(_BLOCK_BYTES)[504]
    raise Uncheckable("it holds a sparse file that cannot be checked")
