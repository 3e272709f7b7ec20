"""One unit as it would be decided now, looked at without a trace: no lock, no file, no folder is made.

A governor follows copies over time; somebody who looks once has the ledger's memory of them, or none. What changed
since then is judged by the volume's own times and a second look: see ``_settled``.
"""

from __future__ import annotations

import time

from attrs import evolve, frozen

from ckpt_governor import judge
from ckpt_governor.cli.alive import State, read_state
from ckpt_governor.cli.view import complain
from ckpt_governor.conditions import condition_named
from ckpt_governor.copies import Settle, follow, newest_sound
from ckpt_governor.decide import decide
from ckpt_governor.durations import format_duration
from ckpt_governor.estimate import costs, settle
from ckpt_governor.facts import Copy, CopyStatus, Job, Moment, Notice, Observation, Reading, Sighting
from ckpt_governor.files import Paths, read_bounded, words_of
from ckpt_governor.formats import stages_beside
from ckpt_governor.ledger import Ledger, Run
from ckpt_governor.leftovers import leftovers, leftovers_of
from ckpt_governor.memory import parse_ledger
from ckpt_governor.numbers import Numbers
from ckpt_governor.numbersfile import NumbersFile
from ckpt_governor.observe.clock import Clock
from ckpt_governor.observe.copies import DANGLING_S, CopyScanner, Look
from ckpt_governor.observe.glue import GlueLook, GlueReader
from ckpt_governor.observe.host import volume
from ckpt_governor.observe.job import JobEye
from ckpt_governor.records import RecordError
from ckpt_governor.settings import POLL_S, Settings
from ckpt_governor.unit import LEDGER_BYTES_MAX

WALK_S_MAX = 60.0
"""How long a walk through very many copies may take; then what was seen so far is shown, and that it is not all."""
PAUSE_S = 0.3
"""Before the second look at copies that are judged by the volume's times."""
GLUE_LOOKS_MAX = 3


@frozen(kw_only=True)
class View:
    """One unit at one moment."""

    paths: Paths
    moment: Moment
    state: State | None
    alive: bool
    """Whether a governor shows signs of life."""
    numbers: Numbers
    ledger: Ledger
    """After the decisions of this moment, none of which was announced."""
    remembered: bool
    """Whether there is a ledger at all."""
    world: Observation
    readings: tuple[Reading, ...]
    dangling: tuple[tuple[str, str], ...]
    """Links that name nothing: (name, to); empty when nobody asked for them."""
    scanner: CopyScanner
    """What has looked at the copies, for who wants to read them."""
    truncated: bool
    """There are more copies than are shown."""
    troubles: tuple[str, ...]
    """What of the governor's own files could not be read."""

    @property
    def copies(self) -> tuple[Copy, ...]:
        """Every copy that is known, oldest first; leftovers are none."""
        left = leftovers(self.ledger.copies)
        return tuple(copy for copy in self.ledger.copies if copy not in left)

    @property
    def leftovers(self) -> tuple[Copy, ...]:
        """Temporaries of dead writes."""
        return leftovers(self.ledger.copies)

    def unix(self, moment_s: float | None) -> float | None:
        """Unix time of a moment of the steady axis."""
        return None if moment_s is None else round(moment_s + self.moment.wall_minus_steady_s, 3)


def look_at_unit(paths: Paths, *, links: bool = False) -> View:
    """The unit now. Never raises for what lies in it; what is wrong is in ``world.blind`` and ``troubles``.

    ``links``: also look for links that name nothing, which takes further looks.
    """
    clock = Clock()
    moment = clock.moment()
    troubles: list[str] = []
    state = read_state(paths)
    numbers = _read_numbers(paths, troubles)
    known = read_ledger(paths, troubles)
    ledger = (
        known if known is not None else Ledger(run=Run(started_s=moment.now_s, job_started_s=moment.now_s))
    )
    alive = state is not None and state.lives(moment.wall_s)
    offset_s = state.volume_offset_s if state is not None else 0.0
    scanner = CopyScanner(
        paths.unit,
        followed=frozenset(copy.name for copy in ledger.copies),
        wholes=ledger.wholes,
        judge_s=WALK_S_MAX,
    )
    look = _walk(scanner, clock, offset_s)
    glue = _look_at_glue(paths, clock, offset_s)
    moment = clock.moment()
    job = JobEye().look(glue.job, moment)
    if not look.blind:
        told = state.settle if alive and state is not None else None
        settled = told or settle(ledger, numbers, job, POLL_S)
        ledger = _with_copies(ledger, scanner, look, clock, offset_s, settled, state)
        moment = clock.moment()
    world = _world(paths, ledger, look, glue, job, moment, _unseen(ledger) if alive else ())
    outcome = decide(world, numbers, ledger)
    readings = judge.conditions(world, numbers, outcome.ledger, costs(world, numbers, outcome.ledger))
    return View(
        paths=paths,
        moment=moment,
        state=state,
        alive=alive,
        numbers=numbers,
        ledger=outcome.ledger,
        remembered=known is not None,
        world=world,
        readings=_with_the_governors_word(readings, state) if alive and state is not None else readings,
        dangling=_dangling(scanner, clock, offset_s) if links and not look.blind else (),
        scanner=scanner,
        truncated=look.truncated or look.partial,
        troubles=tuple(troubles),
    )


# ---- what the governor has written -----------------------------------------------------------------------------


def read_ledger(paths: Paths, troubles: list[str]) -> Ledger | None:
    """The ledger as it is on disk; None where there is none, or a damaged one, which is told."""
    try:
        return parse_ledger(read_bounded(paths.of("ledger.json"), LEDGER_BYTES_MAX))
    except FileNotFoundError:
        return None
    except RecordError as error:
        troubles.append(str(error))
    except OSError as error:
        troubles.append(f"ledger.json: cannot be read: {words_of(error)}")
    return None


def _read_numbers(paths: Paths, troubles: list[str]) -> Numbers:
    file = NumbersFile(paths.of("numbers.json"), Settings(unit=paths.unit))
    try:
        file.load()
    except RecordError as error:
        troubles.append(str(error))
    return file.numbers


def _unseen(ledger: Ledger) -> tuple[Notice, ...]:
    """The announcements that only the governor's process knows: its signals, and the end that a flag of it dates."""
    notices = []
    for cause in ledger.causes:
        condition, signal = condition_named(cause.reason), cause.key.startswith("notice:signal:")
        if condition is None or not cause.live:
            continue
        if signal or cause.key.startswith("notice:walltime:duration:"):
            notices.append(
                Notice(
                    identity=cause.key.removeprefix("notice:"),
                    condition=condition,
                    seen_s=cause.seen_s,
                    deadline_s=cause.deadline_s,
                    text=cause.text,
                    source="signal" if signal else "duration",
                )
            )
    return tuple(notices)


def _with_the_governors_word(readings: tuple[Reading, ...], state: State) -> tuple[Reading, ...]:
    """What this look cannot tell, as the governor tells it: its process has eyes and flags of its own."""
    told = state.record.get("conditions")
    if not isinstance(told, dict):
        return readings
    return tuple(
        evolve(
            reading,
            value=bool(told[reading.condition.value]),
            why="the governor reads it so",
            source="state.json",
        )
        if reading.value is None and told.get(reading.condition.value) in (0, 1)
        else reading
        for reading in readings
    )


# ---- the looks -------------------------------------------------------------------------------------------------


def _walk(scanner: CopyScanner, clock: Clock, offset_s: float, ahead_s: float = 0.0) -> Look:
    """One whole walk; a large unit takes several slices. ``ahead_s``: how much later the scanner takes it to be."""
    begun_s = clock.moment().now_s
    while True:
        moment = clock.moment()
        volume_offset_s = offset_s + moment.wall_minus_steady_s - ahead_s
        look = scanner.look(moment.now_s + ahead_s, volume_offset_s)
        if not look.partial or moment.now_s - begun_s >= WALK_S_MAX:
            return look


def _dangling(scanner: CopyScanner, clock: Clock, offset_s: float) -> tuple[tuple[str, str], ...]:
    """The links that name nothing, as the last two looks of this scanner show them.

    The scanner waits until it believes that, for links are made anew with a moment between. Whoever looks once cannot
    wait so long: a link that names nothing at both ends of a pause does it.
    """
    found = _walk(scanner, clock, offset_s, DANGLING_S).dangling
    if found:
        time.sleep(PAUSE_S)
        found = _walk(scanner, clock, offset_s, 2 * DANGLING_S).dangling
    return found


def _look_at_glue(paths: Paths, clock: Clock, offset_s: float) -> GlueLook:
    """The drop-in files, with the second look that new and damaged ones need."""
    reader = GlueReader(paths.glue)
    try:
        look = reader.look(clock.moment(), offset_s)
        for _ in range(GLUE_LOOKS_MAX - 1):
            if look.look_again_s is None:
                break
            time.sleep(look.look_again_s + 0.01)
            look = reader.look(clock.moment(), offset_s)
        return look
    finally:
        reader.close()


def _with_copies(
    ledger: Ledger,
    scanner: CopyScanner,
    look: Look,
    clock: Clock,
    offset_s: float,
    settled: Settle,
    state: State | None,
) -> Ledger:
    """The ledger with its copies as they are now."""
    now_s = clock.moment().now_s
    asked_s = ledger.request.at_s if ledger.request is not None else None
    former_look_s = ledger.look_s
    if state is not None and state.written_at is not None and former_look_s is not None:
        former_look_s = max(former_look_s, state.written_at)  # the ledger on disk is older than the last look
    if former_look_s is not None:
        former_look_s = min(former_look_s, now_s)
    copies = follow(
        ledger.copies,
        look.sightings,
        now_s=now_s,
        former_look_s=former_look_s,
        asked_s=asked_s,
        settle=settled,
        last_serial=ledger.last_serial,
    )
    aged = _settled(copies, look.sightings, now_s, asked_s, settled)
    if any(former.status is not copy.status for former, copy in zip(copies, aged, strict=True)):
        time.sleep(PAUSE_S)
        again, later_s = _walk(scanner, clock, offset_s), clock.moment().now_s
        if not (again.blind or again.partial):
            aged = follow(
                aged, again.sightings, now_s=later_s, former_look_s=now_s, asked_s=asked_s, settle=settled
            )
    last_serial = max((ledger.last_serial, *(copy.serial for copy in aged)))
    return evolve(ledger, copies=aged, last_serial=last_serial)


def _settled(
    copies: tuple[Copy, ...], look: tuple[Sighting, ...], now_s: float, asked_s: float | None, settled: Settle
) -> tuple[Copy, ...]:
    """The copies, those that are new to this look judged by how long the volume's clock says they were quiet.

    Nobody was looking, so the file's own times are all there is. They can be made up, so a judgement that rests on
    them is believed only when a second look shows no change.
    """
    written = {sighting.name: sighting.written_s for sighting in look}
    aged = tuple(
        evolve(copy, changed_s=min(written.get(copy.name, now_s), now_s))
        if copy.status is CopyStatus.WRITING and copy.changed_s == now_s
        else copy
        for copy in copies
    )
    return follow(aged, look, now_s=now_s, former_look_s=now_s, asked_s=asked_s, settle=settled)


def _world(
    paths: Paths,
    ledger: Ledger,
    look: Look,
    glue: GlueLook,
    job: Job,
    moment: Moment,
    notices: tuple[Notice, ...],
) -> Observation:
    seen = {notice.identity for notice in glue.notices}
    top = newest_sound(ledger.copies)
    return Observation(
        unit=paths.unit,
        now_s=moment.now_s,
        blind=look.blind or glue.blind,
        copies=judge.copies_that_matter(ledger.copies),
        notices=(*(notice for notice in notices if notice.identity not in seen), *glue.notices),
        volume=volume(paths.unit),
        copy_count=look.copy_count,
        stages_beside=stages_beside(top.format) if top is not None else False,
        leftovers=leftovers_of(ledger.copies),
        job=job,
        ending=glue.ending,
        troubles=glue.troubles,
        poll_s=POLL_S,
        heard_id=glue.seen_id,
    )


# ---- how it is told --------------------------------------------------------------------------------------------


def age_text(copy: Copy, view: View) -> str:
    """Since its write began: the state that it holds is that old."""
    return format_duration(max(0.0, view.moment.now_s - copy.began_s))


def complain_of(views: list[View]) -> None:
    """Says what of the governor's own files could not be read."""
    for view in views:
        for trouble in view.troubles:
            complain(f"{view.paths.unit}: {trouble}")
