"""What writes that died have left: it has a name and bytes, and is no copy. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ckpt_governor.facts import Copy, CopyStatus, Leftover


def leftovers(copies: Iterable[Copy]) -> tuple[Copy, ...]:
    """The temporaries of dead writes."""
    return tuple(copy for copy in copies if copy.temporary and copy.status is CopyStatus.UNKNOWN)


def leftovers_of(copies: Iterable[Copy]) -> tuple[Leftover, ...]:
    """Their names and bytes."""
    return tuple(Leftover(name=copy.name, bytes=copy.bytes) for copy in leftovers(copies))
