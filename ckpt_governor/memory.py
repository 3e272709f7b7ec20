"""The governor's own memory as text: ledger.json, and the facts of a decision in decisions.jsonl. Pure."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, get_args, get_origin

from attrs import evolve, has

from ckpt_governor.durations import DURATION_S_MAX
from ckpt_governor.facts import Observation
from ckpt_governor.ledger import Decision, Ledger
from ckpt_governor.numbers import Numbers
from ckpt_governor.records import UNIX_TIME_MAX, VERSION, RecordError, dump, parse_object, short, shown

if TYPE_CHECKING:
    import cattrs


def _strict(kind: type) -> Any:
    def structure(value: object, wanted: type) -> Any:
        if issubclass(wanted, Enum):
            return wanted(value)  # the enums of the records are words: the hook of str is asked for them too
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"{shown(value)} is not a {kind.__name__}")
        if isinstance(value, float) and not abs(value) <= UNIX_TIME_MAX:
            raise ValueError(f"{value} is no moment and no duration")
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
            raise ValueError(f"{shown(value)} is out of range")
        return value

    return structure


def _make_converter() -> cattrs.Converter:
    import cattrs  # imported late: the first beat does not need it
    from cattrs.gen import make_dict_structure_fn

    converter = cattrs.Converter(detailed_validation=False, omit_if_default=True)
    for kind in (bool, int, float, str):
        converter.register_structure_hook(kind, _strict(kind))

    def of_record(record: type) -> Any:
        structure: Any = make_dict_structure_fn(record, converter)
        return lambda value, _: structure(_only(dict, value), record)

    def of_items(items: Any) -> Any:
        item = get_args(items)[0]
        return lambda value, _: tuple(converter.structure(part, item) for part in _only(list, value))

    converter.register_structure_hook_factory(has, of_record)
    converter.register_structure_hook_factory(_is_tuple, of_items)
    return converter


def _is_tuple(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is tuple


def _only(kind: type, value: Any) -> Any:
    """The value, if it is of this kind of JSON: a list is no object with nothing in it."""
    if not isinstance(value, kind):
        raise ValueError(f"{shown(value)} is no {'object' if kind is dict else 'list'}")
    return value


_converter: list[cattrs.Converter] = []


def converter() -> cattrs.Converter:
    """The converter of all records, made on first use: its code generation is not needed before the first beat."""
    if not _converter:
        _converter.append(_make_converter())
    return _converter[0]


def encode_ledger(ledger: Ledger) -> str:
    """The text of ledger.json."""
    return dump({"v": VERSION, **converter().unstructure(ledger)})


def parse_ledger(text: str | bytes, file: str = "ledger.json") -> Ledger:
    """The ledger in this text. Raises RecordError when it is damaged: it is then started anew."""
    record = parse_object(text, file)
    try:
        ledger = converter().structure(record, Ledger)
        _check(ledger)
        return ledger
    except Exception as error:  # cattrs raises what its hooks raise; any of it means damage
        raise RecordError(file, "", f"not a ledger ({short(error)})") from None


CAUSE_SORTS = ("notice:", "end:", "edge:", "window:", "broken:")


def _check(ledger: Ledger) -> None:
    """Raises ValueError for what no governor of this version writes: an unknown sort of cause, a negative count."""
    for cause in ledger.causes:
        if not cause.key.startswith(CAUSE_SORTS) or cause.asked_count < 0:
            raise ValueError(f"causes: {shown(cause.key)} is not known")
    for name, samples in (
        ("write_samples_s", ledger.write_samples_s),
        ("gap_samples_s", ledger.gap_samples_s),
        ("size_samples_bytes", ledger.size_samples_bytes),
    ):
        upper = 2**62 if name.endswith("bytes") else DURATION_S_MAX
        if not all(0 <= sample <= upper for sample in samples):
            raise ValueError(f"{name}: a sample is out of range")
    if min(ledger.last_id, ledger.repairs_in_row, ledger.last_serial) < 0:
        raise ValueError("a count is negative")


def encode_decision(decision: Decision, unit: str, at: float, facts: dict[str, Any]) -> str:
    """One line of decisions.jsonl."""
    return dump(
        {
            "v": VERSION,
            "at": at,
            "unit": unit,
            "verdict": decision.verdict.value,
            "reason": decision.reason,
            "text": decision.text,
            "request": decision.request_id,
            "facts": facts,
        }
    )


def decision_facts(world: Observation, numbers: Numbers, ledger: Ledger) -> dict[str, Any]:
    """The inputs of a decision, whole enough that the same function decides the same from them."""
    lean = evolve(ledger, copies=(), wholes=(), run=evolve(ledger.run, writes=()))
    unstructure = converter().unstructure
    return {"world": unstructure(world), "numbers": unstructure(numbers), "ledger": unstructure(lean)}


def parse_facts(facts: object, file: str) -> tuple[Observation, Numbers, Ledger]:
    """The recorded inputs of a decision. Raises RecordError."""
    if not isinstance(facts, dict):
        raise RecordError(file, "facts", "an object with world, numbers and ledger is wanted")
    structure = converter().structure
    try:
        return (
            structure(facts.get("world"), Observation),
            structure(facts.get("numbers"), Numbers),
            structure(facts.get("ledger"), Ledger),
        )
    except Exception as error:  # cattrs raises what its hooks raise; any of it means damage
        raise RecordError(file, "facts", f"not the inputs of a decision ({short(error)})") from None
