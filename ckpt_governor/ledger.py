"""What must be remembered from one decision to the next, and across a restart. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from attrs import Factory, evolve, frozen

from ckpt_governor.facts import Copy, CopyStatus, Whole
from ckpt_governor.signs_memory import Memories, moved

SAMPLES_MAX = 32
CAUSES_MAX = 256
WRITES_MAX = 512
SAID_MAX = 1024
STARTS_MAX = 32
REPAIRED_MAX = 64
JUDGED_MAX = 256
REPAIRS_IN_ROW_MAX = 3
"""After so many broken answers in a row no repair is asked for any more."""


class Verdict(str, Enum):
    """The five words of a decision."""

    SAVE = "save"
    REPAIR = "repair"
    SKIP = "skip"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class Refusal(str, Enum):
    """Why a cause gets no write now."""

    NO_TIME = "no-time"
    NO_SPACE = "no-space"
    FRESH = "fresh"
    IN_FLIGHT = "in-flight"
    UNHEARD = "unheard"


class Reason(str, Enum):
    """The reasons of a write besides the conditions."""

    END = "train.end"
    WINDOW = "window"
    BROKEN = "broken"


class CauseState(str, Enum):
    """How far a cause has come; the last four close it."""

    WAITING = "waiting"
    ASKED = "asked"
    SERVED = "served"
    MISSED = "missed"
    UNFIT = "unfit"
    WITHDRAWN = "withdrawn"


OPEN_STATES = (CauseState.WAITING, CauseState.ASKED)


class RequestKind(str, Enum):
    """What state.json asks for."""

    SAVE = "save"
    REPAIR = "repair"


@frozen(kw_only=True)
class Cause:
    """Something that wants one write: an announcement, the end, the window, an edge, a broken copy."""

    key: str
    """Its identity, prefixed by its sort: ``notice:…``, ``end:…``, ``window:…``, ``edge:…``, ``broken:…``."""
    reason: str
    seen_s: float
    since_s: float
    """A sound copy whose write began at or after this moment serves it."""
    deadline_s: float | None = None
    state: CauseState = CauseState.WAITING
    ack_names: tuple[str, ...] = ()
    text: str = ""
    asked_count: int = 0
    """Request ids spent on it, at most three."""
    live: bool = True
    """Its announcement is still there; a closed cause that is gone may be forgotten."""
    released: bool = False
    """Its hook was told ``unfit`` although the request stays: its deadline moved too near."""
    unanswered: bool = False
    """Its hook was told ``missed`` although the request stays: nobody answered three times."""
    served_by: int | None = None
    """The serial of the copy that served it."""

    @property
    def open(self) -> bool:
        """Whether it still wants a write."""
        return self.state in OPEN_STATES


@frozen(kw_only=True)
class Request:
    """What state.json asks the job for; there is at most one."""

    id: int
    kind: RequestKind
    reason: str
    at_s: float
    """When this id was issued."""
    first_at_s: float
    """When the first id for the same causes was issued."""
    tries: int = 1
    deadline_s: float | None = None
    broken_name: str = ""
    patience_from_s: float = 0.0
    """Patience counts from here: the issue, or the end of a write that was in the way."""


@frozen(kw_only=True)
class Decision:
    """One line: what was decided, and why."""

    verdict: Verdict
    reason: str
    text: str
    at_s: float
    request_id: int | None = None
    cause: str = ""
    """The key of the cause that it belongs to."""


@frozen(kw_only=True)
class Write:
    """One copy that came, as the receipt lists it."""

    at_s: float
    reason: str
    """Why it was asked for; empty when the job wrote it by itself."""
    write_s: float | None
    name: str
    status: CopyStatus
    bytes: int = 0
    serial: int = 0


@frozen(kw_only=True)
class Edge:
    """The latch of one edge or counter condition."""

    since_s: float
    written_s: float
    """When a write was last asked for because of it."""
    off_since_s: float | None = None
    latched: bool = True


@frozen(kw_only=True)
class Run:
    """The present run: from the start of a governor to its clean stop, restarts by kill included."""

    governor_id: str = ""
    token: str = ""
    """What tells this run from another one on the same unit: host, boot, batch job."""
    closed: bool = False
    """It ended with a clean stop; the next start is another run."""
    started_s: float = 0.0
    resumed_s: float = 0.0
    """When a governor last went on with this run after a kill; writes that span this moment were not seen whole."""
    job_started_s: float = 0.0
    job_identity: str = ""
    writes: tuple[Write, ...] = ()
    refused: dict[str, int] = Factory(dict)
    asked: int = 0
    """Requests that were issued."""
    unheard: int = 0
    unserved: int = 0
    stalest_s: float = 0.0
    ended_s: float | None = None
    """When training's end was served or given up in this run."""
    end_sound: bool | None = None
    """Whether the end has a sound copy; None while there was no end."""


@frozen(kw_only=True)
class SpaceBlock:
    """A write that stopped short without a full volume in sight: a quota, probably."""

    bytes: int
    free_bytes: int
    copy_count: int


@frozen(kw_only=True)
class Ledger:
    """All that the decision remembers. Every collection is bounded."""

    last_id: int = 0
    look_s: float | None = None
    """The last look of a governor at this unit."""
    run: Run = Run()
    request: Request | None = None
    causes: tuple[Cause, ...] = ()
    copies: tuple[Copy, ...] = ()
    wholes: tuple[Whole, ...] = ()
    """What the newest sound copy holds, and what those held that have lost something since."""
    last_serial: int = 0
    """The highest serial that a copy of this unit ever had."""
    judged: tuple[int, ...] = ()
    """Serials of the copies that have been counted and learned from."""
    write_samples_s: tuple[float, ...] = ()
    gap_samples_s: tuple[float, ...] = ()
    size_samples_bytes: tuple[int, ...] = ()
    quiet_s_max: float = 0.0
    """The longest quiet gap seen inside one write."""
    repaired: tuple[int, ...] = ()
    """Serials of broken copies whose repair was asked for."""
    repairs_in_row: int = 0
    last_asked_s: float | None = None
    """When the last request was issued."""
    edges: dict[str, Edge] = Factory(dict)
    signs: Memories = Factory(Memories)
    """What is remembered of the host's signs."""
    starts_s: tuple[float, ...] = ()
    """Starts of the job, for risk.flap and for mu."""
    deaths: int = 0
    deaths_announced: int = 0
    exposure_s: float = 0.0
    said: tuple[str, ...] = ()
    """Keys of the lines that were printed and still hold, so that they are printed once."""
    space_block: SpaceBlock | None = None
    failed_write: str = ""
    """The failed write that the job told of last."""
    look_boot_s: float | None = None
    """The boot clock at the last look: it tells a stepped clock from passed time across a restart."""
    ended_identities: tuple[str, ...] = ()
    """Marks of training's end that were served."""
    last: Decision | None = None
    """The last decision, as state.json shows it."""
    auto_window_s: float | None = None
    """The last window that was printed for ``auto``."""


def shifted(ledger: Ledger, shift_s: float) -> Ledger:
    """The ledger with all its moments moved: a new process counts from a clock that was stepped in between."""

    def move(moment_s: float | None) -> float | None:
        return None if moment_s is None else moment_s + shift_s

    run, request = ledger.run, ledger.request
    if request is not None:
        request = _moved(request, shift_s, "at_s", "first_at_s", "deadline_s", "patience_from_s")
    return evolve(
        ledger,
        look_s=move(ledger.look_s),
        last_asked_s=move(ledger.last_asked_s),
        request=request,
        run=evolve(
            _moved(run, shift_s, "started_s", "resumed_s", "job_started_s", "ended_s"),
            writes=tuple(_moved(write, shift_s, "at_s") for write in run.writes),
        ),
        causes=tuple(_moved(cause, shift_s, "seen_s", "since_s", "deadline_s") for cause in ledger.causes),
        copies=tuple(
            _moved(
                copy, shift_s, "first_seen_s", "began_s", "captured_s", "changed_s", "sound_s", "written_s"
            )
            for copy in ledger.copies
        ),
        edges={
            name: _moved(edge, shift_s, "since_s", "written_s", "off_since_s")
            for name, edge in ledger.edges.items()
        },
        signs=moved(ledger.signs, shift_s),
        starts_s=tuple(start_s + shift_s for start_s in ledger.starts_s),
        last=None if ledger.last is None else _moved(ledger.last, shift_s, "at_s"),
    )


Moved = TypeVar("Moved", Cause, Copy, Decision, Edge, Request, Run, Write)


def _moved(record: Moved, shift_s: float, *fields: str) -> Moved:
    moments = {field: getattr(record, field) for field in fields}
    return evolve(record, **{field: at_s + shift_s for field, at_s in moments.items() if at_s is not None})


def next_id(ledger: Ledger, now_s: float) -> int:
    """The next request id: the wall clock in milliseconds at first, then always more than any before."""
    return max(ledger.last_id + 1, int(now_s * 1000))


def remember_sample(samples: tuple[float, ...], value: float) -> tuple[float, ...]:
    """The samples with one more, the oldest dropped beyond the bound."""
    return (*samples, value)[-SAMPLES_MAX:]


def said(ledger: Ledger, key: str) -> bool:
    """Whether the line with this key was printed and still holds."""
    return key in ledger.said


def say(ledger: Ledger, key: str) -> Ledger:
    """The ledger that knows that this line was printed."""
    if key in ledger.said:
        return ledger
    return evolve(ledger, said=(*ledger.said, key)[-SAID_MAX:])


def unsay(ledger: Ledger, *prefixes: str) -> Ledger:
    """The ledger in which lines with these key prefixes may be printed again."""
    kept = tuple(key for key in ledger.said if not key.startswith(prefixes))
    return ledger if len(kept) == len(ledger.said) else evolve(ledger, said=kept)


def cause_with(ledger: Ledger, key: str) -> Cause | None:
    """The cause with this key."""
    return next((cause for cause in ledger.causes if cause.key == key), None)


def open_cause(ledger: Ledger, cause: Cause) -> Ledger:
    """The ledger with a new cause; lines that were printed for a former one with the same key may come again."""
    ending = f":{cause.key}"
    kept = tuple(key for key in ledger.said if not key.endswith(ending))
    return put_cause(evolve(ledger, said=kept), cause)


def put_cause(ledger: Ledger, cause: Cause) -> Ledger:
    """The ledger with this cause, in the place of the one with the same key or at the end."""
    if cause_with(ledger, cause.key) is None:
        return evolve(ledger, causes=_bounded((*ledger.causes, cause)))
    return evolve(ledger, causes=tuple(cause if old.key == cause.key else old for old in ledger.causes))


def _bounded(causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Closed causes are forgotten, the oldest first; open ones and live notices never."""
    surplus = len(causes) - CAUSES_MAX
    if surplus <= 0:
        return causes
    # A live notice that was answered must be remembered, or it would count as new; its number is bounded elsewhere.
    forgettable = (
        cause for cause in causes if not cause.open and not (cause.live and cause.key.startswith("notice:"))
    )
    closed = sorted(forgettable, key=lambda cause: cause.seen_s)
    dropped = {cause.key for cause in closed[:surplus]}
    return tuple(cause for cause in causes if cause.key not in dropped)


def open_causes(ledger: Ledger) -> tuple[Cause, ...]:
    """The causes that still want a write."""
    return tuple(cause for cause in ledger.causes if cause.open)


def change_cause(ledger: Ledger, key: str, **changes: Any) -> Ledger:
    """The ledger in which the cause with this key has these fields changed."""
    cause = cause_with(ledger, key)
    return ledger if cause is None else put_cause(ledger, evolve(cause, **changes))


def change_run(ledger: Ledger, **changes: Any) -> Ledger:
    """The ledger in which these fields of the run are changed."""
    return evolve(ledger, run=evolve(ledger.run, **changes))


def count_refusal(ledger: Ledger, refusal: Refusal) -> Ledger:
    """The ledger whose receipt counts one more refusal of this sort."""
    refused = dict(ledger.run.refused)
    refused[refusal.value] = refused.get(refusal.value, 0) + 1
    return evolve(ledger, run=evolve(ledger.run, refused=refused))
