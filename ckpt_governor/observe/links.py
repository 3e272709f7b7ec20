"""Where a symbolic link of the unit points, found without ever following one: the target may be a dead volume."""

from __future__ import annotations

import os
import stat

_HOPS_MAX = 16
_STEPS_MAX = 256
"""Parts of paths, over all hops; one that is longer leads nowhere that is looked at."""


class Dangling(Exception):
    """The link names nothing, or itself."""


def resolve(root: int, unit: str, path: str) -> tuple[str, str | None]:
    """The link's own text, and the path below the root that it names; None when that lies outside.

    Raises Dangling with the text when nothing is there, and OSError.
    """
    text = os.readlink(path, dir_fd=root)
    todo = _steps(unit, text, path.rpartition("/")[0])
    if todo is None:
        return text, None
    done: list[str] = []
    hops = steps = 0
    while todo:
        steps += 1
        if steps > _STEPS_MAX:
            raise Dangling(text)
        part = todo.pop(0)
        if part == "..":
            if not done:
                return text, None
            done.pop()
            continue
        here = "/".join([*done, part])
        try:
            mode = os.stat(here, dir_fd=root, follow_symlinks=False).st_mode
        except (FileNotFoundError, NotADirectoryError):
            raise Dangling(text) from None
        if not stat.S_ISLNK(mode):
            done.append(part)
            continue
        hops += 1
        further = _steps(unit, os.readlink(here, dir_fd=root), "/".join(done)) if hops <= _HOPS_MAX else []
        if hops > _HOPS_MAX:
            raise Dangling(text)
        if further is None:
            return text, None
        done, todo = [], further + todo
    return text, "/".join(done)


def _steps(unit: str, text: str, folder: str) -> list[str] | None:
    """The steps from the root that a link's text means; None when it leaves the unit at once."""
    if os.path.isabs(text):
        if not text.startswith(unit.rstrip("/") + "/"):
            return None
        text, folder = text[len(unit.rstrip("/")) :], ""
    return [part for part in f"{folder}/{text}".split("/") if part not in ("", ".")]
