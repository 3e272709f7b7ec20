"""Worlds made by hand for the tests of the pure core: copies, notices, and a desk at which one unit is decided."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from ckpt_governor.answers import unsaved_s
from ckpt_governor.conditions import Condition
from ckpt_governor.decide import Outcome, decide
from ckpt_governor.facts import Copy, CopyStatus, Ending, Notice, Observation, Reading, Volume
from ckpt_governor.ledger import Cause, Decision, Ledger, Request, Run, cause_with
from ckpt_governor.numbers import Numbers

T0 = 1_764_424_800.0
"""The moment from which hand-made worlds count."""
RAN_S = 3600.0
"""How long the run and its job have gone on at T0."""
GB = 10**9
ROOM = Volume(free_bytes=1000 * GB, total_bytes=2000 * GB, free_inodes=10**6)
POLL_S = 1.0


def knowing(
    *,
    write_s: float | None = 40.0,
    gap_s: float | None = 5.0,
    bytes: int | None = 14 * GB,
    samples: int = 8,
    size_samples: tuple[int, ...] = (),
    **fields: Any,
) -> Ledger:
    """A ledger that has learned what a write takes, and knows copy 1: of eight equal samples each is the quantile."""
    return Ledger(
        run=Run(governor_id="host-1-1", token="t", started_s=T0 - RAN_S, job_started_s=T0 - RAN_S),
        write_samples_s=() if write_s is None else (write_s,) * samples,
        gap_samples_s=() if gap_s is None else (gap_s,) * samples,
        size_samples_bytes=size_samples if bytes is None else (bytes,) * 3,
        judged=(1,),
        **fields,
    )


def copy(
    serial: int,
    began_s: float,
    status: CopyStatus = CopyStatus.SOUND,
    *,
    write_s: float = 40.0,
    **fields: Any,
) -> Copy:
    """A copy whose write began so many seconds after T0."""
    given = {"name": f"step-{serial}.pt", "step": serial, "bytes": 14 * GB, "why": "", **fields}
    return Copy(
        serial=serial,
        format="torch-zip",
        status=status,
        first_seen_s=given.pop("first_seen_s", T0 + began_s),
        began_s=T0 + began_s,
        changed_s=given.pop("changed_s", T0 + began_s + write_s),
        **given,
    )


def broken(serial: int, began_s: float, **fields: Any) -> Copy:
    """A copy that stopped short."""
    return copy(serial, began_s, CopyStatus.BROKEN, **{"why": "the central directory is missing", **fields})


def writing(serial: int, began_s: float, **fields: Any) -> Copy:
    """A write that goes on, seen to have changed just now unless it is told."""
    return copy(serial, began_s, CopyStatus.WRITING, **fields)


def notice(
    condition: Condition = Condition.PREEMPT,
    *,
    seen_s: float = 0.0,
    deadline_s: float | None = None,
    name: str = "",
    **fields: Any,
) -> Notice:
    """A glue file's notice; its times are seconds after T0."""
    name = name or condition.value
    return Notice(
        identity=fields.pop("identity", f"file:{name}:{fields.pop('inode', 11)}"),
        condition=condition,
        seen_s=T0 + seen_s,
        deadline_s=None if deadline_s is None else T0 + deadline_s,
        ack_name=fields.pop("ack_name", name),
        **fields,
    )


def ending(seen_s: float, *, inode: int = 77, written_s: float | None = None) -> Ending:
    """The mark of training's end."""
    moment_s = T0 + (seen_s if written_s is None else written_s)
    return Ending(identity=f"{inode}:{moment_s:.0f}", seen_s=T0 + seen_s, written_s=moment_s)


def reading(condition: Condition, value: bool | None, **fields: Any) -> Reading:
    """What a source says about an edge condition."""
    return Reading(condition=condition, value=value, read_s=T0, **{"why": "seen", "source": "host", **fields})


class Desk:
    """One unit that is decided look by look, with a world made by hand. Times are seconds after T0."""

    def __init__(self, ledger: Ledger | None = None, numbers: Numbers | None = None, **facts: Any) -> None:
        self.ledger = knowing() if ledger is None else ledger
        self.numbers = Numbers() if numbers is None else numbers
        self.facts: dict[str, Any] = {"volume": ROOM, "poll_s": POLL_S, "unit": "/unit", **facts}
        self.lines: list[Decision] = []
        self.now_s = 0.0

    def world(self, at_s: float, **facts: Any) -> Observation:
        """What is seen then; what is not given stays as it was."""
        self.facts.update(facts)
        self.now_s = at_s
        return Observation(now_s=T0 + at_s, **self.facts)

    def look(self, at_s: float, **facts: Any) -> list[tuple[str, str]]:
        """Decides then; returns verdict and reason of each line."""
        return [(line.verdict.value, line.reason) for line in self.decide(at_s, **facts)]

    def decide(self, at_s: float, **facts: Any) -> tuple[Decision, ...]:
        """Decides then; returns the lines."""
        outcome: Outcome = decide(self.world(at_s, **facts), self.numbers, self.ledger)
        self.ledger = outcome.ledger
        self.lines += outcome.decisions
        return outcome.decisions

    def until(self, at_s: float, *, every_s: float = POLL_S, **facts: Any) -> list[tuple[float, str, str]]:
        """Decides at every poll up to then, that moment included; returns moment, verdict, reason of each line."""
        said = []
        while self.now_s < at_s:
            moment_s = min(self.now_s + every_s, at_s)
            said += [(moment_s, verdict, reason) for verdict, reason in self.look(moment_s, **facts)]
            facts = {}
        return said

    @property
    def request(self) -> Request | None:
        """The open request."""
        return self.ledger.request

    @property
    def unsaved_s(self) -> float:
        """Age of the unsaved work at the last look."""
        return unsaved_s(self.world(self.now_s), self.ledger)

    def cause(self, key: str) -> Cause:
        """The cause with this key, which must be there."""
        found = cause_with(self.ledger, key)
        assert found is not None, f"no {key} among {[cause.key for cause in self.ledger.causes]}"
        return found

    def state(self, key: str) -> str:
        """How far that cause has come."""
        return self.cause(key).state.value

    def acked(self, name: str) -> str | None:
        """The word that a hook waiting for this glue file would read, as the contract maps it."""
        words = {"served": "served", "missed": "missed", "unfit": "unfit"}
        for cause in self.ledger.causes:
            if name in cause.ack_names and cause.live:
                return "unfit" if cause.released and cause.open else words.get(cause.state.value)
        return None

    def told(self, verdict: str, reason: str | None = None) -> list[str]:
        """The sentences of all lines so far with this verdict and reason."""
        return [
            line.text
            for line in self.lines
            if line.verdict.value == verdict and reason in (None, line.reason)
        ]

    def numbers_are(self, **changes: Any) -> None:
        """Other numbers from now on."""
        self.numbers = evolve(self.numbers, **changes)
