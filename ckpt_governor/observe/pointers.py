"""Reads the small text files in which trainers name their newest copy: DeepSpeed, Megatron and TensorFlow."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

from ckpt_governor.files import COARSE_S
from ckpt_governor.formats.reading import RegularFile
from ckpt_governor.observe.kept import join
from ckpt_governor.observe.tree import Folder
from ckpt_governor.pointers import Pointer

TEXT_BYTES_MAX = 4096
POINTERS_MAX = 200
_NAME = re.compile(r"[\w.+=-]{1,255}")
_TENSORFLOW = re.compile(r'^model_checkpoint_path:\s*"([^"\\/]+)"\s*$', re.MULTILINE)


def _deepspeed(text: str, _: Sequence[str]) -> str | None:
    """The name of a folder beside it; empty for the instant in which it is rewritten."""
    return text if _NAME.fullmatch(text) else None


def _megatron(text: str, folders: Sequence[str]) -> str | None:
    if text == "release":
        return text
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        return None
    number = int(text)
    written = next(
        (name for name in folders if re.fullmatch(f"(?:iter|global_step)_?0*{number}", name)), None
    )
    others = any(name.startswith("global_step") for name in folders)
    return written or (f"global_step_{number}" if others else f"iter_{number:07d}")


def _tensorflow(text: str, _: Sequence[str]) -> str | None:
    found = _TENSORFLOW.search(text)
    return found[1] if found is not None else None


_NAMERS: dict[str, Callable[[str, Sequence[str]], str | None]] = {
    "latest": _deepspeed,
    "latest_checkpointed_iteration.txt": _megatron,
    "checkpoint": _tensorflow,
}


@frozen(kw_only=True)
class _Known:
    """A pointer's text as it was read, and since when its size and times have been those."""

    mark: tuple[int, int, int]
    since_s: float
    text: str


class PointerReader:
    """Remembers what it read: a pointer that did not change is not opened again."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._files: tuple[str, ...] = ()

    def files(self) -> tuple[str, ...]:
        """All that the last look found, whatever they say."""
        return self._files

    def look(
        self, root: int, places: Iterable[tuple[str, Folder]], now_s: float
    ) -> tuple[tuple[Pointer, bool], ...]:
        """Every pointer of these folders, and whether what it names is there. Never raises for what it finds."""
        found: list[tuple[Pointer, bool]] = []
        known: dict[str, _Known] = {}
        files: list[str] = []
        for folder_path, folder in places:
            links = _NAMERS.keys() & folder.links if folder.links else ()
            files += [join(folder_path, name) for name in (*(_NAMERS.keys() & folder.holds()), *links)]
            for name in _NAMERS.keys() & folder.holds() if len(found) < POINTERS_MAX else ():
                path = join(folder_path, name)
                try:
                    known[path] = self._read(root, path, now_s)
                except OSError:
                    continue  # being replaced, or not ours to read: nothing is known of it
                to = _NAMERS[name](known[path].text, folder.folders)
                if to is not None and "/" not in to and to not in ("", ".", ".."):
                    found.append((Pointer(name=path, to=join(folder_path, to)), _holds(folder, to)))
        self._known, self._files = known, tuple(sorted(files))
        return tuple(sorted(found, key=lambda one: one[0].name))

    def _read(self, root: int, path: str, now_s: float) -> _Known:
        seen = os.stat(path, dir_fd=root, follow_symlinks=False)
        mark = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
        known = self._known.get(path)
        since_s = known.since_s if known is not None and known.mark == mark else now_s
        if known is not None and known.mark == mark and now_s - since_s > COARSE_S:
            return known
        with RegularFile(root, path) as file:
            data = file.read_at(0, TEXT_BYTES_MAX) if file.size <= TEXT_BYTES_MAX else b""
        return _Known(mark=mark, since_s=since_s, text=data.decode("utf-8", "replace").strip())


def _holds(folder: Folder, copy: str) -> bool:
    """Whether the copy of this name is there, or files that bear it."""
    if copy in folder.folders or copy in folder.links or copy in folder.holds():
        return True
    return any(file.startswith(f"{copy}.") for file in folder.files)
