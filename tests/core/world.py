"""A small virtual world: a volume, a job and a governor whose policy is the real one, under an adversary.

Nothing here waits, reads a clock or touches a file. A ``Plan`` says what the job is like and what goes wrong when;
``World.run`` plays it and raises AssertionError, with the number of the invariant, at the first look that breaks one.
Real are: following copies, deciding, the ledger's text, what state.json says, and the clocks that turn dates into
moments. The eyes and hands between them are played here as the process does them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from attrs import Factory, define, evolve, frozen

from ckpt_governor.answers import unsaved_s
from ckpt_governor.conditions import Condition
from ckpt_governor.copies import follow, newest, newest_sound
from ckpt_governor.decide import decide
from ckpt_governor.estimate import costs, settle
from ckpt_governor.facts import (
    CopyStatus,
    Ending,
    Job,
    Notice,
    Observation,
    Reading,
    Sighting,
    Structure,
    Volume,
)
from ckpt_governor.judge import conditions, copies_that_matter, with_moments
from ckpt_governor.ledger import Cause, CauseState, Decision, Ledger, Run, Verdict, shifted
from ckpt_governor.memory import decision_facts, encode_ledger, parse_facts, parse_ledger
from ckpt_governor.numbers import Numbers
from ckpt_governor.observe.clock import Clock, DeadlineClock
from ckpt_governor.rules import window_needs_s
from ckpt_governor.statefile import Pulse, encode_state

START = 1_764_424_800.0
MB = 10**6
COPY_BYTES = 100 * MB
ROOMY = 4000 * MB
BEAT_S = 5.0
BOOT_S = 9000.0
"""Time since boot when the world begins; a former process has looked at this moment."""
LEDGER_EVERY_S = 5.0


@frozen(kw_only=True)
class Event:
    """Something that the adversary does at a moment; what the amount means depends on what it does."""

    at_s: float
    does: str
    amount: float = 0.0
    name: int = 0


@frozen(kw_only=True)
class Plan:
    """One history: what the job and the unit are like, and what goes wrong when."""

    seed: int = 0
    horizon_s: float = 600.0
    poll_s: float = 2.0
    with_us_s: float | None = None
    write_s: tuple[float, float] = (10.0, 20.0)
    """Shortest and longest write."""
    gap_s: tuple[float, float] = (1.0, 4.0)
    """Shortest and longest time between two save points."""
    knows: bool = True
    """Whether the ledger has learned write times and gaps before."""
    style: str = "grow"
    """How a write shows: it grows under its name, under a temporary name, appears whole, or has no shape at all."""
    own_every_s: float | None = None
    """The job writes by itself as well."""
    identified: bool = True
    """Whether the governor can tell one job from the next."""
    events: tuple[Event, ...] = ()


@define
class File:
    """One copy on the volume."""

    name: str
    inode: int
    step: int
    began_s: float
    ends_s: float
    """When its last byte is there; for one that is cut, when it stops."""
    cut: bool = False
    hidden: bool = False
    """It shows only when it is whole."""
    temporary: bool = False
    """It has a temporary name until it is whole."""

    def share(self, now_s: float) -> float:
        """How much of it is there."""
        span_s = max(self.ends_s - self.began_s, 1e-9)
        return min(1.0, max(0.0, (now_s - self.began_s) / span_s)) * (0.6 if self.cut else 1.0)

    def whole(self, now_s: float) -> bool:
        """Whether all of it is there."""
        return not self.cut and now_s >= self.ends_s

    def bytes(self, now_s: float) -> int:
        """Bytes on the volume."""
        return int(COPY_BYTES * self.share(now_s))


@define
class Glue:
    """One file of the glue folder."""

    name: str
    inode: int
    condition: Condition
    id: str
    deadline_s: float | None
    """True time at which the end comes."""


@define
class Trainer:
    """The job: one process that polls at save points and writes."""

    started_s: float
    identity: str
    first_beat: int
    next_poll_s: float
    served: set[int] = Factory(set)
    busy_until_s: float = 0.0
    own_due_s: float = float("inf")
    alive: bool = True


@define
class Governor:
    """One process: what it has in memory."""

    clock: Clock
    ledger: Ledger
    look_s: float | None
    dates: DeadlineClock
    first_seen_s: dict[int, float] = Factory(dict)
    told_at: dict[int, tuple[float, float]] = Factory(dict)
    saved: Ledger | None = None
    saved_s: float = 0.0
    next_look_s: float = 0.0


class World:
    """One unit, its job, its governor, and everything that can happen to them."""

    def __init__(self, plan: Plan, *, steps: bool = True) -> None:
        self.plan, self.with_steps = plan, steps
        self.random = random.Random(plan.seed)
        self.now_s = 0.0
        self.stepped_s = 0.0
        self.origin_s = START
        self.inodes = 100
        self.files: list[File] = []
        self.glue: dict[str, Glue] = {}
        self.ending: tuple[int, float] | None = None
        self.edge: bool | None = None
        self.foreign_bytes = 0
        self.blind_until_s = 0.0
        self.cuts = self.fails = 0
        self.numbers = Numbers(with_us_s=plan.with_us_s, reserve_bytes=0)
        self.steps_written = 0
        self.jobs = 0
        # what is on disk, and what the job can see
        self.disk = encode_ledger(self._first_ledger())
        self.published: tuple[int | None, int] = (None, 0)
        self.published_s: float | None = None
        self.job: Trainer | None = None
        self.governor: Governor | None = None
        self.crash = ""
        # what was seen, for the checks
        self.lines: list[tuple[float, Decision]] = []
        self.looks = 0
        self.excuse_s = 0.0
        """Until here the window may be broken: something happened that the policy cannot know."""
        self.windows_checked = 0
        self.ids: list[int] = []
        self.asked_s: dict[int, tuple[float, float, float]] = {}
        self.asked_in: dict[str, set[float]] = {}
        self.may_ask_again: set[str] = set()
        self.served: set[str] = set()
        self.broken_answers = 0
        self.moves = 0
        self._start_job()
        self._start_governor()

    def _first_ledger(self) -> Ledger:
        plan = self.plan
        run = Run(governor_id="g", token="t", started_s=START, job_started_s=START)
        if not plan.knows:
            return Ledger(run=run, look_s=START, look_boot_s=BOOT_S)

        def spread(pair: tuple[float, float], more_s: float) -> tuple[float, ...]:
            return tuple(pair[0] + (pair[1] - pair[0]) * n / 7 + more_s for n in range(8))

        return Ledger(
            run=run,
            look_s=START,
            look_boot_s=BOOT_S,
            write_samples_s=spread(plan.write_s, self.judging_s),
            # A gap is seen to end at a look, which comes up to a poll after it.
            gap_samples_s=spread(plan.gap_s, plan.poll_s),
            size_samples_bytes=(COPY_BYTES,) * 3,
        )

    @property
    def judging_s(self) -> float:
        """How long after its last byte a copy without a shape is called sound, with the looks in between."""
        return 5 * self.plan.poll_s if self.plan.style == "shapeless" else 0.0

    # ---- time -------------------------------------------------------------------------------------------------

    def run(self) -> World:
        """Plays the plan to its end."""
        for _ in self.looks_one_by_one():
            pass
        return self

    def looks_one_by_one(self) -> Iterator[float]:
        """Plays the plan; stops after each thing that happened."""
        events = sorted(self.plan.events, key=lambda event: event.at_s)
        while True:
            moments = [self.plan.horizon_s]
            if events:
                moments.append(events[0].at_s)
            if self.governor is not None:
                moments.append(self.governor.next_look_s)
            if self.job is not None and self.job.alive:
                moments.append(max(self.job.next_poll_s, self.job.busy_until_s))
            self.now_s = max(self.now_s, min(moments))
            if self.now_s >= self.plan.horizon_s:
                self._check_totals()
                return
            if events and events[0].at_s <= self.now_s:
                self._happen(events.pop(0))
            elif self.governor is not None and self.governor.next_look_s <= self.now_s:
                self._look()
            else:
                self._poll()
            yield self.now_s

    def _inode(self) -> int:
        self.inodes += 1
        return self.inodes

    def _excuse(self) -> None:
        self.excuse_s = self.now_s

    # ---- the adversary ----------------------------------------------------------------------------------------

    def _happen(self, event: Event) -> None:
        acts: dict[str, Callable[[Event], None]] = {
            "drop": self._drop,
            "drop id": self._drop,
            "remove": self._remove,
            "move": self._move,
            "cut": self._cut,
            "fail": self._fail,
            "kill job": self._kill_job,
            "start job": lambda _: self._start_job(),
            "pause job": self._pause_job,
            "kill governor": self._kill_governor,
            "start governor": lambda _: self._start_governor(),
            "fill": self._fill,
            "free": self._free,
            "blind": self._blind,
            "step": self._step,
            "end": self._end,
            "edge": self._edge,
            "window": self._window,
            "lose newest": self._lose_newest,
        }
        acts[event.does](event)

    CONDITIONS = (
        Condition.PREEMPT,
        Condition.TERMINATE,
        Condition.MAINTENANCE,
        Condition.REQUEST,
        Condition.WALLTIME,
    )

    def _drop(self, event: Event) -> None:
        """A new file, or another one with an id that is known; a lead of zero is no date."""
        condition = self.CONDITIONS[event.name % len(self.CONDITIONS)]
        identity = f"n{event.name}" if event.does == "drop id" else ""
        name = f"{condition.value}.{event.name}"
        deadline_s = self.now_s + event.amount if event.amount else None
        self.glue[name] = Glue(name, self._inode(), condition, identity, deadline_s)
        if identity:
            self.may_ask_again.add(
                self._identity(self.glue[name])
            )  # a known id with another date is a moved one

    def _remove(self, event: Event) -> None:
        """A file is taken away."""
        if self.glue:
            self.glue.pop(sorted(self.glue)[event.name % len(self.glue)])

    def _move(self, event: Event) -> None:
        """A deadline moves."""
        dated = [name for name in sorted(self.glue) if self.glue[name].deadline_s is not None]
        if dated:
            glue = self.glue[dated[event.name % len(dated)]]
            glue.deadline_s = self.now_s + event.amount
            self.moves += 1
            self.may_ask_again.add(self._identity(glue))
            if self.governor is not None:
                self.governor.told_at.pop(glue.inode, None)

    def _cut(self, event: Event) -> None:
        """The next write stops short."""
        self.cuts += 1

    def _fail(self, event: Event) -> None:
        """The next write fails before its first byte."""
        self.fails += 1

    def _kill_job(self, event: Event) -> None:
        """The job dies; what it was writing stays as it is."""
        self._excuse()
        if self.job is None:
            return
        self.job.alive = False
        for file in self.files:
            if not file.cut and file.ends_s > self.now_s:
                file.cut, file.ends_s = True, self.now_s
        self.files = [file for file in self.files if not (file.cut and file.hidden)]

    def _start_job(self) -> None:
        if self.job is not None and self.job.alive:
            return
        self._excuse()
        self.jobs += 1
        own_s = self.plan.own_every_s
        self.job = Trainer(
            started_s=self.now_s,
            identity=f"job{self.jobs}" if self.plan.identified else "",
            first_beat=self.published[1],
            next_poll_s=self.now_s + self._draw(self.plan.gap_s),
            own_due_s=self.now_s + own_s if own_s else float("inf"),
        )

    def _pause_job(self, event: Event) -> None:
        """No save point for a while."""
        self._excuse()
        if self.job is not None:
            self.job.next_poll_s = max(self.job.next_poll_s, self.now_s + event.amount)

    def _kill_governor(self, event: Event) -> None:
        """SIGKILL: between two looks, or in the middle of announcing the next decision."""
        self._excuse()
        self.crash = ("now", "before the ledger", "before the state")[event.name % 3]
        if self.crash == "now":
            self.governor, self.crash = None, ""

    def _start_governor(self) -> None:
        if self.governor is not None:
            return
        self._excuse()
        clock = Clock(
            wall=self._wall, monotonic=lambda: 5000.0 + self.now_s, boot=lambda: BOOT_S + self.now_s
        )
        moment = clock.moment()
        ledger = parse_ledger(self.disk)
        assert parse_ledger(encode_ledger(ledger)) == ledger, "the ledger is not what was written"
        step_s = 0.0
        if ledger.look_s is not None and ledger.look_boot_s is not None:
            step_s = (moment.now_s - moment.boot_s) - (ledger.look_s - ledger.look_boot_s)
        ledger = shifted(ledger, step_s)
        self.origin_s = moment.now_s - self.now_s
        looks = [look_s for look_s in (ledger.look_s, self._published_steady_s()) if look_s is not None]
        look_s = min(max(looks), moment.now_s) if looks else None
        self.governor = Governor(clock, ledger, look_s, DeadlineClock(), next_look_s=self.now_s)
        self.resumes = ledger.request

    def _published_steady_s(self) -> float | None:
        return None if self.published_s is None else self.origin_s + self.published_s

    def _fill(self, event: Event) -> None:
        """Somebody else's data leaves room for so many copies."""
        used = sum(file.bytes(self.now_s) for file in self.files)
        self.foreign_bytes = max(0, ROOMY - used - int(event.amount * COPY_BYTES))

    def _free(self, event: Event) -> None:
        """Somebody else's data goes."""
        self.foreign_bytes = 0

    def _blind(self, event: Event) -> None:
        """The unit cannot be read for a while."""
        self._excuse()
        self.blind_until_s = self.now_s + event.amount

    def _step(self, event: Event) -> None:
        """Somebody sets the wall clock."""
        if self.with_steps:
            self.stepped_s += event.amount

    def _end(self, event: Event) -> None:
        """Training is over; the mark is made once and then touched."""
        inode = self.ending[0] if self.ending is not None else self._inode()
        self.ending = (inode, self.now_s)

    def _edge(self, event: Event) -> None:
        """Memory runs low, does not, or cannot be read."""
        self.edge = (True, False, None)[event.name % 3]

    def _window(self, event: Event) -> None:
        """The user sets another window."""
        self._excuse()
        self.numbers = evolve(self.numbers, with_us_s=event.amount or None)

    def _lose_newest(self, event: Event) -> None:
        """The newest whole copy is deleted."""
        self._excuse()
        whole = [file for file in self.files if file.whole(self.now_s)]
        if whole:
            self.files.remove(whole[-1])

    # ---- the job ----------------------------------------------------------------------------------------------

    def _draw(self, pair: tuple[float, float]) -> float:
        return self.random.uniform(*pair)

    def _poll(self) -> None:
        """One save point: a request that was not served, or the job's own turn."""
        job = self.job
        assert job is not None
        gap_s, write_s = self._draw(self.plan.gap_s), self._draw(self.plan.write_s)
        job.next_poll_s = self.now_s + gap_s
        request_id, beat = self.published
        asked = request_id is not None and request_id not in job.served and beat != job.first_beat
        if asked and request_id is not None:
            job.served.add(request_id)
            asked_s, known_write_s, known_gap_s = self.asked_s[request_id]
            late = self.now_s - asked_s > known_gap_s
            if late or write_s + self.judging_s > known_write_s:
                self.excuse_s = max(self.excuse_s, self.now_s)
        if asked or self.now_s >= job.own_due_s:
            self._write(job, write_s)

    def _write(self, job: Trainer, write_s: float) -> None:
        if self.plan.own_every_s:
            job.own_due_s = self.now_s + self.plan.own_every_s
        if self.fails:
            self.fails -= 1
            self._excuse()
            return
        style = self.plan.style
        self.steps_written += 1
        file = File(
            name=f"step-{self.steps_written}.pt",
            inode=self._inode(),
            step=self.steps_written,
            began_s=self.now_s,
            ends_s=self.now_s + write_s,
            hidden=style == "whole",
            temporary=style == "temporary",
        )
        room = ROOMY - self.foreign_bytes - sum(other.bytes(self.now_s) for other in self.files)
        if self.cuts or room < COPY_BYTES:
            self.cuts = max(0, self.cuts - 1)
            file.cut, file.hidden, file.temporary = True, False, False
        if file.cut or self.room_missing():
            self._excuse()
        job.busy_until_s = file.ends_s
        self.files.append(file)
        whole = [old for old in self.files if old.whole(self.now_s)]
        for old in whole[:-3]:
            self.files.remove(old)
        torn = [old for old in self.files if old.cut and old.ends_s < self.now_s]
        for old in torn[:-3]:
            self.files.remove(old)

    def room_missing(self) -> bool:
        """Whether the volume cannot take another copy now."""
        free = ROOMY - self.foreign_bytes - sum(file.bytes(self.now_s) for file in self.files)
        return free < 1.05 * COPY_BYTES

    # ---- the governor's eyes ----------------------------------------------------------------------------------

    def _wall(self) -> float:
        return START + self.now_s + self.stepped_s

    def _steady(self, true_s: float) -> float:
        """A true moment on the governor's present axis."""
        return self.origin_s + true_s

    def _sightings(self) -> tuple[Sighting, ...]:
        seen = []
        for file in self.files:
            whole = file.whole(self.now_s)
            if file.hidden and not whole:
                continue
            size = file.bytes(self.now_s)
            temporary = file.temporary and not whole
            seen.append(
                Sighting(
                    name=f".{file.name}.tmp" if temporary else file.name,
                    format="torch-zip",
                    step=file.step,
                    bytes=size,
                    structure=self._structure(whole),
                    why="" if whole else "the central directory is missing",
                    fingerprint=f"{file.inode}.{size}",
                    inode=str(file.inode),
                    written_s=self._steady(min(self.now_s, file.ends_s)),
                    temporary=temporary,
                )
            )
        return tuple(seen)

    def _structure(self, whole: bool) -> Structure:
        if self.plan.style == "shapeless":
            return Structure.SHAPELESS
        return Structure.COMPLETE if whole else Structure.INCOMPLETE

    def _identity(self, glue: Glue) -> str:
        return f"id:{glue.condition.value}:{glue.id}" if glue.id else f"file:{glue.name}:{glue.inode}"

    def _notices(self, governor: Governor) -> tuple[Notice, ...]:
        """The glue files as the reader sees them: dates are told by the clock of the host, once for each process."""
        moment, notices = governor.clock.moment(), []
        for glue in self.glue.values():
            first_s = governor.first_seen_s.setdefault(glue.inode, moment.now_s)
            deadline_s = None
            if glue.deadline_s is not None:
                told = governor.told_at.get(glue.inode)
                if told is None or told[0] != glue.deadline_s:
                    told = (glue.deadline_s, moment.wall_s + (glue.deadline_s - self.now_s))
                    governor.told_at[glue.inode] = told
                deadline_s = governor.dates.steady_s(self._identity(glue), told[1], moment)
            notices.append(
                Notice(
                    identity=self._identity(glue),
                    condition=glue.condition,
                    seen_s=first_s,
                    deadline_s=deadline_s,
                    ack_name=glue.name,
                )
            )
        return tuple(notices)

    def _observe(self, governor: Governor) -> Observation:
        moment, plan = governor.clock.moment(), self.plan
        now_s, blind = moment.now_s, self.now_s < self.blind_until_s
        job = Job()
        if self.job is not None and plan.identified:
            job = Job(
                started_s=self._steady(self.job.started_s), alive=self.job.alive, identity=self.job.identity
            )
        if not blind:
            request, ledger = governor.ledger.request, governor.ledger
            look = self._sightings()
            copies = follow(
                ledger.copies,
                look,
                now_s=now_s,
                former_look_s=governor.look_s,
                asked_s=request.at_s if request is not None else None,
                settle=settle(ledger, self.numbers, job, plan.poll_s),
                last_serial=ledger.last_serial,
            )
            copies = with_moments(copies, ledger.copies, look, governor.look_s)
            last_serial = max((ledger.last_serial, *(copy.serial for copy in copies)))
            governor.ledger = evolve(ledger, copies=copies, last_serial=last_serial)
            governor.look_s = now_s
        ending = None
        if self.ending is not None:
            inode, touched_s = self.ending
            first_s = governor.first_seen_s.setdefault(inode, now_s)
            ending = Ending(
                identity=f"{inode}:{touched_s}", seen_s=first_s, written_s=self._steady(touched_s)
            )
        used = sum(file.bytes(self.now_s) for file in self.files)
        return Observation(
            unit="/unit",
            now_s=now_s,
            blind="it cannot be read" if blind else "",
            copies=copies_that_matter(governor.ledger.copies),
            notices=() if blind else self._notices(governor),
            readings=(
                Reading(condition=Condition.MEMORY, value=self.edge, why="", source="host", read_s=now_s),
            ),
            volume=Volume(free_bytes=max(0, ROOMY - self.foreign_bytes - used), total_bytes=ROOMY),
            copy_count=len(self.files),
            job=job,
            ending=None if blind else ending,
            poll_s=plan.poll_s,
        )

    # ---- one look ---------------------------------------------------------------------------------------------

    def _look(self) -> None:
        governor = self.governor
        assert governor is not None
        self.looks += 1
        world = self._observe(governor)
        former = governor.ledger
        outcome = decide(world, self.numbers, former)
        if self.crash == "before the ledger":
            self.governor, self.crash = None, ""
            return  # nobody ever learned what was decided
        ledger = evolve(outcome.ledger, look_boot_s=governor.clock.moment().boot_s)
        self.lines += [(self.now_s, line) for line in outcome.decisions]
        self._check(world, former, ledger, outcome.decisions)
        governor.ledger = ledger
        self._announce(governor, world, ledger)
        if self.crash:
            self.governor, self.crash = None, ""
            return
        busy = ledger.request is not None or any(copy.status is CopyStatus.WRITING for copy in world.copies)
        wait_s = self.busy_poll_s if busy else self.plan.poll_s
        for cause in ledger.causes:
            if cause.open and cause.since_s > world.now_s:
                wait_s = min(wait_s, cause.since_s - world.now_s)
        governor.next_look_s = self.now_s + max(0.05, wait_s)

    @property
    def busy_poll_s(self) -> float:
        """Between two looks while a request is open or a write goes on."""
        return self.plan.poll_s / 4

    def _announce(self, governor: Governor, world: Observation, ledger: Ledger) -> None:
        """The ledger first, then the state: a kill may come between any two."""
        urgent = governor.saved is None or _urgent(ledger) != _urgent(governor.saved)
        if urgent or self.now_s - governor.saved_s >= LEDGER_EVERY_S:
            self.disk = encode_ledger(ledger)
            governor.saved, governor.saved_s = ledger, self.now_s
        if self.crash == "before the state" or world.blind:
            return
        request_id = ledger.request.id if ledger.request is not None else None
        due = self.published_s is None or self.now_s - self.published_s >= BEAT_S
        if request_id != self.published[0] or due or governor.saved_s == self.now_s:
            self.published = (request_id, self.published[1] + 1)
            self.published_s = self.now_s
        if request_id is not None and request_id not in self.asked_s:
            cost = costs(world, self.numbers, ledger)
            self.asked_s[request_id] = (self.now_s, cost.write_s or 0.0, cost.gap_s)

    # ---- the invariants ---------------------------------------------------------------------------------------

    def _check(
        self, world: Observation, former: Ledger, ledger: Ledger, decisions: tuple[Decision, ...]
    ) -> None:
        asked = {cause.key for cause in ledger.causes if cause.state is CauseState.ASKED}
        before = {cause.key for cause in former.causes if cause.state is CauseState.ASKED}
        request, old = ledger.request, former.request
        new_id = request is not None and (old is None or old.id != request.id)
        if world.blind:
            assert not new_id, "7: a blind unit gets a request"
            assert {line.verdict for line in decisions} <= {Verdict.UNKNOWN}, "7: a blind unit is decided"
        if new_id and request is not None:
            assert request.id > max(self.ids, default=0), "5: an id does not grow"
            self.ids.append(request.id)
            anew = asked - before if old is not None and asked - before else asked
            self._check_fit(world, ledger, anew)
        self.broken_answers += len(
            set(ledger.judged) - set(former.judged) - {n for n in ledger.judged if n > 0}
        )
        self._check_once(former, ledger, asked, before)
        self._check_restart(former, ledger, world)
        self._check_window(world, ledger)
        self._check_hooks(world, ledger)
        if decisions and len(self.lines) < 12:
            self._check_texts(world, former, ledger, decisions)

    def _check_fit(self, world: Observation, ledger: Ledger, keys: set[str]) -> None:
        """1: what is asked for fits the time and the space, by what was known at this moment."""
        samples, gaps = ledger.write_samples_s, ledger.gap_samples_s
        if samples:
            write_s, gap_s = _quantile(samples), _quantile(gaps) if gaps else 0.0
            need_s = write_s + gap_s + max(5.0, 0.1 * write_s) + self.plan.poll_s
            for cause in ledger.causes:
                if cause.key in keys and cause.deadline_s is not None:
                    left_s = cause.deadline_s - world.now_s
                    assert need_s <= left_s + 1e-6, f"1: {cause.key} needs {need_s}, {left_s} left"
        if ledger.size_samples_bytes and world.volume is not None:
            need = 1.05 * max(ledger.size_samples_bytes[-3:])
            free = world.volume.free_bytes
            assert need <= free + 1, f"1: a copy needs {need}, {free} free"

    def _check_once(self, former: Ledger, ledger: Ledger, asked: set[str], before: set[str]) -> None:
        """2, 5 and 10: one announcement, one write; after a broken answer or a moved date again, once served never."""
        request = ledger.request
        broke = set(ledger.judged) - set(former.judged) and any(
            serial < 0 for serial in set(ledger.judged) - set(former.judged)
        )
        if broke:
            self.may_ask_again |= {key.partition(":")[2] for key in before}
        for cause in ledger.causes:
            sort, _, identity = cause.key.partition(":")
            if sort not in ("notice", "end"):
                continue
            if cause.state is CauseState.SERVED:
                self.served.add(cause.key)
            if cause.state is CauseState.WITHDRAWN:
                self.may_ask_again.add(identity)
            if cause.key in asked - before:
                assert cause.key not in self.served, f"2: {cause.key} is asked for after it was served"
                assert request is not None
                self._check_twins(cause, ledger)
                rounds = self.asked_in.setdefault(cause.key, set())
                if request.first_at_s not in rounds and rounds:
                    assert identity in self.may_ask_again, f"2: {cause.key} is asked for again"
                    self.may_ask_again.discard(identity)
                rounds.add(request.first_at_s)

    def _check_twins(self, cause: Cause, ledger: Ledger) -> None:
        """2: the same announcement of another source is no other one."""
        if cause.deadline_s is None or self.moves:
            return
        for other in ledger.causes:
            if (
                other.key.startswith("notice:")
                and other.reason == cause.reason
                and other.deadline_s is not None
            ):
                apart_s = abs(other.deadline_s - cause.deadline_s)
                answered = other.state is CauseState.SERVED and apart_s <= 5.0
                assert not answered, f"2: {cause.key} is asked for, {other.key} was served"

    def _check_restart(self, former: Ledger, ledger: Ledger, world: Observation) -> None:
        """5: an open request outlives the governor while what it was issued for is open.

        A broken answer ends it, also when it is found out at the first look: then a write that has begun serves it.
        """
        resumes, self.resumes = self.resumes, None
        broke = any(serial < 0 for serial in set(ledger.judged) - set(former.judged))
        if resumes is None or world.blind or broke:
            return
        still = {cause.key for cause in former.causes if cause.state is CauseState.ASKED}
        open_now = {cause.key for cause in ledger.causes if cause.key in still and cause.open}
        if open_now:
            assert ledger.request is not None, f"5: the request for {open_now} is lost"
            assert ledger.request.id >= resumes.id, "5: an id does not grow after a restart"

    def _check_window(self, world: Observation, ledger: Ledger) -> None:
        """3: the newest sound copy is not staler than promised while nothing excuses it."""
        with_us_s = self.numbers.with_us_s
        cost = costs(world, self.numbers, ledger)
        need_s = window_needs_s(cost)
        # A copy is as old as its write was long when it becomes sound, so that two writes must fit.
        infeasible = with_us_s is not None and (need_s is None or with_us_s < need_s + (cost.write_s or 0.0))
        if (
            world.blind
            or infeasible
            or self.room_missing()
            or self.job is None
            or not self.job.alive
            or ledger.space_block
        ):
            self._excuse()
        asked = self.asked_s.get(self.published[0] or 0)
        if (
            asked
            and self.job
            and self.published[0] not in self.job.served
            and self.now_s > asked[0] + asked[2]
        ):
            self._excuse()  # the job takes longer to its save point than it ever did
        if with_us_s is None or world.blind or ledger.run.ended_s is not None or self.ending is not None:
            return
        whole = [file for file in self.files if file.whole(self.now_s)]
        began_s = whole[-1].began_s if whole else 0.0
        if began_s <= self.excuse_s or (whole and whole[-1].hidden and self._seems_newer(whole[-1], world)):
            return
        self.windows_checked += 1
        late_s = 2 * self.busy_poll_s
        stale_s = self.now_s - began_s
        assert stale_s <= with_us_s + late_s, (
            f"3: the newest sound copy is {stale_s} old, promised {with_us_s}"
        )
        sound = newest_sound(world.copies)
        if sound is None or sound.state_s - self.origin_s <= self.excuse_s:
            return
        judged_s = unsaved_s(world, ledger)
        assert judged_s <= with_us_s + late_s, f"3: it is judged {judged_s} old, promised {with_us_s}"

    def _seems_newer(self, file: File, world: Observation) -> bool:
        """Whether a copy that came whole is taken for newer than it is: nobody could see when its write began."""
        states_s = [copy.state_s - self.origin_s for copy in world.copies if copy.name == file.name]
        return not states_s or states_s[0] > file.began_s

    def _check_hooks(self, world: Observation, ledger: Ledger) -> None:
        """Whoever waits for an answer has one when the deadline has passed."""
        if world.blind:
            return
        for cause in ledger.causes:
            if cause.key.startswith("notice:") and cause.deadline_s is not None and cause.open:
                assert cause.deadline_s > world.now_s, f"{cause.key} waits on after its deadline"

    def _check_texts(
        self, world: Observation, former: Ledger, ledger: Ledger, decisions: tuple[Decision, ...]
    ) -> None:
        """What is written of a decision decides the same again, and state.json stays small."""
        facts = json.loads(json.dumps(decision_facts(world, self.numbers, former)))
        assert decide(*parse_facts(facts, "decisions.jsonl")).decisions == decisions, (
            "a replay decides otherwise"
        )
        cost = costs(world, self.numbers, ledger)
        text = encode_state(
            ledger,
            Pulse(governor_id="g", version="1", alive=True, beat=1, beat_every_s=BEAT_S),
            now_s=world.now_s,
            no_us_s=None,
            with_us_s=self.numbers.with_us_s,
            newest=newest(world.copies),
            conditions=conditions(world, self.numbers, ledger, cost),
        )
        assert len(text) < 4096, "state.json is large"

    def _check_totals(self) -> None:
        """2: at most three ids a cause, and no storm of lines."""
        again = self.broken_answers + self.moves + len(self.plan.events)
        causes = {line.cause for _, line in self.lines}
        assert len(self.ids) <= 3 * (len(causes) + again + 1), (
            f"2: {len(self.ids)} ids for {len(causes)} causes"
        )
        storm = 12 * (len(causes) + again + 1)
        assert len(self.lines) <= storm, f"{len(self.lines)} lines for {len(causes)} causes"


def _quantile(samples: tuple[float, ...]) -> float:
    """The 95 % quantile as the policy states it: below eight samples 1.25 times the largest."""
    if len(samples) < 8:
        return 1.25 * max(samples)
    ordered = sorted(samples)
    return next(x for n, x in enumerate(ordered, 1) if n >= 0.95 * len(ordered) - 1e-9)


def _urgent(ledger: Ledger) -> tuple[object, ...]:
    """What must be on disk before the job can see it."""
    request = ledger.request
    return (
        None if request is None else (request.id, request.kind, request.reason, request.deadline_s),
        ledger.causes,
        ledger.judged,
        ledger.last_id,
        ledger.repaired,
        ledger.ended_identities,
        ledger.run.ended_s,
    )
