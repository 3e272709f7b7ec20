"""Durations and sizes as people type and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.durations import (
    DURATION_S_MAX,
    format_bytes,
    format_duration,
    format_period,
    format_precise,
    parse_bytes,
    parse_duration,
)

YEAR_S = 365 * 86400


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [
        pytest.param("90s", 90, id="seconds"),
        pytest.param("30m", 1800, id="minutes"),
        pytest.param("1h30m", 5400, id="hours and minutes"),
        pytest.param("4h", 14400, id="hours"),
        pytest.param("2d4h", 187200, id="days and hours"),
        pytest.param("1w", 604800, id="a week"),
        pytest.param("1.5h", 5400, id="a fraction"),
        pytest.param(" 4H ", 14400, id="capitals and spaces"),
        pytest.param("90", 90, id="a number as text"),
        pytest.param(90, 90, id="a whole number"),
        pytest.param(2.5, 2.5, id="a number with a fraction"),
        pytest.param(1, 1, id="the shortest"),
        pytest.param(10 * YEAR_S, 10 * YEAR_S, id="the longest"),
        pytest.param("3650d", 10 * YEAR_S, id="the longest as text"),
    ],
)
def test_a_duration_is_read_as_it_is_typed(typed, seconds):
    assert parse_duration(typed) == seconds


@pytest.mark.parametrize(
    "typed",
    [
        pytest.param(0, id="zero"),
        pytest.param("0s", id="zero seconds"),
        pytest.param(0.5, id="below a second"),
        pytest.param(-30, id="negative"),
        pytest.param("-30m", id="negative text"),
        pytest.param(float("nan"), id="not a number"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param("nan", id="the word nan"),
        pytest.param("inf", id="the word inf"),
        pytest.param("1e3", id="an exponent"),
        pytest.param("soon", id="a bare word"),
        pytest.param("", id="empty"),
        pytest.param("m", id="a unit alone"),
        pytest.param("30m1h", id="units the wrong way round"),
        pytest.param("1h1h", id="a unit twice"),
        pytest.param("1h 30m", id="a space within"),
        pytest.param("30 m", id="a space before the unit"),
        pytest.param("\uff14h", id="a digit that is not ascii"),
        pytest.param(10 * YEAR_S + 1, id="over ten years"),
        pytest.param("9" * 65, id="a very long text"),
        pytest.param("9" * 60 + "s", id="more seconds than a float counts"),
        pytest.param(10**400, id="more than a float holds"),
        pytest.param(True, id="true"),
        pytest.param(None, id="nothing"),
        pytest.param([30], id="a list"),
    ],
)
def test_anything_else_is_refused_with_what_would_be_right(typed):
    with pytest.raises(ValueError, match=r"a duration such as 90s, 30m, 1h30m or 4h.*from 1s to 10 years"):
        parse_duration(typed)


def test_a_refusal_quotes_a_foreign_value_short_and_on_one_line():
    with pytest.raises(ValueError, match="is not a duration") as refused:
        parse_duration("\x1b[31m\n" + "x" * 1000)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0, "0s", id="nothing"),
        pytest.param(-3, "0s", id="less than nothing"),
        pytest.param(41.4, "41s", id="rounded down"),
        pytest.param(59.6, "1m", id="rounded up to a minute"),
        pytest.param(81, "1m 21s", id="minutes and seconds"),
        pytest.param(3599.6, "1h", id="rounded up to an hour"),
        pytest.param(3 * 3600 + 58 * 60 + 10, "3h 58m", id="hours and minutes"),
        pytest.param(86399, "1d", id="rounded up to a day"),
        pytest.param(2 * 86400 + 4 * 3600, "2d 4h", id="days and hours"),
        pytest.param(float("inf"), "for ever", id="without an end"),
        pytest.param(float("nan"), "for ever", id="not a number"),
    ],
)
def test_a_length_of_time_has_at_most_two_units(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(1800, "30m", id="minutes"),
        pytest.param(5400, "1h30m", id="hours and minutes"),
        pytest.param(90, "1m30s", id="minutes and seconds"),
        pytest.param(86400, "1d", id="a day"),
        pytest.param(2.5, "2.5s", id="a fraction"),
        pytest.param(1234567.5, "1234567.5s", id="a long one with a fraction"),
        pytest.param(0, "0s", id="nothing"),
    ],
)
def test_a_period_is_shown_as_it_is_typed(seconds, text):
    assert format_period(seconds) == text


@given(st.integers(min_value=1, max_value=int(DURATION_S_MAX)))
def test_a_whole_period_that_is_shown_can_be_typed(seconds):
    assert parse_duration(format_period(seconds)) == seconds


@given(st.integers(min_value=1001, max_value=10**9))
def test_a_period_in_milliseconds_that_is_shown_can_be_typed(milliseconds):
    assert parse_duration(format_period(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(1, "1.0s", id="one second"),
        pytest.param(9, "9.0s", id="nine seconds"),
        pytest.param(9.96, "10s", id="just under ten"),
        pytest.param(41, "41s", id="above ten"),
        pytest.param(81, "1m 21s", id="above a minute"),
    ],
)
def test_a_short_cost_is_shown_with_one_decimal(seconds, text):
    assert format_precise(seconds) == text


@pytest.mark.parametrize(
    ("typed", "count"),
    [
        pytest.param("14GB", 14 * 10**9, id="decimal"),
        pytest.param("512MiB", 512 * 2**20, id="binary"),
        pytest.param("1.5T", 1_500_000_000_000, id="a fraction without b"),
        pytest.param("1 kb", 1000, id="a space"),
        pytest.param("812", 812, id="bytes as text"),
        pytest.param("812b", 812, id="bytes with their unit"),
        pytest.param(812, 812, id="a number"),
        pytest.param(2**63 - 1, 2**63 - 1, id="the largest"),
    ],
)
def test_a_size_is_read_as_it_is_typed(typed, count):
    assert parse_bytes(typed) == count


@pytest.mark.parametrize(
    "typed",
    [
        pytest.param(0, id="zero"),
        pytest.param("0GB", id="zero text"),
        pytest.param(-1, id="negative"),
        pytest.param("big", id="a word"),
        pytest.param("1e9", id="an exponent"),
        pytest.param(True, id="true"),
        pytest.param(1.5, id="part of a byte"),
        pytest.param(None, id="nothing"),
        pytest.param("9" * 40 + "P", id="more than any disk as text"),
        pytest.param(2**63, id="more than any disk"),
        pytest.param(10**400, id="more than a float holds"),
        pytest.param("9" * 65, id="a very long text"),
    ],
)
def test_any_other_size_is_refused_with_what_would_be_right(typed):
    with pytest.raises(ValueError, match="is not a size such as 14GB, 512MiB or a number of bytes"):
        parse_bytes(typed)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        pytest.param(812, "812 B", id="bytes"),
        pytest.param(4_200_000, "4.2 MB", id="megabytes"),
        pytest.param(14 * 10**9, "14.0 GB", id="gigabytes"),
        pytest.param(999_960, "1.0 MB", id="rounded up to the next unit"),
        pytest.param(3 * 10**15, "3.0 PB", id="petabytes"),
        pytest.param(5 * 10**18, "5000.0 PB", id="beyond the last unit"),
    ],
)
def test_a_size_is_shown_in_decimal_units(count, text):
    assert format_bytes(count) == text
