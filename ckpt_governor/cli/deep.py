"""``ckptctl copies --deep``: which copies are read as a whole, how far that is, and what it came to."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from attrs import evolve, frozen

from ckpt_governor.cli.look import View
from ckpt_governor.cli.view import EXIT_USAGE, Failure
from ckpt_governor.durations import format_bytes, format_precise
from ckpt_governor.facts import Copy, CopyStatus
from ckpt_governor.observe.deep import Deep, DeepStatus, check_copy, usable_cpus
from ckpt_governor.wording import printable

Tell = Callable[[str, int, int], None]
"""Takes the name of a copy, how many bytes are done in all, and how many there are."""


@frozen(kw_only=True)
class DeepLook:
    """What a deep check of one unit came to."""

    found: dict[str, Deep]
    """By the names of the copies."""
    took_s: float

    @property
    def checked_bytes(self) -> int:
        """Of all copies."""
        return sum(one.checked_bytes for one in self.found.values())

    @property
    def bytes_per_s(self) -> float | None:
        """None when nothing was read."""
        return self.checked_bytes / self.took_s if self.checked_bytes and self.took_s > 0 else None

    def sentence(self) -> str:
        """The line below the table."""
        if self.bytes_per_s is None:
            return "nothing had a checksum that could be checked"
        speed = f"{format_bytes(self.bytes_per_s)} a second"
        return f"checked {format_bytes(self.checked_bytes)} in {format_precise(self.took_s)}, {speed}"

    def record(self, name: str) -> dict[str, Any] | None:
        """Of one copy for JSON; None when it was not asked for."""
        one = self.found.get(name)
        if one is None:
            return None
        return {
            "status": one.status.value,
            "why": one.why or None,
            "bytes": one.bytes,
            "checked_bytes": one.checked_bytes,
        }

    def cell(self, name: str) -> str:
        """Of one copy for the table."""
        one = self.found.get(name)
        if one is None:
            return "-"
        if one.status is DeepStatus.NO_CHECKSUMS:
            return "no checksums"
        if one.checked_bytes == 0:
            return "nothing"
        return format_bytes(one.checked_bytes)

    def told(self, view: View) -> View:
        """The view, with what was found in it: a copy with a wrong checksum is broken, whatever its structure says."""
        copies = tuple(self._told(copy) for copy in view.ledger.copies)
        return evolve(view, ledger=evolve(view.ledger, copies=copies))

    def _told(self, copy: Copy) -> Copy:
        one = self.found.get(copy.name)
        if one is None or one.status is DeepStatus.NO_CHECKSUMS or not one.why:
            return copy  # its cell says it
        if one.status is DeepStatus.BROKEN:
            return evolve(copy, status=CopyStatus.BROKEN, why=one.why)
        return evolve(copy, why="; ".join(dict.fromkeys(filter(None, (copy.why, one.why)))))


def names_asked_for(given: Sequence[str], view: View) -> frozenset[str]:
    """The copies that are meant, by their names or by their paths; all when none is named. Raises Failure."""
    known = {copy.name for copy in view.copies}
    found = set()
    for text in given:
        path = os.path.relpath(os.path.abspath(text), view.paths.unit)
        name = next((name for name in (text.rstrip("/"), path) if name in known), None)
        if name is None:
            raise Failure(f"no copy is called {text}; ckptctl copies shows what there is", EXIT_USAGE)
        found.add(name)
    return frozenset(found or known)


def look_deeply(view: View, names: frozenset[str]) -> DeepLook:
    """Reads these copies, one after another, each with all cores."""
    chosen = [copy for copy in view.copies if copy.name in names]
    threads, begun_s = usable_cpus(), time.monotonic()
    found: dict[str, Deep] = {}
    root = os.open(view.paths.unit, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _progress() as tell:
            left_bytes, done_bytes = sum(copy.bytes for copy in chosen), 0
            for copy in chosen:
                left_bytes -= copy.bytes
                told = partial(_tell, tell, copy.name, done_bytes, left_bytes)
                told(0, copy.bytes)
                found[copy.name] = _check(view, copy, root, threads, told)
                done_bytes += found[copy.name].checked_bytes
    finally:
        os.close(root)
    return DeepLook(found=found, took_s=time.monotonic() - begun_s)


def _tell(tell: Tell, name: str, before: int, after: int, done: int, planned: int) -> None:
    tell(name, before + done, before + planned + after)


def _check(view: View, copy: Copy, root: int, threads: int, told: Callable[[int, int], None]) -> Deep:
    if copy.status is CopyStatus.WRITING:
        return Deep(status=DeepStatus.UNKNOWN, why=copy.why or "it is being written", bytes=copy.bytes)
    if copy.status is CopyStatus.BROKEN:
        return Deep(status=DeepStatus.BROKEN, why=copy.why, bytes=copy.bytes)
    there = view.scanner.files_of(copy.name, root)
    if there is None:
        return Deep(status=DeepStatus.UNKNOWN, why="it vanished", bytes=copy.bytes)
    return check_copy(*there, threads=threads, progress=told)


# ---- how far it is ---------------------------------------------------------------------------------------------


@contextmanager
def _progress() -> Iterator[Tell]:
    """A bar where somebody looks: with rich, or as a line of its own; nothing where nobody does."""
    if not sys.stderr.isatty():
        yield _tell_nothing
        return
    bar = _rich_bar()
    if bar is not None:
        with bar:
            task = bar.add_task("", total=None)
            yield lambda name, done, total: bar.update(
                task, description=printable(name), completed=done, total=max(total, 1)
            )
        return
    try:
        yield _tell_plainly
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _tell_nothing(name: str, done: int, total: int) -> None:
    pass


def _tell_plainly(name: str, done: int, total: int) -> None:
    text = f"{100 * done // max(total, 1):3d} %  {printable(name)[:60]}"
    print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def _rich_bar() -> Any:
    """None where rich is not installed."""
    try:
        from rich import progress  # an extra, and slow to import
        from rich.console import Console
    except ImportError:
        return None
    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),  # a file may be named like rich's own markup
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
