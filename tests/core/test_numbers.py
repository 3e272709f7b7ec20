"""The two numbers as they are typed, and flags on top of the file."""

from __future__ import annotations

import pytest

from ckpt_governor.numbers import Numbers, override, parse_no_us, parse_with_us, shown_window


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [
        pytest.param("none", None, id="none"),
        pytest.param(None, None, id="unset"),
        pytest.param("30m", 1800.0, id="a period"),
        pytest.param(90, 90.0, id="seconds"),
    ],
)
def test_no_us_is_none_or_a_period(typed, seconds):
    assert parse_no_us(typed) == seconds


@pytest.mark.parametrize(
    ("typed", "window"),
    [
        pytest.param("none", (None, False), id="none"),
        pytest.param(None, (None, False), id="unset"),
        pytest.param("2h", (7200.0, False), id="a period"),
        pytest.param("auto", (None, True), id="auto"),
    ],
)
def test_with_us_is_none_a_period_or_auto(typed, window):
    assert parse_with_us(typed) == window


@pytest.mark.parametrize("typed", ["auto", "often", 0, -1, float("nan"), float("inf"), False])
def test_another_no_us_is_refused_with_what_would_be_right(typed):
    with pytest.raises(ValueError, match=r"a duration such as .*, or none$"):
        parse_no_us(typed)


@pytest.mark.parametrize("typed", ["often", 0, -1, float("nan"), float("inf"), True])
def test_another_with_us_is_refused_with_what_would_be_right(typed):
    with pytest.raises(ValueError, match=r"a duration such as .*, or none or auto$"):
        parse_with_us(typed)


FILE = Numbers(no_us_s=1800.0, with_us_s=7200.0, duration_s=14400.0, write_s=40.0, chosen="middle")


@pytest.mark.parametrize(
    ("flags", "numbers"),
    [
        pytest.param({}, FILE, id="no flag"),
        pytest.param(
            {"no_us": "none"},
            Numbers(with_us_s=7200.0, duration_s=14400.0, write_s=40.0, chosen="middle"),
            id="no_us none",
        ),
        pytest.param(
            {"with_us": "auto"},
            Numbers(no_us_s=1800.0, auto=True, duration_s=14400.0, write_s=40.0, chosen="middle"),
            id="with_us auto",
        ),
        pytest.param(
            {"no_us": "5s", "with_us": "20s", "duration": "1h"},
            Numbers(no_us_s=5.0, with_us_s=20.0, duration_s=3600.0, write_s=40.0, chosen="middle"),
            id="all three",
        ),
    ],
)
def test_a_flag_overrides_its_number_and_no_other(flags, numbers):
    assert override(FILE, **flags) == numbers


def test_a_flag_that_is_no_duration_is_refused():
    with pytest.raises(ValueError, match="a duration such as"):
        override(FILE, duration="auto")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        pytest.param(Numbers(), "none", id="none"),
        pytest.param(Numbers(auto=True), "auto", id="auto"),
        pytest.param(Numbers(with_us_s=5400.0), "1h30m", id="a period"),
    ],
)
def test_the_window_is_shown_as_it_is_typed(numbers, text):
    assert shown_window(numbers) == text
