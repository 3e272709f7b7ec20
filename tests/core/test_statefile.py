"""state.json and receipt.json: the shapes of the contract, under their bounds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from attrs import evolve
from core.build import T0, broken, copy
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.conditions import Condition
from ckpt_governor.copies import Settle
from ckpt_governor.facts import CopyStatus, Leftover, Reading
from ckpt_governor.ledger import Cause, CauseState, Decision, Ledger, Request, RequestKind, Verdict, Write
from ckpt_governor.receipt import Compared, Receipt
from ckpt_governor.records import parse_object
from ckpt_governor.statefile import STATE_BYTES_MAX, Pulse, encode_state, receipt_record

PULSE = Pulse(governor_id="host-4711-1764424863", version="0.1.0", alive=True, beat=1234, beat_every_s=5.0)
ALL_ZERO = tuple(
    Reading(condition=condition, value=False, why="", source="glue", read_s=T0) for condition in Condition
)
DECISION = Decision(
    verdict=Verdict.SAVE, reason="risk.preempt", text="more urgent work", at_s=T0, request_id=7
)
REQUEST = Request(
    id=7, kind=RequestKind.SAVE, reason="risk.preempt", at_s=T0, first_at_s=T0 - 70, deadline_s=T0 + 120
)


def state(ledger: Ledger | None = None, pulse: Pulse = PULSE, **given: object) -> dict:
    """state.json as a reader has it."""
    text = encode_state(
        Ledger() if ledger is None else ledger,
        pulse,
        **{
            "now_s": T0,
            "no_us_s": None,
            "with_us_s": None,
            "newest": None,
            "conditions": ALL_ZERO,
            **given,
        },
    )
    assert len(text.encode()) < 4096
    assert "\n" not in text
    return parse_object(text, "state.json")


def test_its_keys_are_those_of_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
    table = page.partition("## state.json")[2].partition("A job writes")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [key for row in rows for key in re.findall(r"`(\w+)`", row)] == list(state())[1:]


def test_it_has_the_shape_of_the_contract():
    readings = (
        evolve(ALL_ZERO[0], value=True),
        *(
            evolve(reading, value=None) if reading.condition is Condition.THERMAL else reading
            for reading in ALL_ZERO[1:]
        ),
    )
    ledger = Ledger(last_id=7, request=REQUEST, last=DECISION)
    told = state(
        ledger,
        no_us_s=1800.0,
        with_us_s=7200.0,
        newest=copy(3, -600, name="step-1200.pt", step=1200),
        conditions=readings,
        settle=Settle(broken_s=30.0, sound_s=2.0004),
    )
    assert list(told)[12:] == ["last_id", "settle"]
    assert told["settle"] == {"broken_s": 30.0, "sound_s": 2.0}
    assert list(told)[:12] == [
        "v",
        "governor",
        "beat",
        "beat_every_s",
        "written_at",
        "decision",
        "request",
        "leaving_at",
        "no_us_s",
        "with_us_s",
        "newest",
        "conditions",
    ]
    assert told["v"] == 1
    assert told["governor"] == {"id": "host-4711-1764424863", "version": "0.1.0", "alive": True}
    assert (told["beat"], told["beat_every_s"], told["written_at"]) == (1234, 5.0, T0)
    assert told["decision"] == {
        "verdict": "save",
        "reason": "risk.preempt",
        "text": "more urgent work",
        "at": T0,
    }
    assert told["request"] == {
        "id": 7,
        "kind": "save",
        "reason": "risk.preempt",
        "at": T0,
        "deadline": T0 + 120,
    }
    assert (told["no_us_s"], told["with_us_s"]) == (1800.0, 7200.0)
    assert told["newest"] == {"name": "step-1200.pt", "step": 1200, "sound": True, "captured_at": T0 - 600}
    assert len(told["conditions"]) == 14
    assert told["conditions"]["risk.preempt"] == 1
    assert told["conditions"]["risk.memory"] == 0
    assert told["conditions"]["risk.thermal"] is None


def test_what_is_not_there_is_null():
    told = state()
    assert [told[key] for key in ("decision", "request", "leaving_at", "no_us_s", "with_us_s", "newest")] == [
        None
    ] * 6


def test_a_repair_is_told_as_one():
    request = evolve(REQUEST, kind=RequestKind.REPAIR, reason="broken", deadline_s=None)
    told = state(Ledger(request=request))["request"]
    assert (told["kind"], told["reason"], told["deadline"]) == ("repair", "broken", None)


@pytest.mark.parametrize(
    ("newest", "sound"),
    [
        pytest.param(copy(1, 0), True, id="sound"),
        pytest.param(broken(1, 0), False, id="broken"),
        pytest.param(copy(1, 0, CopyStatus.WRITING), None, id="writing"),
        pytest.param(copy(1, 0, CopyStatus.UNKNOWN), None, id="unknown"),
    ],
)
def test_whether_the_newest_copy_is_sound_is_true_false_or_unknown(newest, sound):
    assert state(newest=newest)["newest"]["sound"] is sound


def test_times_are_unix_time_even_after_a_clock_step():
    told = state(
        Ledger(request=REQUEST, last=DECISION), evolve(PULSE, wall_minus_steady_s=-3600.0), newest=copy(1, 0)
    )
    assert told["written_at"] == told["request"]["at"] == told["decision"]["at"] == T0 - 3600
    assert told["request"]["deadline"] == T0 + 120 - 3600
    assert told["newest"]["captured_at"] == T0 - 3600


def test_a_clean_stop_says_so():
    assert state(pulse=evolve(PULSE, alive=False))["governor"]["alive"] is False


def cause(key: str, reason: str, deadline_s: float | None, **fields: object) -> Cause:
    """An announcement; its deadline in seconds after T0."""
    return Cause(
        key=key,
        reason=reason,
        seen_s=T0 - 100,
        since_s=T0 - 100,
        deadline_s=None if deadline_s is None else T0 + deadline_s,
        **fields,
    )


@pytest.mark.parametrize(
    ("causes", "leaving_s"),
    [
        pytest.param((), None, id="nothing announced"),
        pytest.param((cause("notice:a", "risk.preempt", 120),), 120, id="one"),
        pytest.param(
            (cause("notice:a", "risk.preempt", 120), cause("notice:b", "risk.walltime", 90)), 90, id="two"
        ),
        pytest.param((cause("notice:a", "risk.preempt", 120, state=CauseState.SERVED),), 120, id="served"),
        pytest.param((cause("notice:a", "risk.preempt", 120, state=CauseState.UNFIT),), 120, id="unfit"),
        pytest.param((cause("notice:a", "risk.preempt", None),), None, id="no date"),
        pytest.param((cause("notice:a", "risk.preempt", -5),), None, id="past"),
        pytest.param((cause("notice:a", "risk.preempt", 120, live=False),), None, id="withdrawn"),
        pytest.param((cause("notice:a", "risk.request", 120),), None, id="a person's wish is no end"),
        pytest.param(
            (cause("end:1:2", "train.end", None), cause("window:1", "window", None)), None, id="others"
        ),
    ],
)
def test_the_job_is_told_when_it_has_to_leave(causes, leaving_s):
    told = state(Ledger(causes=causes))["leaving_at"]
    assert told == (None if leaving_s is None else T0 + leaving_s)


def test_ids_can_go_on_growing_when_the_ledger_is_lost():
    assert state(Ledger(last_id=1764424863123))["last_id"] == 1764424863123


@given(
    text=st.text(max_size=4000),
    name=st.text(min_size=1, max_size=4000),
    reason=st.sampled_from(list(Condition)),
)
def test_it_stays_under_four_kibibytes_whatever_is_in_it(text, name, reason):
    pulse = evolve(PULSE, governor_id="h" * 128, beat=2**53)
    decision = evolve(DECISION, text=text, reason=reason.value)
    told = state(Ledger(last=decision, request=REQUEST), pulse, newest=copy(1, 0, name=name, step=2**62))
    assert text.startswith(told["decision"]["text"])
    assert name.startswith(told["newest"]["name"])
    assert told["request"]["id"] == 7


def test_the_longest_texts_of_the_widest_letters_fit():
    wide = "\U0001f600" * 4000
    told = state(Ledger(last=evolve(DECISION, text=wide), request=REQUEST), newest=copy(1, 0, name=wide))
    assert told["newest"]["name"]
    assert STATE_BYTES_MAX == 4096


def test_the_receipt_has_the_documented_shape():
    account = Receipt(
        run_s=14280.0,
        writes=(
            Write(
                at_s=T0, reason="risk.preempt", write_s=41.2346, name="a.pt", status=CopyStatus.SOUND, bytes=5
            ),
            Write(at_s=T0 + 9, reason="", write_s=None, name="b.pt", status=CopyStatus.BROKEN),
        ),
        refused={"no-time": 1},
        asked=4,
        unheard=2,
        unserved=3,
        stalest_s=1799.99951,
        with_us_s=1800.0,
        silent_death_costs_s=1800.0,
        end_sound=True,
        end_copy="a.pt",
        compared=Compared(writes=8, write_s=330.0, silent_death_costs_s=1800.0),
        started_s=T0 - 10,
        leftovers=(Leftover(name="c.tmp", bytes=7),),
    )
    record = receipt_record(account, 100.0)
    assert json.loads(json.dumps(record)) == {
        "v": 1,
        "run_s": 14280.0,
        "started_at": T0 + 90,
        "writes": [
            {
                "at": T0 + 100,
                "reason": "risk.preempt",
                "write_s": 41.235,
                "name": "a.pt",
                "status": "sound",
                "bytes": 5,
            },
            {"at": T0 + 109, "reason": None, "write_s": None, "name": "b.pt", "status": "broken", "bytes": 0},
        ],
        "refused": {"no-time": 1},
        "asked": 4,
        "unheard": 2,
        "unserved": 3,
        "stalest_s": 1800.0,
        "with_us_s": 1800.0,
        "silent_death_costs_s": 1800.0,
        "end_sound": True,
        "newest_sound": "a.pt",
        "leftovers": [{"name": "c.tmp", "bytes": 7}],
        "compared_with_no_us": {"writes": 8, "write_s": 330.0, "silent_death_costs_s": 1800.0},
    }


def test_a_receipt_without_a_window_and_copies_has_nulls():
    account = Receipt(
        run_s=3.0,
        writes=(),
        refused={},
        unheard=0,
        unserved=0,
        stalest_s=3.0,
        with_us_s=None,
        silent_death_costs_s=None,
        end_sound=None,
        end_copy="",
        compared=Compared(writes=0, write_s=0.0, silent_death_costs_s=None),
    )
    record = receipt_record(account, 0.0)
    assert [record[key] for key in ("with_us_s", "silent_death_costs_s", "end_sound", "newest_sound")] == [
        None
    ] * 4


def test_a_very_long_name_of_a_governor_costs_the_sentence_not_the_request():
    ledger = Ledger(last=evolve(DECISION, text="\U0001f600" * 400), request=REQUEST)
    told = state(ledger, evolve(PULSE, governor_id="h" * 1500), newest=copy(1, 0, name="\U0001f600" * 400))
    assert told["decision"]["text"] == ""
    assert told["request"]["id"] == 7
