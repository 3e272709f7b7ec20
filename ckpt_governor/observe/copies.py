"""The eye that finds the copies of one unit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice

from attrs import evolve, frozen

from ckpt_governor.facts import Copy, CopyStatus, Sighting, Structure, Whole
from ckpt_governor.formats.interface import Format
from ckpt_governor.formats.manifest import manifest_beside
from ckpt_governor.formats.naming import is_temporary, step_of
from ckpt_governor.formats.reading import words
from ckpt_governor.observe.elders import lacks
from ckpt_governor.observe.keeping import Kept
from ckpt_governor.observe.kept import JUDGE_S_MAX, MEMBERS_MAX, FilesOf, join, judge, mtime_ns, restless, see
from ckpt_governor.observe.links import Dangling, resolve
from ckpt_governor.observe.losses import REMEMBERED_MAX, lost, whole_of
from ckpt_governor.observe.places import Places
from ckpt_governor.observe.pointers import PointerReader
from ckpt_governor.observe.tree import Folder, Tree
from ckpt_governor.observe.twins import find_copied
from ckpt_governor.pointers import Pointer

SHOWN_MAX = 200
"""The newest copies that are shown; fewer than are followed over time, so that none is dropped there and comes back."""
TEMPORARIES_MAX = 48
STATS_MAX = 500
"""Up to so many files are all looked at in every look. Where there are more, half of that goes to what changed last,
and half to the rest in turn."""
DANGLING_S = 5.0
"""Links are removed and made anew, with a moment between."""
LINKS_MAX = 200
_OLD_S = 60.0


@frozen(kw_only=True)
class Look:
    """What one look at a unit showed."""

    sightings: tuple[Sighting, ...] = ()
    dangling: tuple[tuple[str, str], ...] = ()
    """Links, and text files that name the newest copy, that name nothing: (name, to)."""
    pointers: tuple[Pointer, ...] = ()
    """The text files that name a copy which is there."""
    pointer_files: tuple[str, ...] = ()
    """All such text files and links, whatever they name."""
    truncated: bool = False
    """A bound was hit: there is more than was looked at."""
    blind: str = ""
    """Why the unit itself cannot be listed; empty when it can."""
    partial: bool = False
    """The walk ran out of its time and goes on at the next look; the sightings are those of the last whole walk.
    Whoever follows copies over time waits for a whole one."""
    unfinished: bool = False
    """A check took long and goes on at the next look."""
    copy_count: int = 0
    """All copies, including old ones that are no longer shown."""


class CopyScanner:
    """Finds the copies of one unit; remembers what it saw, so that an unchanged copy costs only ``stat`` calls."""

    def __init__(
        self,
        unit: str,
        *,
        followed: frozenset[str] = frozenset(),
        wholes: Iterable[Whole] = (),
        budget_s: float = 0.5,
        judge_s: float = JUDGE_S_MAX,
    ) -> None:
        """``followed``: names that the ledger knows, so that they are shown even among very many; ``wholes``: what it
        knows of sound copies. ``budget_s`` is the time of one look, ``judge_s`` that of the members of one copy:
        whoever keeps a beat cannot wait for them."""
        self._unit, self._followed = os.path.abspath(unit), followed
        self._budget_s, self._judge_s = budget_s, judge_s
        self._wholes = {whole.name: whole for whole in wholes}
        self._tree, self._places = Tree(), Places()
        self._walk: Generator[None, None, Look] | None = None
        self._last = Look()
        self._walks = 0
        self._orders = 0
        self._sorted: tuple[tuple[int, int], list[Kept]] = ((-1, -1), [])
        self._turn = 0
        self._shown: list[Kept] = []
        self._copy_count = 0
        self._dangling_since_s: dict[tuple[str, str], float] = {}
        self._pointers = PointerReader()

    def look(self, now_s: float, volume_offset_s: float) -> Look:
        """One look; never raises for what lies in the unit. ``volume_offset_s``: the volume's clock minus ours."""
        walk = self._walk or self._look(now_s, volume_offset_s)
        self._walk = None
        end_s = time.monotonic() + self._budget_s
        try:
            while True:
                next(walk)
                if time.monotonic() >= end_s:
                    self._walk = walk
                    return evolve(self._last, partial=True, blind="")
        except StopIteration as stop:
            self._last = stop.value
            return self._last
        except OSError as error:
            return evolve(self._last, blind=words(error))

    def _look(self, now_s: float, offset_s: float) -> Generator[None, None, Look]:
        root = os.open(self._unit, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:

            def list_folder(path: str) -> Folder:
                return self._tree.list(root, path, now_s, now_s + offset_s)

            first = self._walks == 0
            self._walks += 1
            self._tree.begin_walk()
            version = self._places.version
            self._choose_due()
            yield from self._places.refresh(list_folder, self._walks)
            changed: list[Kept] = []
            for kept in self._to_see():
                if self._see(kept, root, list_folder, now_s, offset_s):
                    changed.append(kept)
                yield
            if first:
                self._put_in_order(changed)
            for kept in changed:
                if not kept.retired:
                    self._judge(kept, root, list_folder, now_s, offset_s)
                    yield
            if changed or version != self._places.version:
                self._choose_shown(now_s)
                find_copied(changed, self._shown, root)
                self._tree.keep_only(self._in_use)
            return self._show(root, now_s)
        finally:
            os.close(root)

    def files_of(self, name: str, root: int) -> tuple[Format, FilesOf] | None:
        """A copy of the last look, to be read as a whole; ``root`` is the open unit. None when there is none."""
        for kept in self._places.kept():
            if kept.path == name and kept.format is not None:
                return kept.format, FilesOf(kept, root, self._neighbours(kept), 0.0)
        return None

    def remember(self, copies: Iterable[Copy]) -> tuple[Whole, ...]:
        """Takes down what the newest sound copies hold; returns that, and what those held that have lost something.

        The newest one comes last.
        """
        sound = [copy for copy in copies if copy.status is CopyStatus.SOUND and not copy.temporary]
        found = {}
        for name, whole in self._wholes.items():
            kept = self._places.find(name)
            if kept is not None and kept.lost:
                found[name] = whole
        for copy in sorted(sound, key=lambda copy: copy.serial)[-REMEMBERED_MAX:]:
            known = self._wholes.get(copy.name)
            if known is None or known.fingerprint != copy.fingerprint:
                kept = self._places.find(copy.name)
                known = whole_of(kept, copy.fingerprint) if kept is not None else None
            if known is not None:
                found[copy.name] = known
        self._wholes = found
        return tuple(found.values())

    # ---- what is looked at ---------------------------------------------------------------------------------------

    def _in_order(self) -> list[Kept]:
        """Everything kept, what changed last at the end."""
        version = (self._places.version, self._orders)
        if self._sorted[0] != version:
            self._sorted = (version, sorted(self._places.kept(), key=lambda kept: (kept.order, kept.path)))
        return self._sorted[1]

    def _choose_due(self) -> None:
        """Everything where there is little; else the newest, what changed lately, and some of the rest in turn."""
        kept = self._in_order()
        everything = sum(_cost(one) for one in kept[: STATS_MAX + 1]) <= STATS_MAX and len(kept) <= STATS_MAX
        spent = 0
        for one in reversed(kept):
            if not everything and spent >= STATS_MAX // 2:
                break
            one.due = self._walks
            spent += _cost(one)
        spent = 0
        for _ in kept if not everything else ():
            self._turn = (self._turn + 1) % len(kept)
            if kept[self._turn].due != self._walks:
                kept[self._turn].due = self._walks
                spent += _cost(kept[self._turn])
            if spent >= STATS_MAX // 2:
                break

    def _to_see(self) -> list[Kept]:
        """What is due, and what is new."""
        return [kept for kept in self._in_order() if kept.due in (0, self._walks)]

    def _see(
        self, kept: Kept, root: int, list_folder: Callable[[str], Folder], now_s: float, offset_s: float
    ) -> bool:
        """Whether it must be judged: something of it changed, or the time has come to judge it once more."""
        try:
            changed = see(kept, root, list_folder)
        except FileNotFoundError:
            self._places.drop(kept)
            return False
        beside = self._beside(kept, root)
        marked = beside != kept.beside
        kept.beside, kept.due = beside, self._walks
        if changed:
            self._orders += 1
            kept.order, kept.changed_s, kept.twin_of = self._orders, now_s, None
            if self._walks > 1:
                kept.retired = False
        return changed or marked or (kept.again_s is not None and now_s >= kept.again_s)

    def _beside(self, kept: Kept, root: int) -> tuple[tuple[str, int | None], ...]:
        if kept.format is None:
            return ()
        watched = (*kept.format.watches_beside(kept.name), manifest_beside(kept.name))
        there = self._neighbours(kept)
        return tuple((name, mtime_ns(root, join(kept.folder, name))) for name in watched if name in there)

    def _neighbours(self, kept: Kept) -> frozenset[str]:
        place = self._places.all.get(kept.folder)
        return place.folder.holds() if place is not None else frozenset()

    def _put_in_order(self, found: list[Kept]) -> None:
        """At the first look: by step where all have one, else by time. Beyond the bound the oldest are not read."""
        named = [kept for kept in found if not kept.temporary and kept.likely]
        by_step = all(step_of(kept.name) is not None for kept in named)
        found.sort(key=lambda kept: ((step_of(kept.name) or 0) if by_step else 0, kept.written_ns, kept.path))
        for order, kept in enumerate(found, 1):
            kept.order = order
        others = [kept for kept in found if not kept.temporary and not kept.likely]
        for alike in (named, others):
            alike.sort(key=lambda kept: kept.order)
            for kept in alike[:-SHOWN_MAX]:
                kept.retired = kept.path not in self._followed

    # ---- what is made of it --------------------------------------------------------------------------------------

    def _judge(
        self, kept: Kept, root: int, list_folder: Callable[[str], Folder], now_s: float, offset_s: float
    ) -> None:
        """Judge it, and make sure that it did not change meanwhile: else parts of two states would be one verdict."""
        beside = self._neighbours(kept)
        try:
            for _ in range(2):
                judge(kept, root, beside, now_s, offset_s, self._judge_s)
                whole = kept.judged is not None and kept.judged.structure is Structure.COMPLETE
                if not whole or not see(kept, root, list_folder):
                    break
            else:
                restless(kept, now_s, offset_s)
            self._compare(kept)
        except FileNotFoundError:
            self._places.drop(kept)
            return

    def _compare(self, kept: Kept) -> None:
        """With the copies before it, and with itself: what they all had, or it had when it was sound, is missed."""
        place = self._places.all.get(kept.folder)
        kept.lacks, kept.renewed = lacks(kept, place.folders.values() if place is not None else ())
        kept.lost = lost(kept, self._wholes.get(kept.path))
        if kept.shown is not None and (kept.shown.lacks, kept.shown.lost) != (kept.lacks, kept.lost):
            kept.shown = evolve(kept.shown, lacks=kept.lacks, renewed=kept.renewed, lost=kept.lost)

    def _choose_shown(self, now_s: float) -> None:
        """The newest copies and temporaries; a copy that is not shown any more stays so until it changes."""
        kept = self._in_order()
        finals = [one for one in kept if one.shown is not None and not one.temporary and not one.retired]
        for one in finals[: max(0, len(finals) - SHOWN_MAX)]:
            one.retired = one.path not in self._followed and now_s - one.changed_s >= _OLD_S
        temporaries = [one for one in kept if one.shown is not None and one.temporary]
        self._shown = [one for one in finals if not one.retired] + temporaries[-TEMPORARIES_MAX:]
        unread = sum(one.retired and one.shown is None and one.likely and not one.temporary for one in kept)
        known = len({one.shown.inode for one in kept if one.shown is not None and not one.temporary})
        self._copy_count = known + unread

    def _show(self, root: int, now_s: float) -> Look:
        """The sightings: hard links, links and copied files are further names of one copy."""
        by_inode: dict[str, list[Kept]] = {}
        names: dict[str, str] = {}
        by_path = {kept.path: kept for kept in self._shown}
        for kept in self._shown:
            if kept.shown is not None:
                twin = by_path.get(kept.twin_of[0]) if kept.twin_of is not None else None
                same = kept.shown
                if (
                    twin is not None
                    and twin.shown is not None
                    and kept.twin_of == (twin.path, twin.shown.fingerprint)
                ):
                    same = twin.shown
                by_inode.setdefault(same.inode, []).append(kept)
                names[kept.path] = same.inode
                names.update((join(kept.folder, part), same.inode) for part in kept.group)
        folders = ((path, place.folder) for path, place in self._places.all.items())
        pointers = self._pointers.look(root, folders, now_s)
        links, dangling = self._links(root, now_s, names, pointers)
        sightings = []
        for inode, same_copies in by_inode.items():
            originals = [kept for kept in same_copies if kept.shown is not None and kept.shown.inode == inode]
            first = min(originals, key=lambda kept: (step_of(kept.path) is None, kept.path))
            also = sorted({kept.path for kept in same_copies} - {first.path} | links.get(inode, set()))
            sightings.append(_named(first, tuple(also)))
        return Look(
            sightings=tuple(sightings),
            dangling=dangling,
            pointers=tuple(pointer for pointer, there in pointers if there),
            unfinished=any(kept.unfinished for kept in self._shown),
            pointer_files=self._pointers.files(),
            truncated=self._places.truncated or any(len(kept.members) >= MEMBERS_MAX for kept in self._shown),
            copy_count=self._copy_count,
        )

    def _links(
        self, root: int, now_s: float, names: dict[str, str], pointers: Iterable[tuple[Pointer, bool]]
    ) -> tuple[dict[str, set[str]], tuple[tuple[str, str], ...]]:
        """The links that are further names of copies, by inode; and what has named nothing for a while."""
        also: dict[str, set[str]] = {}
        dangling: dict[tuple[str, str], float] = {}
        for path in islice(self._link_paths(), LINKS_MAX):
            try:
                _, target = resolve(root, self._unit, path)
            except Dangling as nothing:
                pair = (path, str(nothing))
                dangling[pair] = self._dangling_since_s.get(pair, now_s)
                continue
            except OSError:
                continue
            if target is not None and target in names:
                also.setdefault(names[target], set()).add(path)
        for pointer, there in pointers:
            if not there:
                pair = (pointer.name, pointer.to)
                dangling[pair] = self._dangling_since_s.get(pair, now_s)
        self._dangling_since_s = dangling
        return also, tuple(pair for pair, since_s in dangling.items() if now_s - since_s >= DANGLING_S)

    def _in_use(self, path: str) -> bool:
        """Whether a folder is a place, or a part of something kept."""
        while path not in self._places.all:
            folder = path.rpartition("/")[0]
            place = self._places.all.get(folder)
            if place is not None:
                return path in place.folders
            path = folder
        return True

    def _link_paths(self) -> Iterator[str]:
        for path, place in self._places.all.items():
            for name in place.folder.links:
                if not name.startswith(".") and not is_temporary(name):
                    yield join(path, name)


def _cost(kept: Kept) -> int:
    return max(1, len(kept.members))


def _named(kept: Kept, also: tuple[str, ...]) -> Sighting:
    """Its sighting with its further names; a step that only one of them tells is its step."""
    shown = kept.shown
    assert shown is not None
    if also == shown.also:
        return shown
    step = step_of(kept.name)
    for name in also:
        step = step if step is not None else step_of(name)
    kept.shown = evolve(shown, also=also, step=step)
    return kept.shown
