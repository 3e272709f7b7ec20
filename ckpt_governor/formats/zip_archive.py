"""Any other zip under a name that says checkpoint: .npz, .keras, Stable-Baselines3, exported programs."""

from __future__ import annotations

from collections.abc import Callable

from ckpt_governor.formats.interface import Files, Format, Judgement, Plan
from ckpt_governor.formats.naming import CONCATENATED_SUFFIXES, names_a_copy, suffix_of
from ckpt_governor.formats.zip_records import END, LOCAL, is_tail, judge_archive, plan_archive

_SUFFIXES = ("npz", "keras", "zip")


class ZipArchive(Format):
    """Its writer adds the table when it closes the archive, so that the end record says that it has finished."""

    word = "zip"

    def claims_file(self, name: str, head: bytes) -> bool:
        if len(head) < len(LOCAL):  # cut in its first word
            return (
                head != b"" and LOCAL.startswith(head) and suffix_of(name) in _SUFFIXES and names_a_copy(name)
            )
        one_archive = head.startswith((LOCAL, END)) and suffix_of(name) not in CONCATENATED_SUFFIXES
        return one_archive and names_a_copy(name)

    def claims_tail(self, name: str, tail: Callable[[], bytes]) -> bool:
        return suffix_of(name) in _SUFFIXES and names_a_copy(name) and is_tail(tail())

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            return judge_archive(file, lambda _: "")

    def plan(self, files: Files) -> Plan:
        with files.open("") as file:
            return plan_archive(file)
