"""The 14 conditions: their names, kinds and priors are those of the documented table."""

from __future__ import annotations

import pytest

from ckpt_governor.conditions import TRAITS, Condition, Kind, condition_named

TABLE = {
    # name: kind, precision without a date, window without a date in seconds
    "risk.preempt": ("N", 0.5, 3600),
    "risk.terminate": ("N", 0.9, 600),
    "risk.walltime": ("N", 0.9, 600),
    "risk.maintenance": ("N", 0.9, 600),
    "risk.request": ("N", 1.0, 0),
    "risk.memory": ("E", 0.5, 300),
    "risk.evict": ("E", 0.5, 300),
    "risk.space": ("E", 0.3, 3600),
    "risk.storage": ("E", 0.5, 600),
    "risk.device": ("C", 0.7, 3600),
    "risk.thermal": ("E", 0.3, 1800),
    "risk.hardware": ("C", 0.3, 3600),
    "risk.peer": ("E", 0.8, 120),
    "risk.flap": ("E", 0.5, 21600),
}
KINDS = {Kind.NOTICE: "N", Kind.EDGE: "E", Kind.COUNTER: "C"}


def test_there_are_fourteen_in_the_documented_order():
    assert [condition.value for condition in Condition] == list(TABLE)
    assert set(TRAITS) == set(Condition)


@pytest.mark.parametrize("name", TABLE)
def test_each_has_its_kind_and_its_priors(name):
    traits = TRAITS[Condition(name)]
    assert (KINDS[traits.kind], traits.precision, traits.window_s) == TABLE[name]
    assert traits.meaning


def test_only_somebody_who_waits_is_served_at_once():
    assert {c.value for c in Condition if TRAITS[c].at_once} == {"risk.terminate", "risk.request"}


@pytest.mark.parametrize(
    ("name", "chance"),
    [("risk.preempt", 0.02), ("risk.maintenance", 0.02), ("risk.walltime", 0.001)],
)
def test_an_end_may_come_before_its_date(name, chance):
    assert TRAITS[Condition(name)].early_end_chance == chance


@pytest.mark.parametrize(
    ("word", "condition"),
    [
        pytest.param("risk.preempt", Condition.PREEMPT, id="a condition"),
        pytest.param("risk.weather", None, id="no condition"),
        pytest.param("PREEMPT", None, id="a name of the code"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_a_word_names_a_condition_or_none(word, condition):
    assert condition_named(word) is condition
