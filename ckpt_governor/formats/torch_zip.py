"""``torch.save`` since 1.6: an archive of stored records, with its table at the end and written to the final name."""

from __future__ import annotations

from collections.abc import Callable

from ckpt_governor.formats.interface import Files, Format, Judgement, Plan
from ckpt_governor.formats.naming import CONCATENATED_SUFFIXES, names_a_copy, suffix_of
from ckpt_governor.formats.zip_records import LOCAL, Record, first_name, is_tail, judge_archive, plan_archive

_SUFFIXES = ("pt", "pth", "ckpt", "bin")
_LAST_NAMES = (b"/version", b"/.data/serialization_id")
"""Of all records these are written last."""


class TorchZip(Format):
    """Its first record is always ``*/data.pkl``; other archives under such names are left to the plain zip."""

    word = "torch-zip"

    def claims_file(self, name: str, head: bytes) -> bool:
        if suffix_of(name) in CONCATENATED_SUFFIXES:
            return False
        if len(head) >= len(LOCAL):
            return first_name(head).endswith(b"/data.pkl") or (
                head.startswith(LOCAL) and first_name(head) == b"" and suffix_of(name) in _SUFFIXES
            )
        return LOCAL.startswith(head) and suffix_of(name) in _SUFFIXES

    def claims_tail(self, name: str, tail: Callable[[], bytes]) -> bool:
        if suffix_of(name) in CONCATENATED_SUFFIXES or not names_a_copy(name):
            return False
        end = tail()
        return is_tail(end) and any(last in end for last in _LAST_NAMES)

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            return judge_archive(file, _missing)

    def plan(self, files: Files) -> Plan:
        with files.open("") as file:
            return plan_archive(file)


def _missing(records: list[Record]) -> str:
    """Names differ from version to version; these two have always been there."""
    names = [record.name for record in records]
    if not any(name.endswith(b"/data.pkl") for name in names):
        return "no data.pkl in it"
    if not any(name.endswith((b"/version", b"/.data/version")) for name in names):
        return "no version record in it"
    return ""
