"""The lines that people read. They are an interface: golden files hold them, and a change changes the product.

To accept a wanted change: ``pytest tests/core/test_wording.py --update-golden`` and read the diff.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import CopyStatus, Leftover
from ckpt_governor.ledger import Decision, Verdict, Write
from ckpt_governor.prices import price_table
from ckpt_governor.receipt import Compared, Receipt
from ckpt_governor.wording import (
    columns,
    decision_line,
    price_rows,
    printable,
    receipt_text,
    size_text,
    taking_over_line,
    waiting_line,
    watching_line,
)

GOLDEN = Path(__file__).parent / "golden"
DAY_S = datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp()


def clock(moment_s: float) -> str:
    """Time of day, in UTC."""
    return f"{datetime.fromtimestamp(moment_s, timezone.utc):%H:%M:%S}"


def at(text: str) -> float:
    """The moment with this time of day."""
    hours, minutes, seconds = map(int, text.split(":"))
    return DAY_S + hours * 3600 + minutes * 60 + seconds


@pytest.fixture
def check_golden(request):
    """Compares a text with the golden file of this name, or writes it when that is asked for."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text

    return compare


# ---- lines


def line(verdict: Verdict, reason: str, text: str) -> Decision:
    """A decision."""
    return Decision(verdict=verdict, reason=reason, text=text, at_s=0.0)


DECISIONS = [
    (
        "14:41:03",
        line(Verdict.SAVE, "risk.preempt", "higher-priority or more urgent work can take these resources"),
    ),
    ("14:42:11", line(Verdict.SKIP, "no-time", "a write needs 40s, 12s left")),
    ("14:43:00", line(Verdict.SKIP, "in-flight", "risk.memory: step-7.pt is being written")),
    (
        "14:44:00",
        line(Verdict.REPAIR, "broken", "step-8.pt is broken: cut; the last sound copy is step-7.pt"),
    ),
    ("14:45:00", line(Verdict.SAVE, "risk.maintenance", "a reboot is scheduled, 2m left")),
    (
        "14:46:00",
        line(Verdict.INFEASIBLE, "window", "the window of 10s is shorter than a write, which takes 46s"),
    ),
    ("14:47:00", line(Verdict.UNKNOWN, "risk.memory", "glue/risk.memory: not JSON")),
    ("14:48:00", line(Verdict.SKIP, "no-space", "evil\n\x1b[31mname\u202e.pt")),
]


def test_every_verdict_has_its_line(check_golden):
    check_golden(
        "decisions.txt", "".join(f"{decision_line(decision, when)}\n" for when, decision in DECISIONS)
    )


def test_a_unit_column_stands_after_the_time(check_golden):
    shown = [decision_line(decision, when, unit="team/run\n7") for when, decision in DECISIONS]
    check_golden("decisions-of-units.txt", "".join(f"{text}\n" for text in shown))


def test_colour_changes_the_verdict_only(check_golden):
    shown = [decision_line(decision, when, colour=True) for when, decision in DECISIONS]
    check_golden("decisions-in-colour.txt", "".join(f"{text}\n" for text in shown))


@pytest.mark.parametrize(("when", "decision"), DECISIONS, ids=[decision.reason for _, decision in DECISIONS])
def test_a_decision_is_one_printable_line(when, decision):
    assert decision_line(decision, when).isprintable()


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        pytest.param(
            DECISIONS[0][1],
            "14:41:03  save  risk.preempt  higher-priority or more urgent work can take these resources",
            id="save",
        ),
        pytest.param(DECISIONS[1][1], "14:41:03  skip  no-time       a write needs 40s, 12s left", id="skip"),
    ],
)
def test_the_lines_are_those_of_the_documentation(decision, text):
    assert decision_line(decision, "14:41:03") == text


@pytest.mark.parametrize(
    ("units", "blind", "text"),
    [
        pytest.param(1, 0, "watching 1 unit · 0 blind", id="one"),
        pytest.param(2, 0, "watching 2 units · 0 blind", id="two"),
        pytest.param(0, 0, "watching 0 units · 0 blind", id="none"),
        pytest.param(3, 1, "watching 3 units · 1 blind", id="one is blind"),
    ],
)
def test_the_first_line_counts_the_units(units, blind, text):
    assert watching_line(units, blind) == text


def test_a_second_governor_says_who_decides():
    assert (
        waiting_line("host-1\n")
        == "waiting · host-1\\x0a decides for this unit; this one takes over when it is gone"
    )
    assert taking_over_line("host-1") == "taking over · host-1 is gone"
    assert taking_over_line("") == "taking over"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain é 漢", "plain é 漢", id="letters"),
        pytest.param("a\nb\tc", "a\\x0ab\\x09c", id="control characters"),
        pytest.param("\x1b[2J", "\\x1b[2J", id="an escape code"),
        pytest.param("\u202eabc", "\\u202eabc", id="a direction mark"),
        pytest.param("\U000e0041", "\\U000e0041", id="a tag"),
        pytest.param("a\udcffb", "a\\xffb", id="a byte that is no utf-8"),
        pytest.param("\ud800", "\\ud800", id="half a pair"),
        pytest.param("\u2028", "\\u2028", id="a line separator"),
    ],
)
def test_foreign_text_reaches_a_terminal_escaped(text, shown):
    assert printable(text) == shown


@given(st.text() | st.text(st.characters(categories=["Cs", "Cc", "Cf"]), max_size=1000), st.integers(2, 500))
def test_any_foreign_text_is_one_bounded_printable_line(text, length_max):
    shown = printable(text, length_max)
    assert shown.isprintable()
    assert len(shown) <= length_max
    shown.encode()


# ---- receipts


def write(when: str, reason: str, write_s: float | None, status: CopyStatus, name: str) -> Write:
    """One write of a receipt."""
    return Write(at_s=at(when), reason=reason, write_s=write_s, name=name, status=status)


EMPTY = Receipt(
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
FULL = Receipt(
    run_s=3 * 3600 + 58 * 60,
    writes=(
        write("14:41:03", "risk.preempt", 41.2, CopyStatus.SOUND, "step-1200.pt"),
        write("15:58:40", "train.end", 40.1, CopyStatus.SOUND, "step-2400.pt"),
    ),
    refused={"no-time": 1},
    unheard=0,
    unserved=0,
    stalest_s=1790.0,
    with_us_s=1800.0,
    silent_death_costs_s=1800.0,
    end_sound=None,
    end_copy="step-2400.pt",
    compared=Compared(writes=0, write_s=0.0, silent_death_costs_s=None),
)


def test_a_receipt_is_that_of_the_documentation():
    assert receipt_text(FULL, clock) == (
        "run 3h 58m · 2 writes, 1m 21s\n"
        "  14:41:03  risk.preempt  41s  sound  step-1200.pt\n"
        "  15:58:40  train.end     40s  sound  step-2400.pt\n"
        "  refused   1 no-time\n"
        "  a silent death would have cost at most 30m"
    )


def test_a_receipt_names_what_dead_writes_have_left():
    left = (Leftover(name="a\n.tmp", bytes=5), Leftover(name="b.tmp", bytes=1_200_000))
    assert "  leftover  a\\x0a.tmp (5 B), b.tmp (1.2 MB), 1.2 MB in all\n" in receipt_text(
        evolve(FULL, leftovers=left), clock
    )


def test_an_empty_receipt_is_that_of_the_documentation():
    assert receipt_text(EMPTY, clock) == (
        "run 3s · no writes\n"
        "  nothing said the work was at risk\n"
        "  a silent death costs everything: no window was set"
    )


RECEIPTS = {
    "all-that-can-happen": evolve(
        FULL,
        writes=(
            write("14:00:00", "", None, CopyStatus.UNKNOWN, "odd\n.pt"),
            write("14:10:00", "window", 9.0, CopyStatus.BROKEN, "step-1.pt"),
            *FULL.writes,
        ),
        refused={"no-time": 1, "fresh": 2, "in-flight": 11},
        unheard=2,
        unserved=1,
        stalest_s=1900.0,
        end_sound=True,
        compared=Compared(writes=7, write_s=280.0, silent_death_costs_s=1800.0),
    ),
    "no-copy-of-the-end": evolve(FULL, end_sound=False),
    "no-copy-at-all": evolve(EMPTY, end_sound=False, unheard=3),
    "one-write-by-itself": evolve(
        EMPTY, writes=(write("14:00:00", "", 4.25, CopyStatus.SOUND, "a.pt"),), run_s=60.0
    ),
    "a-cost-that-is-not-known": evolve(
        EMPTY, compared=Compared(writes=3, write_s=None, silent_death_costs_s=90.0), run_s=300.0
    ),
}


@pytest.mark.parametrize("name", RECEIPTS)
def test_other_receipts_are_as_they_were(check_golden, name):
    check_golden(f"receipt-{name}.txt", receipt_text(RECEIPTS[name], clock) + "\n")


@pytest.mark.parametrize(
    ("account", "says"),
    [
        pytest.param(RECEIPTS["all-that-can-happen"], "odd\\x0a.pt", id="a name escaped"),
        pytest.param(RECEIPTS["all-that-can-happen"], "2 fresh, 11 in-flight, 1 no-time", id="refusals"),
        pytest.param(RECEIPTS["all-that-can-happen"], "1 asked and not answered", id="unserved"),
        pytest.param(
            RECEIPTS["all-that-can-happen"], "more than the 30m of the window", id="a window not kept"
        ),
        pytest.param(RECEIPTS["all-that-can-happen"], "without this process: 7 writes", id="compared"),
        pytest.param(RECEIPTS["all-that-can-happen"], "the end has a sound copy", id="a sound end"),
        pytest.param(RECEIPTS["no-copy-of-the-end"], "the last sound one is step-2400.pt", id="an older end"),
        pytest.param(RECEIPTS["no-copy-at-all"], "there is none", id="no end"),
        pytest.param(RECEIPTS["one-write-by-itself"], "1 write, 4.2s", id="one write"),
    ],
)
def test_a_receipt_says(account, says):
    assert says in receipt_text(account, clock)


@pytest.mark.parametrize(
    ("stalest_s", "kept"),
    [pytest.param(1800.4, True, id="within a poll"), pytest.param(1800.6, False, id="over")],
)
def test_a_window_that_was_not_kept_is_admitted(stalest_s, kept):
    text = receipt_text(evolve(FULL, stalest_s=stalest_s), clock)
    assert ("more than the 30m of the window" not in text) is kept


def test_a_run_in_which_everything_was_answered_speaks_of_no_refusal():
    text = receipt_text(evolve(FULL, refused={}), clock)
    assert "refused" not in text
    assert "nothing said the work was at risk" not in text


def test_requests_that_nobody_heard_are_in_the_receipt():
    assert "3 unheard" in receipt_text(evolve(EMPTY, unheard=3, refused={"unheard": 3}), clock)


# ---- prices


def test_the_price_table_has_the_columns_of_the_documentation():
    shown = price_rows(price_table(4 * 3600, 1800, "30m", 1.0, None))
    assert shown == [
        "  none      nothing            0 writes              a silent death costs everything",
        "  middle    one at the middle  1 write, about 1.0s   a silent death costs at most 2h",
        "  periodic  every 30m          8 writes, about 8.0s  a silent death costs at most 30m",
    ]


@pytest.mark.parametrize(
    ("name", "write_s", "mtbf_s"),
    [
        pytest.param("prices-without-a-cost", None, None, id="no cost"),
        pytest.param("prices-with-mtbf", 60.0, 8 * 3600.0, id="with deaths"),
    ],
)
def test_other_price_tables_are_as_they_were(check_golden, name, write_s, mtbf_s):
    check_golden(
        f"{name}.txt", "\n".join(price_rows(price_table(4 * 3600, 1800, "30m", write_s, mtbf_s))) + "\n"
    )


def test_columns_are_aligned_and_nothing_trails():
    assert columns([("a", "bb", ""), ("ccc", "d", "")]) == ["a    bb", "ccc  d"]
    assert columns([]) == []


def test_a_size_that_is_not_known_says_so():
    assert size_text(None) == "size not known"
    assert size_text(14 * 10**9) == "14.0 GB"
