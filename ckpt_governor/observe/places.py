"""Where copies can be in a unit: which names of which folders are, or may be, a copy or a part of a write."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ckpt_governor.formats import format_named, format_of_folder, group_of
from ckpt_governor.formats.interface import Format
from ckpt_governor.formats.naming import (
    COPY_SUFFIXES,
    final_of,
    is_ignored,
    is_other,
    is_temporary,
    is_unfinished_mark,
    mark_of,
    numbered_word,
    suffix_of,
)
from ckpt_governor.observe.keeping import Kept
from ckpt_governor.observe.kept import Lister, join
from ckpt_governor.observe.tree import Folder, gone

DEPTH_MAX = 4
FOLDERS_MAX = 10_000
NAMES_MAX = 200_000
"""In all folders together; a folder that is one copy has its own bound."""
_TENSORFLOW_PART = re.compile(r"part-[0-9]{5}-of-[0-9]{5}\.", re.ASCII)


class Place:
    """A folder that is looked into: its listing, and what in it is kept."""

    __slots__ = ("files", "folder", "folders", "stale")

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.files: dict[str, Kept] = {}
        """Files and groups by their paths."""
        self.folders: dict[str, Kept] = {}
        """Folders that are one copy, or a part of a write, by their paths."""
        self.stale = False

    def all(self) -> Iterator[Kept]:
        """Everything kept here."""
        yield from self.files.values()
        yield from self.folders.values()

    def drop(self, kept: Kept) -> None:
        """It is gone; should it come again under an unchanged listing, it is taken up anew."""
        self.files.pop(kept.path, None)
        self.folders.pop(kept.path, None)
        self.stale = True


class Places:
    """All places of one unit."""

    def __init__(self) -> None:
        self.all: dict[str, Place] = {}
        self.truncated = False
        self.version = 0
        """Grows when something new is kept or something kept is gone."""

    def kept(self) -> list[Kept]:
        """Everything kept, whatever it turned out to be."""
        return [kept for place in self.all.values() for kept in place.all()]

    def find(self, path: str) -> Kept | None:
        """What is kept under this path."""
        place = self.all.get(path.rpartition("/")[0])
        return None if place is None else place.folders.get(path) or place.files.get(path)

    def drop(self, kept: Kept) -> None:
        """It is gone."""
        place = self.all.get(kept.folder)
        if place is not None:
            place.drop(kept)
            self.version += 1

    def holds(self, kept: Kept) -> bool:
        """Whether it is still kept."""
        place = self.all.get(kept.folder)
        return place is not None and kept in (place.files.get(kept.path), place.folders.get(kept.path))

    def refresh(self, list_folder: Lister, due: int) -> Iterator[None]:
        """Walks the folders, one step each time; what is kept as a folder is listed only when it is due.

        Raises OSError when the unit itself cannot be listed.
        """
        todo, seen, names = [("", 0)], set[str](), 0
        self.truncated = False
        while todo:
            path, depth = todo.pop()
            if len(seen) >= FOLDERS_MAX or names > NAMES_MAX:
                self.truncated = True
                break
            try:
                folder = list_folder(path)
            except OSError as error:
                if not path:
                    raise
                if not gone(error) and path in self.all:
                    seen.add(path)  # unreadable for now: what is known of it stays
                continue
            seen.add(path)
            names += len(folder.files) + len(folder.folders) + len(folder.links)
            self.truncated = self.truncated or folder.full
            place = self._place(path, folder)
            for name in folder.folders:
                if not name.startswith("."):
                    inner = join(path, name)
                    if not self._is_copy(place, inner, name, list_folder, due) and depth < DEPTH_MAX:
                        todo.append((inner, depth + 1))
                    yield
            yield
        for path in [path for path in self.all if path not in seen]:
            del self.all[path]
            self.version += 1

    def _place(self, path: str, folder: Folder) -> Place:
        place = self.all.get(path)
        if place is None:
            place = self.all[path] = Place(folder)
        elif not place.stale and (place.folder is folder or place.folder.same_names(folder)):
            place.folder = folder
            return place
        place.folder, place.stale = folder, False
        self.version += 1
        place.files = _taken_up(path, folder, place.files)
        inside = {join(path, name) for name in folder.folders}
        place.folders = {path: kept for path, kept in place.folders.items() if path in inside}
        return place

    def _is_copy(self, place: Place, path: str, name: str, list_folder: Lister, due: int) -> bool:
        """Whether a folder is kept as a whole."""
        known = place.folders.get(path)
        if known is not None and known.due != due:
            return True
        try:
            folder = list_folder(path)
        except OSError as error:
            if gone(error):
                self._forget(place, path)
                return True
            return known is not None or self._unlisted(place, path, name)
        if folder.claim is None:
            folder.claim = _claim(name, folder)
        if not folder.claim:
            self._forget(place, path)
            return False
        format, temporary = folder.claim
        if known is None or known.format is not format or known.temporary is not temporary:
            known = place.folders[path] = Kept(path, format, temporary=temporary)
            self.version += 1
        known.mark = folder.mark[:2]
        return True

    def _unlisted(self, place: Place, path: str, name: str) -> bool:
        """A folder that may not be listed is kept for its name: unknown is better than unseen."""
        format = None if is_temporary(name) else format_of_folder(name, (), ())
        if format is not None:
            kept = place.folders[path] = Kept(path, format)
            kept.mark = (0, 0)
            self.version += 1
        return format is not None

    def _forget(self, place: Place, path: str) -> None:
        if place.folders.pop(path, None) is not None:
            self.version += 1


def _marked(folder: Folder) -> frozenset[str]:
    """The marks whose copies are there beside them."""
    return frozenset(mark_of(name) for name in (*folder.folders, *folder.files, *folder.links))


def _claim(name: str, folder: Folder) -> tuple[Format, bool] | tuple[()]:
    if not is_temporary(name):
        format = format_of_folder(name, folder.files, folder.folders)
        return (format, False) if format is not None else ()
    promised = final_of(name)
    copies = (
        numbered_word(promised) or suffix_of(promised) in COPY_SUFFIXES or ".orbax-checkpoint-tmp" in name
    )
    whole = copies or any(
        suffix_of(inner) in COPY_SUFFIXES or _TENSORFLOW_PART.match(inner) for inner in folder.files
    )
    format = format_named("folder")
    return (format, True) if whole and format is not None else ()


def _taken_up(at: str, folder: Folder, known: dict[str, Kept]) -> dict[str, Kept]:
    """What the files of one folder are, with what is known of them."""
    groups: dict[str, tuple[Format, list[str]]] = {}
    found: dict[str, Kept] = {}
    marked = _marked(folder) if any(is_unfinished_mark(name) for name in folder.files) else frozenset()
    for name in folder.files:
        path = join(at, name)
        if is_unfinished_mark(name):
            if name not in marked:
                found[path] = known.get(path) or Kept(path, temporary=True)
            continue
        if path in known and not known[path].group and not known[path].apart:
            found[path] = known[path]
            continue
        temporary = is_temporary(name)
        if is_ignored(name) or is_other(final_of(name) if temporary else name):
            continue
        if name.startswith(".") and not temporary:
            continue
        group = None if temporary else group_of(name)
        if group is None:
            found[path] = Kept(path, temporary=temporary)
        else:
            groups.setdefault(group[1], (group[0], []))[1].append(name)
    for group_name, (format, parts) in groups.items():
        if not format.is_one(group_name, parts, folder.holds()):
            found.update((path, _apart(path, known)) for path in (join(at, part) for part in parts))
            continue
        path = join(at, group_name)
        kept = known.get(path)
        if kept is None or not kept.group:
            kept = Kept(path, format, tuple(parts))
        kept.group = tuple(parts)
        found[path] = kept
    return found


def _apart(path: str, known: dict[str, Kept]) -> Kept:
    kept = known.get(path) or Kept(path)
    kept.apart = True
    return kept
