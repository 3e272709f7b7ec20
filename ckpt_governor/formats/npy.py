"""NumPy's .npy: a short text that tells the type and shape, and the numbers; the size follows to the byte."""

from __future__ import annotations

import math
import re

from ckpt_governor.facts import SmallSize, Structure
from ckpt_governor.formats.forward import Uncheckable
from ckpt_governor.formats.interface import HEAD_BYTES, Files, Format, Judgement, OpenFile
from ckpt_governor.formats.naming import names_a_copy, suffix_of
from ckpt_governor.formats.unwritten import judge_tail
from ckpt_governor.formats.zip_records import LOCAL

_BYTES_MAX = 1 << 4096
"""Python refuses to print a number of very many digits, and no file system holds as much."""
_MAGIC = b"\x93NUMPY"
_TEXT_BYTES_MAX = 64 << 10
"""NumPy itself reads no more than ten thousand unless it is told to."""
_ARRAYS_MAX = 1000
_DEPTH_MAX = 16

# NumPy writes the text in this form alone; nothing of it is evaluated.
_TEXT = re.compile(
    r"\s*\{\s*'descr':\s*(?P<type>\S.*?),\s*'fortran_order':\s*(?:True|False),"
    r"\s*'shape':\s*\((?P<shape>[0-9L,\s]*)\),?\s*\}\s*",
    re.ASCII | re.DOTALL,
)
_SIMPLE = re.compile(
    r"[<>|=]?(?P<kind>[?biufcmMSaUVO])(?P<width>[0-9]{0,10})(?:\[[A-Za-z0-9/]*\])?", re.ASCII
)
_TOKEN = re.compile(r"\s*(?:(?P<mark>[\[\](),])|'(?P<text>[^'\\]*)'|(?P<number>[0-9]{1,18})L?)\s*", re.ASCII)


class Npy(Format):
    """It grows at its final name."""

    word = "npy"

    def claims_file(self, name: str, head: bytes) -> bool:
        if head.startswith(_MAGIC):
            return names_a_copy(name)
        return suffix_of(name) == "npy" and not head.startswith(LOCAL)

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            return _judge(file, files)


def _judge(file: OpenFile, files: Files) -> Judgement:
    at = 0
    for _ in range(_ARRAYS_MAX):  # one file may hold several, one after another
        first = file.read_at(at, 12)
        if not first.startswith(_MAGIC):
            return _unrecognised(file, at, first)
        length_bytes = 2 if first[6:7] == b"\1" else 4
        text_at = at + 8 + length_bytes
        length = int.from_bytes(first[8 : 8 + length_bytes], "little")
        if len(first) < 12 or file.size < text_at + length:
            return Judgement(Structure.INCOMPLETE, "its beginning is cut")
        if first[6] not in (1, 2, 3):
            return Judgement(Structure.SHAPELESS, f"it is of version {first[6]}, which cannot be checked")
        try:
            data_bytes = _data_bytes(file, text_at, length)
        except Uncheckable as why:
            return Judgement(Structure.SHAPELESS, str(why))
        if data_bytes is None:
            return _judge_pickle(file)
        end = text_at + length + data_bytes
        if file.size < end:
            return Judgement(Structure.INCOMPLETE, f"{end - file.size} of {end} bytes are missing")
        if file.size == end:
            return judge_tail(file, files, text_at + length)
        at = end
    return Judgement(Structure.SHAPELESS, "it holds more arrays than can be checked")


def _unrecognised(file: OpenFile, at: int, first: bytes) -> Judgement:
    """NumPy reads an array whatever follows it, so that this proves nothing."""
    if at:
        return Judgement(
            Structure.SHAPELESS, f"{file.size - at} bytes follow its array, and cannot be checked"
        )
    if not first:
        return Judgement(Structure.INCOMPLETE, "empty")
    if _MAGIC.startswith(first):
        return Judgement(Structure.INCOMPLETE, "its beginning is cut")
    if file.tail_hole() == 0:
        return Judgement(Structure.INCOMPLETE, "nothing of it was ever written")
    if not any(file.read_at(0, HEAD_BYTES)):
        return Judgement(Structure.INCOMPLETE, "it begins with nothing but zeros")
    return Judgement(Structure.SHAPELESS, "it does not begin as NumPy begins a file, and cannot be checked")


def _judge_pickle(file: OpenFile) -> Judgement:
    if file.read_at(file.size - 1, 1) != b".":
        return Judgement(Structure.INCOMPLETE, "it holds a pickle whose end is missing")
    why = "it holds a pickle, which cannot be checked"
    return Judgement(Structure.SHAPELESS, why, small=SmallSize.NOTHING)


def _data_bytes(file: OpenFile, text_at: int, length: int) -> int | None:
    """How many bytes follow the text; None when that is a pickle. Raises Uncheckable and OSError."""
    if length > _TEXT_BYTES_MAX:
        raise Uncheckable("its beginning is too long to be checked")
    text = _TEXT.fullmatch(file.read_at(text_at, length).decode("latin-1"))
    if text is None:
        raise Uncheckable("its beginning is none that can be checked")
    width = _Type(text["type"]).width()
    shape = [part.strip() for part in text["shape"].replace("L", "").split(",")]
    if any(len(part) > 18 or (part and not part.isdecimal()) for part in shape):
        raise Uncheckable("its shape is none that can be checked")
    if width is None:
        return None
    data_bytes = width * math.prod(int(part) for part in shape if part)
    if data_bytes > _BYTES_MAX:
        raise Uncheckable("its shape is none that can be checked")
    return data_bytes


class _Type:
    """The type of one element, as text: a plain one, or a list of fields."""

    def __init__(self, text: str) -> None:
        self._tokens: list[re.Match[str]] = []
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise Uncheckable("its type is none that can be checked")
            self._tokens.append(token)
            at = token.end()
        self._at = 0
        self._holds_objects = False

    def width(self) -> int | None:
        """How many bytes an element has; None when they are objects."""
        width = self._type(0)
        if self._at != len(self._tokens):
            raise Uncheckable("its type is none that can be checked")
        return None if self._holds_objects else width

    def _next(self) -> re.Match[str] | None:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else None

    def _mark(self, *marks: str) -> str:
        token = self._next()
        if token is None or token["mark"] not in marks:
            raise Uncheckable("its type is none that can be checked")
        return token["mark"]

    def _is_next(self, mark: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at]["mark"] == mark

    def _text(self) -> str:
        token = self._next()
        if token is None or token["text"] is None:
            raise Uncheckable("its type is none that can be checked")
        return token["text"]

    def _type(self, depth: int) -> int:
        if depth > _DEPTH_MAX:
            raise Uncheckable("its type is none that can be checked")
        if self._is_next("["):
            return self._fields(depth)
        if self._is_next("("):  # a type of its own with a shape
            return self._shaped(depth)
        simple = _SIMPLE.fullmatch(self._text())
        if simple is None:
            raise Uncheckable("its type is none that can be checked")
        if simple["kind"] == "O":
            self._holds_objects = True
            return 0
        return int(simple["width"] or 1) * (4 if simple["kind"] == "U" else 1)

    def _shaped(self, depth: int) -> int:
        self._mark("(")
        width = self._type(depth + 1)
        self._mark(",")
        width *= self._shape()
        self._mark(")")
        return width

    def _fields(self, depth: int) -> int:
        """``[(name, type), (name, type, shape), ((title, name), type)]``"""
        self._mark("[")
        width = 0
        while not self._is_next("]"):
            self._mark("(")
            self._name()
            self._mark(",")
            field = self._type(depth + 1)
            if self._mark(",", ")") == ",":
                field *= self._shape()
                self._mark(")")
            width += field
            if self._mark(",", "]") == "]":
                return width
        self._mark("]")
        return width

    def _name(self) -> None:
        if not self._is_next("("):
            self._text()
            return
        self._mark("(")
        self._text()
        self._mark(",")
        self._text()
        self._mark(")")

    def _shape(self) -> int:
        self._mark("(")
        count = 1
        while not self._is_next(")"):
            token = self._next()
            if token is None or token["number"] is None:
                raise Uncheckable("its type is none that can be checked")
            count *= int(token["number"])
            if self._mark(",", ")") == ")":
                return count
        self._mark(")")
        return count
