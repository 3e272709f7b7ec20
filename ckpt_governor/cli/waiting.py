"""Waiting for the governor's answer to an announcement, until there is one or there can be none."""

from __future__ import annotations

import os
import time

from attrs import define, frozen

from ckpt_governor.cli.alive import BEATS_TO_GONE, State, read_state
from ckpt_governor.durations import format_duration
from ckpt_governor.files import Paths, read_bounded

ANSWERS = {
    "served": "a sound copy was written",
    "missed": "no sound copy was there in time",
    "unfit": "no write fits: the line of the governor says whether time or space is short",
}
"""The words of an ack and what they mean."""
POLL_S = 0.1
LATE_S = 5.0
"""How long after the deadline an answer may still come."""
STOPPED_S = 1.0
"""A governor that stops writes its last answers after it has said that it stops."""
BEATS_TO_GONE_OLD = 1.5
"""Patience with a beat that was too old to begin with."""


@frozen(kw_only=True)
class Waiting:
    """One announcement that waits for its answer; moments are those of the monotonic clock."""

    paths: Paths
    name: str
    dropped_at: float
    """By the volume's clock."""
    began_s: float
    late_s: float | None
    """After this no answer is waited for; None without a deadline."""


@frozen(kw_only=True)
class Answer:
    """What came of it: a word of ANSWERS with its sentence, or why nobody can answer."""

    word: str = ""
    text: str = ""
    gone: str = ""


@define
class Watch:
    """Follows the beat: no two clocks are compared, except those that stamp files of one volume."""

    moved_s: float
    dropped_at: float
    mark: tuple[str, int] | None = None
    moved: bool = False
    stopped_s: float | None = None

    def gone(self, state: State | None, now_s: float) -> str:
        """Why the governor counts as gone; empty while it may be alive."""
        if state is None or not state.alive:
            self.stopped_s = now_s if self.stopped_s is None else self.stopped_s
            if now_s - self.stopped_s < STOPPED_S:
                return ""
            return "there is no state.json that can be read" if state is None else "it has stopped"
        self.stopped_s = None
        mark = (state.governor_id, state.beat)
        if mark != self.mark:
            self.moved = self.mark is not None
            self.mark, self.moved_s = mark, now_s
        still_s = now_s - self.moved_s
        patience_s = state.gone_s
        if not self.moved and self.dropped_at - state.modified_at > state.gone_s:
            patience_s *= BEATS_TO_GONE_OLD / BEATS_TO_GONE
        if still_s < patience_s:
            return ""
        return (
            f"its beat has not moved for {format_duration(max(still_s, self.dropped_at - state.modified_at))}"
        )


def wait_for(waiting: Waiting) -> Answer:
    """Looks for the answer until there is one, or until there can be none."""
    watch = Watch(moved_s=time.monotonic(), dropped_at=waiting.dropped_at)
    while True:
        word = ack(waiting.paths, waiting.name)
        if word:
            return Answer(word=word, text=ANSWERS[word])
        now_s = time.monotonic()
        if waiting.late_s is not None and now_s >= waiting.late_s:
            return Answer(word="missed", text="the deadline passed and no answer came")
        gone = watch.gone(read_state(waiting.paths), now_s)
        if gone:
            return Answer(gone=gone)
        time.sleep(POLL_S)


def ack(paths: Paths, name: str) -> str:
    """The governor's answer; empty while there is none that it could have written."""
    try:
        word = read_bounded(os.path.join(paths.acks, name), 64).decode("ascii", "replace").strip()
    except OSError:
        return ""
    return word if word in ANSWERS else ""
