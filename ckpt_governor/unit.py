"""One unit under one governor: observe, judge, decide, announce; and how its run begins, goes on and ends."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from attrs import evolve
from filelock import FileLock, Timeout

from ckpt_governor import __version__
from ckpt_governor.announce import Announcer
from ckpt_governor.conditions import Condition
from ckpt_governor.copies import follow, newest_sound
from ckpt_governor.decide import decide
from ckpt_governor.estimate import costs, settle
from ckpt_governor.facts import CopyStatus, Job, Moment, Notice, Observation, Trouble
from ckpt_governor.files import Paths, make_control, read_bounded, words_of
from ckpt_governor.formats import stages_beside
from ckpt_governor.judge import copies_that_matter, with_moments
from ckpt_governor.ledger import OPEN_STATES, CauseState, Edge, Ledger, Run, shifted
from ckpt_governor.leftovers import leftovers_of
from ckpt_governor.memory import parse_ledger
from ckpt_governor.numbers import Numbers
from ckpt_governor.numbersfile import NumbersFile
from ckpt_governor.observe.copies import CopyScanner, Look
from ckpt_governor.observe.glue import GlueLook, GlueReader
from ckpt_governor.observe.host import run_token, volume
from ckpt_governor.observe.job import JobEye
from ckpt_governor.observe.losses import bounded_wholes
from ckpt_governor.pointers import told
from ckpt_governor.quiet import Quiet, Tick, is_settled, rest_until_s, rested, seen_key
from ckpt_governor.receipt import Receipt, receipt
from ckpt_governor.records import FILE_BYTES_MAX, RecordError, parse_object
from ckpt_governor.rules import window_s
from ckpt_governor.settings import POLL_BUSY_S, Settings
from ckpt_governor.signs_memory import Memories

REQUEST_ID_MAX = 2**53 - 2**30
"""A damaged file must not push the ids to where JSON readers lose their last digits."""
LEDGER_BYTES_MAX = 4 * 1024 * 1024
SAME_RUN_GAP_S = 600.0
"""A governor that comes back later than this after the last look begins another run."""


class NotOwner(Exception):
    """Another governor decides for this unit."""


class Unit:
    """One unit, owned by this process from ``open`` to ``close``."""

    def __init__(self, paths: Paths, settings: Settings, governor_id: str) -> None:
        self.paths, self.settings, self.governor_id = paths, settings, governor_id
        self.numbers_file = NumbersFile(paths.of("numbers.json"), settings)
        self.ledger = Ledger()
        self.world: Observation | None = None
        self._troubles: tuple[Trouble, ...] = ()
        self.write_error = ""
        self._look_s: float | None = None
        self._heard: tuple[int, float] | None = None
        self._quiet: Quiet | None = None
        self._lock: FileLock | None = None
        self._held: tuple[tuple[int, int, bool] | None, ...] = ()

    # ---- begin --------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """What must be right before anything starts. Raises RecordError or ValueError for settings, else OSError."""
        make_control(self.paths)
        self.numbers_file.load()

    def open(self, moment: Moment) -> None:
        """Takes the lock and goes on from what is on disk. Raises NotOwner, OSError, RecordError or ValueError."""
        self.prepare()
        self._quiet = None
        self._take_lock()
        self._offset_s = self._volume_offset_s(moment)
        state = self._read_state()
        self.ledger = self._read_ledger(state)
        shift_s = _clock_step_s(self.ledger, moment)
        self.ledger = shifted(self.ledger, shift_s) if shift_s else self.ledger
        self._look_s = self._last_look_s(state, shift_s)
        self.ledger = self._begin_run(moment)
        followed = frozenset(copy.name for copy in self.ledger.copies)
        self._scanner = CopyScanner(self.paths.unit, followed=followed, wholes=self.ledger.wholes)
        self._glue = GlueReader(self.paths.glue)
        self._job_eye = JobEye()
        self._announcer = Announcer(
            self.paths, self.governor_id, __version__, self.settings.beat_every_s, _beat(state)
        )

    def _take_lock(self) -> None:
        lock = FileLock(self.paths.of("lock"), mode=0o664)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise NotOwner(self.owner()) from None
        self._lock = lock
        self._held = self._places()

    def holds_lock(self) -> bool:
        """Whether the lock that this process holds is still the one that others would take."""
        return self._lock is not None and self._places() == self._held

    def _places(self) -> tuple[tuple[int, int, bool] | None, ...]:
        """The control directory and its lock as they stand there now: what, and whether it is a directory."""
        return (_inode(self.paths.control), _inode(self.paths.acks), _inode(self.paths.of("lock")))

    def owner(self) -> str:
        """The id of the governor that state.json names."""
        governor = self._read_state().get("governor")
        name = governor.get("id") if isinstance(governor, dict) else None
        return name[:128] if isinstance(name, str) else "another governor"

    def _volume_offset_s(self, moment: Moment) -> float:
        """The volume's clock minus ours, by a file of our own that is touched now."""
        path = self.paths.of("lock")
        os.utime(path)
        return os.stat(path).st_mtime - moment.wall_s

    def _read_state(self) -> dict[str, object]:
        try:
            return parse_object(read_bounded(self.paths.of("state.json"), FILE_BYTES_MAX), "state.json")
        except (OSError, RecordError):
            return {}

    def _read_ledger(self, state: dict[str, object]) -> Ledger:
        """The ledger; a damaged one is started anew, and request ids go on growing from what else is known."""
        wrong = ""
        try:
            ledger = parse_ledger(read_bounded(self.paths.of("ledger.json"), LEDGER_BYTES_MAX))
        except FileNotFoundError:
            ledger = (
                self.ledger
            )  # a fresh unit, or one whose control directory was taken away while this process ran
        except RecordError as error:
            ledger, wrong = Ledger(), str(error)
        except OSError as error:
            ledger, wrong = Ledger(), f"ledger.json: cannot be read: {words_of(error)}"
        if wrong:
            text = f"{wrong}; begun anew"
            self._troubles = (Trouble(key="ledger", reason="ledger", text=text),)
        request = state.get("request")
        ids = [ledger.last_id, state.get("last_id"), request.get("id") if isinstance(request, dict) else None]
        whole = [number for number in ids if isinstance(number, int) and 0 <= number < REQUEST_ID_MAX]
        return evolve(ledger, last_id=max(whole, default=0))

    def _last_look_s(self, state: dict[str, object], shift_s: float) -> float | None:
        """When a governor last looked at this unit: it wrote its state then."""
        written = state.get("written_at")
        if isinstance(written, float) and self.ledger.look_s is not None:
            return max(written + shift_s, self.ledger.look_s)
        return self.ledger.look_s

    def _begin_run(self, moment: Moment) -> Ledger:
        """The same run goes on after a kill; a clean stop, another host or a long gap begins a new one."""
        ledger, now_s = self.ledger, moment.now_s
        if self._look_s is not None:
            self._look_s = min(self._look_s, now_s)
        run, token = ledger.run, run_token()
        gap_s = None if self._look_s is None else now_s - self._look_s
        same = not run.closed and run.started_s > 0 and run.token == token and gap_s is not None
        if same and gap_s is not None and gap_s <= max(SAME_RUN_GAP_S, 60 * self.settings.beat_every_s):
            return evolve(ledger, run=evolve(run, governor_id=self.governor_id, resumed_s=now_s))
        fresh = Run(
            governor_id=self.governor_id,
            token=token,
            started_s=now_s,
            job_started_s=now_s,
            job_identity=run.job_identity,
        )
        kept = tuple(
            evolve(cause, state=CauseState.WAITING) if cause.state in OPEN_STATES else cause
            for cause in ledger.causes
            if cause.key.startswith("notice:")
        )
        signs = ledger.signs if run.token == token else Memories()  # another host has other counters
        return evolve(ledger, run=fresh, causes=kept, request=None, signs=signs)

    # ---- go on --------------------------------------------------------------------------------------------------

    def tick(
        self, moment: Moment, notices: tuple[Notice, ...] = (), job: Job | None = None, *, final: bool = False
    ) -> Tick:
        """One pass of the whole flow. Never raises for what stands on the volume."""
        self.numbers_file.refresh(moment.now_s)
        numbers = self.numbers_file.numbers
        # The volume's clock minus the steady axis; copies before glue, so that no copy seems older than its mark.
        look = self._scanner.look(moment.now_s, self._offset_s + moment.wall_minus_steady_s)
        glue = self._glue.look(moment, self._offset_s)
        if glue.missing:
            with suppress(OSError):  # the next look says it, should it be more than somebody's cleaning up
                make_control(self.paths)
        key = (*seen_key(look, glue, notices, job, numbers), self.numbers_file.trouble)
        if (
            self._quiet is not None
            and key == self._quiet.key
            and moment.now_s < self._quiet.until_s
            and not (self.write_error or look.partial or final)
        ):
            self._look_s = moment.now_s
            self.write_error = self._announcer.beat(moment)
            wait_s = max(0.02, min(self.settings.poll_s, self._quiet.until_s - moment.now_s))
            return evolve(self._quiet.tick, wait_s=wait_s)
        self.ledger = rested(self.world, self.ledger, self._look_s)
        world = self.observe(moment, numbers, look, glue, notices, job)
        outcome = decide(world, numbers, self.ledger)
        # Without the lock nothing may be written: another one may decide here, or a link stand in its place.
        if self._lock is not None:
            self.write_error = self._announcer.announce(
                world, numbers, self.ledger, outcome.ledger, outcome.decisions, moment, final=final
            )
        if self._announcer.volume_offset_s is not None:
            self._offset_s = self._announcer.volume_offset_s
        self.ledger, self.world = evolve(outcome.ledger, look_boot_s=moment.boot_s), world
        tick = Tick(
            world=world,
            ledger=outcome.ledger,
            decisions=outcome.decisions,
            wait_s=self._wait_s(world, glue.look_again_s, moment.now_s, look.partial or look.unfinished),
            again=glue.look_again_s is not None,
        )
        self._quiet = self._quiet_from(key, tick, look, numbers)
        return tick

    def _quiet_from(self, key: tuple[object, ...], tick: Tick, look: Look, numbers: Numbers) -> Quiet | None:
        """Until when the same look again would lead to nothing: a while, or the moment the window asks."""
        unclear = tick.again or look.partial or look.unfinished or self.write_error or self._lock is None
        if unclear or not is_settled(tick.world, tick.ledger):
            return None
        until_s = rest_until_s(tick.world, numbers, tick.ledger)
        return Quiet(key=key, until_s=until_s, tick=evolve(tick, decisions=()))

    def observe(
        self,
        moment: Moment,
        numbers: Numbers,
        look: Look,
        glue: GlueLook,
        notices: tuple[Notice, ...],
        job: Job | None,
    ) -> Observation:
        """The world of this moment: what the looks showed, followed over time."""
        known_job = self._job_eye.look(glue.job, moment) if job is None else _merged(job, glue.job, moment)
        blind = look.blind or glue.blind or self.write_error
        if self._lock is None:
            blind = blind or "the control directory was taken away and cannot be made again"
        if not blind and not look.partial:
            request = self.ledger.request
            copies = follow(
                self.ledger.copies,
                look.sightings,
                now_s=moment.now_s,
                former_look_s=self._look_s,
                asked_s=request.at_s if request is not None else None,
                settle=settle(self.ledger, numbers, known_job, self.settings.poll_s),
                last_serial=self.ledger.last_serial,
            )
            copies = with_moments(copies, self.ledger.copies, look.sightings, self._look_s)
            last_serial = max((self.ledger.last_serial, *(copy.serial for copy in copies)))
            wholes = self._scanner.remember(copies)
            self.ledger = evolve(
                self.ledger, copies=copies, last_serial=last_serial, wholes=bounded_wholes(wholes)
            )
            self._look_s = moment.now_s
        troubles = (*glue.troubles, *self._troubles, *(_dangling(name, to) for name, to in look.dangling))
        troubles = (*troubles, *told(self.ledger.copies, look.pointers, look.pointer_files, moment.now_s))
        if self.numbers_file.trouble is not None:
            troubles = (*troubles, self.numbers_file.trouble)
        top = newest_sound(self.ledger.copies)
        heard_id = glue.seen_id
        if heard_id is not None and (self._heard is None or self._heard[0] != heard_id):
            self._heard = (heard_id, moment.now_s)
        return Observation(
            unit=self.paths.unit,
            now_s=moment.now_s,
            blind=blind,
            copies=copies_that_matter(self.ledger.copies),
            notices=(*notices, *glue.notices),
            unread_names=glue.unread,
            volume=volume(self.paths.unit),
            copy_count=look.copy_count,
            stages_beside=stages_beside(top.format) if top is not None else False,
            leftovers=leftovers_of(self.ledger.copies),
            job=known_job,
            ending=glue.ending,
            troubles=troubles,
            poll_s=self.settings.poll_s,
            heard_id=self._heard[0] if self._heard else None,
            heard_s=self._heard[1] if self._heard else None,
        )

    def _wait_s(self, world: Observation, again_s: float | None, now_s: float, looks_on: bool) -> float:
        """Until the next poll, second look or placed write, whichever comes first."""
        writing = any(copy.status is CopyStatus.WRITING for copy in world.copies)
        busy = looks_on or writing or self.ledger.request is not None
        wait_s = min(self.settings.poll_s, POLL_BUSY_S) if busy else self.settings.poll_s
        if again_s is not None:
            wait_s = min(wait_s, again_s + 0.01)
        for cause in self.ledger.causes:
            if cause.open and cause.since_s > now_s:
                wait_s = min(wait_s, cause.since_s - now_s)
        return max(0.02, wait_s)

    # ---- end ----------------------------------------------------------------------------------------------------

    def receipt(self, moment: Moment) -> Receipt:
        """The account of the present run."""
        numbers = self.numbers_file.numbers
        last = newest_sound(self.world.copies) if self.world is not None else None
        window = numbers.with_us_s
        if self.world is not None:
            window = window_s(numbers, costs(self.world, numbers, self.ledger), self.ledger)
        return receipt(
            self.ledger,
            now_s=moment.now_s,
            no_us_s=numbers.no_us_s,
            with_us_s=window,
            newest_sound=last.name if last is not None else "",
        )

    def close(self, moment: Moment, *, finished: bool = False) -> Receipt:
        """A clean stop: the run is over, the last state says so, the receipt is on disk, the lock is free.

        ``finished``: the job has come to its own good end, so that its next start is no restart after a death.
        """
        self.ledger = rested(self.world, self.ledger, None if self._quiet is None else moment.now_s)
        account = self.receipt(moment)
        run = self.ledger.run
        exposure_s = self.ledger.exposure_s + max(0.0, moment.now_s - run.started_s)
        closed = evolve(self.ledger, run=evolve(run, closed=True), request=None, exposure_s=exposure_s)
        if finished or run.ended_s is not None:
            closed = evolve(
                closed, starts_s=(), run=evolve(closed.run, job_identity=""), edges=_without_flap(closed)
            )
        if self.world is not None and self.holds_lock():
            self._announcer.announce(
                self.world, self.numbers_file.numbers, self.ledger, closed, (), moment, final=True
            )
        if self.holds_lock():
            self._announcer.write_receipt(account, moment)
        self.release()
        return account

    def release(self) -> None:
        """Lets go of the lock and the files without another word."""
        if self._lock is not None:
            self._glue.close()
            self._quiet = None
            self._lock.release()
            self._lock = None


def _clock_step_s(ledger: Ledger, moment: Moment) -> float:
    """By how much the wall clock was stepped since a former process of this boot looked; 0 when that is not known."""
    if ledger.look_s is None or ledger.look_boot_s is None or ledger.run.token != run_token():
        return 0.0
    step_s = (moment.now_s - moment.boot_s) - (ledger.look_s - ledger.look_boot_s)
    return step_s if abs(step_s) > 1.0 else 0.0


def _inode(path: str) -> tuple[int, int, bool] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, stat.S_ISDIR(found.st_mode))


def _without_flap(ledger: Ledger) -> dict[str, Edge]:
    return {name: edge for name, edge in ledger.edges.items() if name != Condition.FLAP.value}


def _beat(state: dict[str, object]) -> int:
    beat = state.get("beat")
    return beat if isinstance(beat, int) and not isinstance(beat, bool) and 0 <= beat < 2**53 else 0


def _dangling(name: str, to: str) -> Trouble:
    return Trouble(
        key=f"dangling:{name}:{to}", reason="copies", text=f"{name} points to {to}, which is not there"
    )


def _merged(job: Job, record: object, moment: Moment) -> Job:
    """The wrapped command's own facts, with what job.json adds."""
    if record is None:
        return job
    told = JobEye().look(record, moment)  # type: ignore[arg-type]
    return evolve(told, started_s=job.started_s, alive=job.alive, identity=job.identity)
