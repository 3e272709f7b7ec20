"""The files that others write: every field that is right is read, everything else is damage with a name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.numbers import Numbers
from ckpt_governor.records import (
    FILE_BYTES_MAX,
    GlueRecord,
    JobRecord,
    RecordError,
    dump,
    parse_glue,
    parse_job,
    parse_numbers,
    parse_object,
    parse_seen,
    short,
    shown,
)

PARSERS = {
    "numbers.json": parse_numbers,
    "glue/risk.preempt": parse_glue,
    "job.json": parse_job,
    "glue/seen": parse_seen,
}
parsers = pytest.mark.parametrize("file", PARSERS)


def parse(file: str, text: str | bytes) -> Any:
    """What the file says."""
    return PARSERS[file](text, file)


def wrong(file: str, text: str | bytes) -> RecordError:
    """How the file is refused."""
    with pytest.raises(RecordError) as refused:
        parse(file, text)
    return refused.value


@parsers
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="half an object"),
        pytest.param("no", id="a word"),
        pytest.param("[]", id="a list"),
        pytest.param("3", id="a number"),
        pytest.param("null", id="null"),
        pytest.param('"risk"', id="a text"),
        pytest.param("{} {}", id="two objects"),
        pytest.param(b"\x00\xff\xfe\x80", id="bytes"),
        pytest.param(b'{"id": "\xff"}', id="no utf-8"),
        pytest.param("\x00", id="a null character"),
        pytest.param('{"v": 1, "x": NaN}', id="nan anywhere"),
        pytest.param('{"v": 1, "x": -Infinity}', id="infinity anywhere"),
        pytest.param("[" * 100_000, id="nested lists"),
        pytest.param('{"a":' * 20_000, id="nested objects"),
        pytest.param('{"id": ' + "9" * 5000 + "}", id="more digits than are read"),
    ],
)
def test_what_is_no_json_object_is_damage(file, text):
    error = wrong(file, text)
    assert error.file == file
    assert str(error).startswith(f"{file}: ")
    assert str(error).isprintable()
    assert len(str(error)) < 250


@parsers
@pytest.mark.parametrize("version", [2, 0, "1", None, True, 1.5], ids=repr)
def test_another_version_is_refused_by_name(file, version):
    error = wrong(file, json.dumps({"v": version}))
    assert error.field == "v"
    assert "1 is" in error.wrong


@parsers
def test_unknown_keys_pass(file):
    parse(file, '{"v": 1, "colour": "red", "nested": {"x": [1, null]}}')
    assert parse_object('{"colour": "red"}', file) == {"colour": "red"}


def refusal(file: str, text: str | bytes) -> RecordError | None:
    """How the file is refused, or None when it is read."""
    try:
        parse(file, text)
    except RecordError as error:
        return error
    return None


@parsers
@given(text=st.text() | st.binary())
def test_any_text_at_all_is_read_or_refused_by_name(file, text):
    error = refusal(file, text)
    assert error is None or error.file == file


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(
        [10**400, 2**63, 1e308, -0.0, "1e999", "auto", "4h", "2026-01-01", "9999-12-31T23:59:59-23:59"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
FIELDS = st.sampled_from(
    [
        "no_us",
        "with_us",
        "duration",
        "write_time",
        "bytes",
        "mtbf",
        "chosen",
        "id",
        "deadline",
        "in",
        "text",
        "source",
        "cancel",
        "pid",
        "started_at",
        "write_s",
        "ranks",
        "memory",
        "ends_at",
        "restarts",
        "failed",
    ]
)


@parsers
@given(record=st.dictionaries(FIELDS, VALUES, max_size=4))
def test_any_value_of_any_field_is_read_or_refused_by_name(file, record):
    error = refusal(file, json.dumps({"v": 1, **record}))
    assert error is None or (error.file == file and error.field.partition(".")[0] in record)


# ---- numbers.json


def test_all_numbers_are_read():
    text = """{"v": 1, "no_us": "30m", "with_us": "2h", "duration": "4h", "chosen": "middle",
               "write_time": 0.5, "bytes": "14GB", "mtbf": "8h"}"""
    assert parse_numbers(text) == Numbers(
        no_us_s=1800.0,
        with_us_s=7200.0,
        duration_s=14400.0,
        chosen="middle",
        write_s=0.5,
        bytes=14 * 10**9,
        mtbf_s=28800.0,
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        pytest.param("{}", Numbers(), id="nothing set"),
        pytest.param('{"no_us": null, "with_us": null}', Numbers(), id="null is unset"),
        pytest.param('{"no_us": "none", "with_us": "none"}', Numbers(), id="none"),
        pytest.param('{"with_us": "auto"}', Numbers(auto=True), id="auto"),
        pytest.param('{"with_us": 90}', Numbers(with_us_s=90.0), id="seconds"),
        pytest.param('{"write_time": "40s"}', Numbers(write_s=40.0), id="a write time as text"),
        pytest.param(f'{{"chosen": "{"x" * 100}"}}', Numbers(chosen="x" * 64), id="a long word"),
    ],
)
def test_numbers_that_are_not_set_are_none(text, numbers):
    assert parse_numbers(text) == numbers


@pytest.mark.parametrize(
    ("field", "value", "right"),
    [
        pytest.param("no_us", "auto", "or none", id="no_us auto"),
        pytest.param("no_us", 0, "from 1s to 10 years", id="no_us zero"),
        pytest.param("no_us", -5, "from 1s to 10 years", id="no_us negative"),
        pytest.param("no_us", True, "a duration such as", id="no_us true"),
        pytest.param("with_us", "sometimes", "or none or auto", id="with_us a word"),
        pytest.param("with_us", {"s": 1}, "a duration such as", id="with_us an object"),
        pytest.param("with_us", ["2h"], "a duration such as", id="with_us a list"),
        pytest.param("duration", "11y", "from 1s to 10 years", id="duration in years"),
        pytest.param("duration", "none", "a duration such as", id="duration none"),
        pytest.param("write_time", 0, "from 1s to 10 years", id="write time zero"),
        pytest.param("write_time", False, "a duration such as", id="write time false"),
        pytest.param("bytes", -1, "such as 14GB", id="bytes negative"),
        pytest.param("bytes", 10**400, "such as 14GB", id="bytes beyond any disk"),
        pytest.param("bytes", 1.5, "such as 14GB", id="bytes with a fraction"),
        pytest.param("mtbf", "0h", "from 1s to 10 years", id="mtbf zero"),
        pytest.param("chosen", 3, "not a word", id="chosen a number"),
    ],
)
def test_a_wrong_number_is_refused_with_its_field_and_what_would_be_right(field, value, right):
    error = wrong("numbers.json", json.dumps({"v": 1, field: value}))
    assert error.field == field
    assert right in str(error)
    assert str(error).startswith(f"numbers.json: {field}: ")


def test_a_number_too_large_for_a_float_is_out_of_range():
    assert wrong("numbers.json", '{"with_us": 1e999}').field == "with_us"


# ---- glue


@pytest.mark.parametrize(
    "text", ["", b"", " \n", b"\n\n"], ids=["empty", "empty bytes", "blank", "blank bytes"]
)
def test_an_empty_glue_file_announces_with_its_name_alone(text):
    assert parse_glue(text, "risk.preempt") == GlueRecord()


def test_everything_that_glue_may_say_is_read():
    text = """{"v": 1, "id": "a1", "deadline": 1764424983, "in": 30, "text": "bye", "source": "hook", "cancel": true}"""
    assert parse_glue(text, "risk.preempt") == GlueRecord(
        id="a1", deadline_at=1764424983.0, in_s=30.0, text="bye", source="hook", cancel=True
    )


@pytest.mark.parametrize(
    ("deadline", "at"),
    [
        pytest.param(1764424983, 1764424983.0, id="whole seconds"),
        pytest.param(1764424983.25, 1764424983.25, id="parts of a second"),
        pytest.param(0, 0.0, id="long ago"),
        pytest.param(-5, -5.0, id="before 1970"),
        pytest.param("2026-01-01T00:00:00Z", 1767225600.0, id="Z"),
        pytest.param("2026-01-01T00:00:00z", 1767225600.0, id="z"),
        pytest.param("2026-01-01T01:00:00+01:00", 1767225600.0, id="a zone"),
        pytest.param("2026-01-01T00:00:00", 1767225600.0, id="no zone is UTC"),
        pytest.param(" 2026-01-01T00:00:00Z ", 1767225600.0, id="blanks around"),
        pytest.param(None, None, id="null"),
    ],
)
def test_a_deadline_is_unix_seconds_or_a_date(deadline, at):
    assert parse_glue(json.dumps({"deadline": deadline}), "risk.preempt").deadline_at == at


@pytest.mark.parametrize(
    ("seconds", "in_s"),
    [
        pytest.param(30, 30.0, id="whole"),
        pytest.param(0.25, 0.25, id="a fraction"),
        pytest.param(0, 0.0, id="now"),
        pytest.param(-5, -5.0, id="past"),
        pytest.param("30s", 30.0, id="as a duration"),
        pytest.param("1h30m", 5400.0, id="as a long duration"),
        pytest.param(None, None, id="null"),
    ],
)
def test_in_is_seconds_from_now(seconds, in_s):
    assert parse_glue(json.dumps({"in": seconds}), "risk.preempt").in_s == in_s


@pytest.mark.parametrize(
    ("record", "field"),
    [
        pytest.param('{"deadline": "soon"}', "deadline", id="deadline a word"),
        pytest.param('{"deadline": true}', "deadline", id="deadline true"),
        pytest.param('{"deadline": []}', "deadline", id="deadline a list"),
        pytest.param('{"deadline": 1e999}', "deadline", id="deadline infinite"),
        pytest.param('{"deadline": 1e15}', "deadline", id="deadline after the year 10000"),
        pytest.param(f'{{"deadline": {10**400}}}', "deadline", id="deadline beyond a float"),
        pytest.param('{"deadline": "0001-01-01T00:00:00+99:99"}', "deadline", id="deadline in no zone"),
        pytest.param('{"in": 1e999}', "in", id="in infinite"),
        pytest.param('{"in": 1e12}', "in", id="in 30,000 years"),
        pytest.param('{"in": -1e12}', "in", id="in 30,000 years ago"),
        pytest.param('{"in": "soon"}', "in", id="in a word"),
        pytest.param('{"in": true}', "in", id="in true"),
        pytest.param('{"id": true}', "id", id="id true"),
        pytest.param('{"id": 1.5}', "id", id="id a fraction"),
        pytest.param('{"id": {}}', "id", id="id an object"),
        pytest.param('{"text": 3}', "text", id="text a number"),
        pytest.param('{"source": []}', "source", id="source a list"),
        pytest.param('{"cancel": "false"}', "cancel", id="cancel a text"),
        pytest.param('{"cancel": 0}', "cancel", id="cancel a number"),
        pytest.param('{"cancel": null}', "cancel", id="cancel null"),
    ],
)
def test_wrong_glue_is_refused_with_its_field(record, field):
    assert wrong("glue/risk.preempt", record).field == field


def test_a_number_is_an_id_as_well():
    assert parse_glue('{"id": 4711}', "risk.preempt").id == "4711"


def test_foreign_texts_are_bounded():
    record = parse_glue(
        json.dumps({"id": "i" * 9999, "text": "t" * 9999, "source": "s" * 9999}), "risk.preempt"
    )
    assert max(map(len, (record.id, record.text, record.source))) <= 400


def test_glue_of_sixty_four_kibibytes_is_read():
    text = json.dumps({"text": "x" * (FILE_BYTES_MAX - 12)})
    assert len(text) == FILE_BYTES_MAX
    assert parse_glue(text, "risk.preempt").text == "x" * 400


# ---- job.json, seen


def test_everything_that_the_job_may_say_is_read():
    text = """{"v": 1, "pid": 4711, "started_at": 1764421200, "write_s": 40, "bytes": 14000000000, "ranks": 8,
               "memory": {"current": 5, "max": 9}, "ends_at": "2026-01-01T00:00:00Z", "restarts": 2,
               "failed": {"bytes": 7, "errno": 122}}"""
    assert parse_job(text) == JobRecord(
        pid=4711,
        started_at=1764421200.0,
        write_s=40.0,
        bytes=14 * 10**9,
        ranks=8,
        memory_current=5,
        memory_max=9,
        ends_at=1767225600.0,
        restarts=2,
        failed_bytes=7,
        failed_errno=122,
    )


def test_nothing_of_it_is_required():
    assert parse_job("{}") == JobRecord()


@pytest.mark.parametrize(
    ("record", "field"),
    [
        pytest.param('{"pid": -1}', "pid", id="pid negative"),
        pytest.param('{"pid": 1.5}', "pid", id="pid a fraction"),
        pytest.param('{"pid": "4711"}', "pid", id="pid a text"),
        pytest.param('{"bytes": 1e999}', "bytes", id="bytes infinite"),
        pytest.param('{"bytes": 1e19}', "bytes", id="bytes beyond any disk"),
        pytest.param('{"ranks": true}', "ranks", id="ranks true"),
        pytest.param('{"write_s": 0}', "write_s", id="write time zero"),
        pytest.param('{"write_s": -1}', "write_s", id="write time negative"),
        pytest.param('{"write_s": 1e12}', "write_s", id="write time of an age"),
        pytest.param('{"write_s": "40s"}', "write_s", id="write time a text"),
        pytest.param('{"memory": 5}', "memory", id="memory a number"),
        pytest.param('{"memory": {"max": -1}}', "memory.max", id="memory negative"),
        pytest.param('{"failed": []}', "failed", id="failed a list"),
        pytest.param('{"failed": {"errno": "ENOSPC"}}', "failed.errno", id="errno a name"),
        pytest.param('{"started_at": "yesterday"}', "started_at", id="start a word"),
        pytest.param('{"ends_at": 1e300}', "ends_at", id="an end beyond the calendar"),
    ],
)
def test_a_wrong_fact_of_the_job_is_refused_with_its_field(record, field):
    assert wrong("job.json", record).field == field


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        pytest.param('{"v": 1, "id": 7}', 7, id="an id"),
        pytest.param('{"v": 1, "id": 1764424863123}', 1764424863123, id="an id of today"),
        pytest.param("{}", None, id="none"),
    ],
)
def test_the_job_says_which_request_it_has_read(text, heard):
    assert parse_seen(text) == heard


def test_a_wrong_id_that_was_heard_is_refused():
    assert wrong("glue/seen", '{"id": "7"}').field == "id"


# ---- what errors and files are made of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("a\nb", r"'a\nb'", id="a text with a line feed"),
        pytest.param(None, "None", id="nothing"),
        pytest.param({"a": 1}, "a dict", id="an object"),
        pytest.param("é", r"'\xe9'", id="a letter that is not ascii"),
    ],
)
def test_a_foreign_value_is_shown_escaped(value, text):
    assert shown(value) == text


def test_foreign_values_and_errors_are_shown_short():
    assert len(shown("x" * 1000)) <= 64
    assert len(short(ValueError("x" * 1000))) <= 120


def test_a_file_is_one_line_of_compact_json():
    assert dump({"v": 1, "a": [1, None, "é\n"]}) == '{"v":1,"a":[1,null,"\\u00e9\\n"]}'


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_never_reaches_a_file(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump({"v": value})
