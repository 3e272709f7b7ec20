"""The loop: observe, judge, decide, announce; then sleep until something may have changed.

``Loop.run`` is the whole life of ``ckpt-governor run --dir`` on one screen. The four steps of a tick stand in
``unit.py``; nothing here looks at a file.
"""

from __future__ import annotations

import signal
from contextlib import suppress

from attrs import evolve

from ckpt_governor.conditions import Condition
from ckpt_governor.copies import newest
from ckpt_governor.facts import CopyStatus, Job, Moment, Notice
from ckpt_governor.ledger import Decision, cause_with
from ckpt_governor.observe.clock import Clock
from ckpt_governor.quiet import Tick
from ckpt_governor.say import Mouth, time_of_day, warn, warn_once
from ckpt_governor.settings import Settings, Shape
from ckpt_governor.signals import REQUEST_SIGNALS, STOP_SIGNALS, TERMINATE_SIGNALS, Signals
from ckpt_governor.statefile import receipt_record
from ckpt_governor.unit import NotOwner, Unit
from ckpt_governor.wording import receipt_text, taking_over_line, waiting_line, watching_line
from ckpt_governor.wrap import Wrapped

TOGETHER_S = 1.0
"""Signals that arrive within this time are one cause."""
WRITE_RETRY_S = 10.0
"""How long the first state may fail to be written before the unit counts as blind."""
LAST_WAIT_S = 120.0
"""How long a write is waited for after the end, besides four usual ones."""
EXIT_DONE, EXIT_BLIND = 0, 3


class Loop:
    """One process over one unit."""

    def __init__(
        self,
        unit: Unit,
        settings: Settings,
        clock: Clock,
        signals: Signals,
        mouth: Mouth,
        wrapped: Wrapped | None,
    ) -> None:
        self.unit, self.settings, self.clock, self.signals, self.mouth = unit, settings, clock, signals, mouth
        self.wrapped = wrapped
        self._notices: tuple[Notice, ...] = ()
        self._terminated_s: float | None = None
        self._requested_s: float | None = None
        self._ending_s: float | None = None
        self._stop = False

    def run(self) -> int:
        """The whole life; a command that is wrapped outlives whatever fails here. Returns the exit code."""
        try:
            return self._run()
        except Exception as bug:
            if self.wrapped is None or not self.wrapped.running():
                raise
            text = f"{type(bug).__name__}: {bug}"[:500]
            warn(f"this process has failed and decides nothing more, the command runs on alone: {text}")
            return self._blind()

    def _run(self) -> int:
        """From the first look to the receipt; returns the exit code."""
        if self.wrapped is not None and not self._start(self.wrapped):
            return self.wrapped.exit_code()
        try:
            if not self._become_owner():
                return self._exit_code()
        except (OSError, ValueError) as error:
            if self.wrapped is None:
                raise
            warn(f"nothing is decided in this run, the command runs on alone: {error}")
            return self._blind()
        first = self._first_tick()
        self.mouth.line(
            watching_line(1, int(bool(first.world.blind))), watching=1, blind=int(bool(first.world.blind))
        )
        self._print(first)
        if first.world.blind:
            return self._blind()
        tick = first
        while not self._over(tick):
            self.signals.wait(tick.wait_s)
            self._hear()
            if not self.unit.holds_lock() and not self._own_again():
                return self._exit_code()
            tick = self._tick()
            self._print(tick)
        return self._finish()

    def once(self) -> int:
        """Decides once; the state stays alive for the next call."""
        try:
            self.unit.open(self.clock.moment())
        except NotOwner as owner:
            self.mouth.line(waiting_line(str(owner)), waiting=str(owner))
            return EXIT_DONE
        tick = self._tick()
        if tick.again:  # something just came: the second look tells whether it is whole
            self.signals.wait(tick.wait_s)
            first, tick = tick, self._tick()
            tick = evolve(tick, decisions=(*first.decisions, *tick.decisions))
        self.mouth.line(
            watching_line(1, int(bool(tick.world.blind))), watching=1, blind=int(bool(tick.world.blind))
        )
        self._print(tick)
        self.unit.release()
        return EXIT_BLIND if tick.world.blind else EXIT_DONE

    def _start(self, wrapped: Wrapped) -> bool:
        """Starts the command once the settings are known to be right; a unit that is blind does not keep it back."""
        with suppress(OSError):  # told when the unit is opened
            self.unit.prepare()
        return wrapped.start(self.clock.moment().now_s)

    # ---- the steps ----------------------------------------------------------------------------------------------

    def _become_owner(self) -> bool:
        """Waits for the lock while another governor decides; False when the wait was ended."""
        owner = ""
        while True:
            try:
                self.unit.open(self.clock.moment())
            except NotOwner as other:
                if not owner:
                    self.mouth.line(waiting_line(str(other)), waiting=str(other))
                owner = str(other)
            else:
                if owner:
                    self.mouth.line(taking_over_line(owner), taking_over=owner)
                return True
            self.signals.wait(self.settings.beat_every_s)
            for number in self.signals.drain():
                if self.wrapped is not None:
                    self.wrapped.send(number)
                elif number not in REQUEST_SIGNALS:
                    return False
            if self.wrapped is not None and not self.wrapped.running():
                return False

    def _own_again(self) -> bool:
        """The control directory was taken away: made and locked again, or left to whoever was faster."""
        self.unit.release()
        try:
            return self._become_owner()
        except (OSError, ValueError) as error:
            warn_once(f"{self.settings.unit}: {error}")
            return True  # blind; tried again at the next look

    def _first_tick(self) -> Tick:
        """The first look; a state that cannot be written is tried again for a while."""
        begun_s = self.clock.moment().now_s
        said: tuple[Decision, ...] = ()
        while True:
            tick = self._tick()
            said = (*said, *tick.decisions)
            failed = tick.world.blind or self.unit.write_error
            if not failed or self.clock.moment().now_s - begun_s >= WRITE_RETRY_S:
                last = tick if not failed or tick.world.blind else self._tick()
                return evolve(last, decisions=said if last is tick else (*said, *last.decisions))
            self.signals.wait(1.0)
            self._hear()
            if self._stop:
                return tick

    def _tick(self) -> Tick:
        return self.unit.tick(self.clock.moment(), self._notices, self._job())

    def _job(self) -> Job | None:
        return None if self.wrapped is None else self.wrapped.job()

    def _print(self, tick: Tick) -> None:
        bridge_s = self.clock.moment().wall_minus_steady_s
        for decision in tick.decisions:
            self.mouth.decision(decision, tick.world.unit, decision.at_s + bridge_s)

    # ---- signals ------------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Turns the signals that came into notices, or into a stop."""
        moment = self.clock.moment()
        came = self.signals.drain()
        told = next((number for number in came if number in TERMINATE_SIGNALS), None)
        if any(number in STOP_SIGNALS for number in came):
            self._stop_now(signal.SIGINT)
        elif told is not None:
            self._terminate(told, moment)
        elif any(number in REQUEST_SIGNALS for number in came) and not _together(self._requested_s, moment):
            number = next(number for number in came if number in REQUEST_SIGNALS)
            self._requested_s = moment.now_s
            self._notice(Condition.REQUEST, number, moment)

    def _terminate(self, number: signal.Signals, moment: Moment) -> None:
        """The first one is the notice; another one that comes later means now."""
        if self._terminated_s is not None:
            if not _together(self._terminated_s, moment):
                self._stop_now(signal.SIGTERM)
            return
        self._terminated_s = moment.now_s
        if self.settings.shape is Shape.NATIVE:
            self._stop_now(signal.SIGTERM)
        else:
            self._notice(Condition.TERMINATE, number, moment)

    def _notice(self, condition: Condition, number: signal.Signals, moment: Moment) -> None:
        serial = len(self._notices)
        notice = Notice(
            identity=f"signal:{self.unit.governor_id}:{serial}",
            condition=condition,
            seen_s=moment.now_s,
            text=f"{number.name} received",
            source="signal",
        )
        self._notices = (*self._notices, notice)

    def _stop_now(self, number: signal.Signals) -> None:
        self._stop = True
        if self.wrapped is not None:
            self.wrapped.send(number)

    # ---- the end ------------------------------------------------------------------------------------------------

    def _over(self, tick: Tick) -> bool:
        """Whether this run has nothing left to do."""
        if self.wrapped is not None:
            return self._command_is_over(tick)
        if self._stop or self._termination_is_answered(tick):
            return True
        return tick.ledger.run.ended_s is not None and not self.settings.stay and self._is_settled(tick)

    def _is_settled(self, tick: Tick) -> bool:
        """At the end: what is being written is waited for, but not for ever; somebody else may write on."""
        now_s = tick.world.now_s
        self._ending_s = now_s if self._ending_s is None else self._ending_s
        write_s = max(tick.ledger.write_samples_s, default=0.0)
        return _is_judged(tick) or now_s - self._ending_s > LAST_WAIT_S + 4.0 * write_s

    def _command_is_over(self, tick: Tick) -> bool:
        """A wrapped command is told once its last write is judged; when it has ended, what is there is judged."""
        assert self.wrapped is not None
        if self.wrapped.running():
            if self._termination_is_answered(tick):
                self.wrapped.tell()
            return False
        return self._stop or self._is_settled(tick)

    def _termination_is_answered(self, tick: Tick) -> bool:
        notice = next((notice for notice in self._notices if notice.condition is Condition.TERMINATE), None)
        if notice is None:
            return False
        cause = cause_with(tick.ledger, f"notice:{notice.identity}")
        return cause is not None and not cause.open

    def _finish(self) -> int:
        moment = self.clock.moment()
        finished = self.wrapped is not None and not self.wrapped.told and self.wrapped.exit_code() == 0
        account = self.unit.close(moment, finished=finished)
        bridge_s = moment.wall_minus_steady_s
        text = receipt_text(account, lambda at_s: time_of_day(at_s + bridge_s))
        self.mouth.line(text, receipt=receipt_record(account, bridge_s))
        return self._exit_code()

    def _exit_code(self) -> int:
        return EXIT_DONE if self.wrapped is None else self.wrapped.exit_code()

    def _blind(self) -> int:
        """A unit that is blind from the start: a wrapped command still runs to its end, unobserved."""
        self.unit.release()
        if self.wrapped is None:
            return EXIT_DONE if self._stop else EXIT_BLIND
        while self.wrapped.running():
            self.signals.wait(1.0)
            for number in self.signals.drain():
                self.wrapped.send(number)
        return self.wrapped.exit_code()


def _together(former_s: float | None, moment: Moment) -> bool:
    return former_s is not None and moment.now_s - former_s <= TOGETHER_S


def _is_judged(tick: Tick) -> bool:
    """Whether the newest copy is past its writing."""
    copy = newest(tick.world.copies)
    writing = any(copy.status is CopyStatus.WRITING for copy in tick.world.copies)
    return not writing or (copy is not None and copy.status is not CopyStatus.WRITING and copy.temporary)
