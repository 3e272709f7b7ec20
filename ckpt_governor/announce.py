"""The hands: what was decided becomes decisions.jsonl, ledger.json, state.json, acks, and at the end receipt.json."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from attrs import evolve

from ckpt_governor.copies import newest
from ckpt_governor.estimate import costs, settle
from ckpt_governor.facts import Moment, Observation
from ckpt_governor.files import Paths, append_line, read_bounded, replace_file, words_of
from ckpt_governor.judge import conditions
from ckpt_governor.ledger import CauseState, Decision, Ledger
from ckpt_governor.memory import decision_facts, encode_decision, encode_ledger
from ckpt_governor.numbers import Numbers
from ckpt_governor.receipt import Receipt
from ckpt_governor.records import dump
from ckpt_governor.rules import window_s
from ckpt_governor.say import warn_once
from ckpt_governor.signs_memory import calm
from ckpt_governor.statefile import Pulse, encode_state, receipt_record

DECISIONS_BYTES_MAX = 4 * 1024 * 1024
LEDGER_EVERY_S = 5.0
ACK_WORDS = {CauseState.SERVED: "served", CauseState.MISSED: "missed", CauseState.UNFIT: "unfit"}


class Announcer:
    """Writes the files of one unit, each only when it changed."""

    def __init__(self, paths: Paths, governor_id: str, version: str, beat_every_s: float, beat: int) -> None:
        self._paths = paths
        self._pulse = Pulse(
            governor_id=governor_id, version=version, alive=True, beat=beat, beat_every_s=beat_every_s
        )
        self._saved: Ledger | None = None
        self._saved_s = 0.0
        self._state_key: object = None
        self._state_s: float | None = None
        self._encoded: Callable[[float], str] | None = None
        self._acks: dict[str, str] = {}
        self._acks_known = False
        self.volume_offset_s: float | None = None
        """The volume's clock minus ours, as the last written file showed it."""

    def announce(
        self,
        world: Observation,
        numbers: Numbers,
        former: Ledger,
        ledger: Ledger,
        decisions: tuple[Decision, ...],
        moment: Moment,
        *,
        final: bool = False,
    ) -> str:
        """Writes what changed; returns why the state cannot be written, or nothing.

        The order matters: what is remembered is on disk before the job can see it, so that a kill between any two
        files repeats nothing and loses nothing.
        """
        self._log(world, numbers, former, decisions, moment)
        try:
            nothing_yet = self._saved is None and ledger.request is None and not ledger.causes
            if not nothing_yet:
                self._save_ledger(ledger, moment.now_s, final)
            self._write_acks(world, ledger)
            self._write_state(world, numbers, ledger, moment, final)
            if nothing_yet:  # the first beat of a fresh unit does not wait for the memory of nothing
                self._save_ledger(ledger, moment.now_s, final)
        except OSError as error:
            return f"state cannot be written: {words_of(error)}"
        return ""

    def _log(
        self,
        world: Observation,
        numbers: Numbers,
        former: Ledger,
        decisions: tuple[Decision, ...],
        moment: Moment,
    ) -> None:
        if not decisions:
            return
        facts = decision_facts(world, numbers, former)
        try:
            for decision in decisions:
                at = round(decision.at_s + moment.wall_minus_steady_s, 3)
                line = encode_decision(decision, world.unit, at, facts)
                append_line(self._paths.of("decisions.jsonl"), line, rotate_bytes=DECISIONS_BYTES_MAX)
        except OSError as error:
            warn_once(f"decisions.jsonl cannot be written: {words_of(error)}")

    def _save_ledger(self, ledger: Ledger, now_s: float, final: bool) -> None:
        saved = self._saved
        if saved is None or _urgent(ledger) != _urgent(saved) or final:
            asked = ledger.request != (None if saved is None else saved.request)
            replace_file(self._paths.of("ledger.json"), encode_ledger(ledger), durable=asked or final)
        elif now_s - self._saved_s >= LEDGER_EVERY_S and _lazy(ledger) != _lazy(saved):
            replace_file(self._paths.of("ledger.json"), encode_ledger(ledger))
        else:
            return
        self._saved, self._saved_s = ledger, now_s

    def _write_state(
        self, world: Observation, numbers: Numbers, ledger: Ledger, moment: Moment, final: bool
    ) -> None:
        cost = costs(world, numbers, ledger)
        readings = conditions(world, numbers, ledger, cost)
        top = newest(world.copies)
        key = (
            _visible_request(ledger),
            ledger.last,
            None if top is None else (top.serial, top.status, top.name),
            tuple(reading.value for reading in readings),
            numbers,
        )
        asked = _visible_request(ledger) != self._visible
        with_us_s = window_s(numbers, cost, ledger)
        quiet = settle(ledger, numbers, world.job, world.poll_s)

        def encoded(now_s: float) -> str:
            return encode_state(
                ledger,
                self._pulse,
                now_s=now_s,
                no_us_s=numbers.no_us_s,
                with_us_s=with_us_s,
                newest=top,
                conditions=readings,
                settle=quiet,
            )

        self._encoded = (
            encoded  # before the return: a beat tells what was known last, not what was written last
        )
        if key == self._state_key and not self._beat_is_due(moment.now_s) and not final:
            return
        self._put_state(moment, alive=not final, durable=asked or final)
        self._state_key, self._visible = key, _visible_request(ledger)

    def _put_state(self, moment: Moment, *, alive: bool, durable: bool) -> None:
        """The state as it was told last, with the next beat. Raises OSError."""
        self._pulse = evolve(
            self._pulse,
            beat=self._pulse.beat + 1,
            alive=alive,
            wall_minus_steady_s=moment.wall_minus_steady_s,
        )
        assert self._encoded is not None
        written = replace_file(self._paths.of("state.json"), self._encoded(moment.now_s), durable=durable)
        self.volume_offset_s, self._state_s = written - moment.wall_s, moment.now_s

    def _beat_is_due(self, now_s: float) -> bool:
        return self._state_s is None or now_s - self._state_s >= self._pulse.beat_every_s - 0.05

    def beat(self, moment: Moment) -> str:
        """The heartbeat of a unit in which nothing happens; returns why it cannot be written, or nothing."""
        if self._encoded is None or not self._beat_is_due(moment.now_s):
            return ""
        try:
            self._put_state(moment, alive=True, durable=False)
        except OSError as error:
            return f"state cannot be written: {words_of(error)}"
        return ""

    def _write_acks(self, world: Observation, ledger: Ledger) -> None:
        """Answers the hooks; an answer whose notice is gone, or open again, is taken back."""
        if world.blind:
            return
        wanted: dict[str, str] = {}
        for cause in ledger.causes:
            word = ACK_WORDS.get(cause.state)
            if cause.open and cause.released:
                word = ACK_WORDS[CauseState.UNFIT]
            elif cause.open and cause.unanswered:
                word = ACK_WORDS[CauseState.MISSED]
            if word and cause.live:
                wanted.update((name, word) for name in cause.ack_names if _is_plain(name))
        if self._acks_known and wanted == self._acks:
            return
        folder = self._paths.acks
        try:
            if not self._acks_known:
                self._acks, self._acks_known = _read_acks(folder), True
        except OSError as error:
            warn_once(f"acks cannot be read: {words_of(error)}")
            return
        for name in self._acks.keys() - wanted.keys():
            _remove(os.path.join(folder, name))
            del self._acks[name]
        for name, word in wanted.items():
            if self._acks.get(name) != word:
                self._write_ack(folder, name, word)

    def _write_ack(self, folder: str, name: str, word: str) -> None:
        """One answer; one that cannot be written is tried again at the next look and keeps no other back."""
        try:
            replace_file(os.path.join(folder, name), word + "\n")
        except OSError as error:
            self._acks_known = False
            warn_once(f"acks cannot be written: {words_of(error)}")
        else:
            self._acks[name] = word

    def write_receipt(self, account: Receipt, moment: Moment) -> None:
        """Leaves receipt.json; a failure is a warning, the printed receipt tells the same."""
        record = receipt_record(account, moment.wall_minus_steady_s)
        try:
            replace_file(self._paths.of("receipt.json"), dump(record) + "\n")
        except OSError as error:
            warn_once(f"receipt.json cannot be written: {words_of(error)}")

    _visible: object = None


def _visible_request(ledger: Ledger) -> object:
    request = ledger.request
    if request is None:
        return None
    return (request.id, request.kind, request.reason, request.deadline_s)


def _urgent(ledger: Ledger) -> tuple[object, ...]:
    """What must be on disk before the job can see its effect."""
    return (
        _visible_request(ledger),
        ledger.causes,
        ledger.judged,
        ledger.last_id,
        ledger.repaired,
        ledger.ended_identities,
        ledger.run.ended_s,
        ledger.run.started_s,
        ledger.run.closed,
    )


def _lazy(ledger: Ledger) -> Ledger:
    """The ledger without what changes at every look."""
    run = evolve(ledger.run, stalest_s=0.0)
    return evolve(ledger, look_s=None, look_boot_s=None, run=run, signs=calm(ledger.signs))


def _read_acks(folder: str) -> dict[str, str]:
    acks = {}
    for name in os.listdir(folder):
        if name.startswith("."):
            continue
        try:
            word = read_bounded(os.path.join(folder, name), 64).decode("ascii", "replace").strip()
        except OSError:
            continue  # not an answer that a governor wrote
        if word in ACK_WORDS.values():
            acks[name] = word
    return acks


def _is_plain(name: str) -> bool:
    """Whether this is the name of one file in a folder; a damaged ledger may hold anything."""
    return name == os.path.basename(name) and not name.startswith(".") and "\0" not in name


def _remove(path: str) -> None:
    with suppress(OSError):  # gone already, or not ours
        os.unlink(path)
