"""Any other zip under a name that says checkpoint: .npz, .keras, Stable-Baselines3, exported programs."""

from __future__ import annotations

from collections.abc import Callable

from ckpt_governor.formats.interface import Files, Format, Judgement
from ckpt_governor.formats.naming import CONCATENATED_SUFFIXES, names_a_copy, suffix_of
from ckpt_governor.formats.zip_records import LOCAL, deep_check_archive, judge_archive


class ZipArchive(Format):
    """Its writer adds the table when it closes the archive, so that the end record says that it has finished."""

    word = "zip"

    def claims_file(self, name: str, head: bytes) -> bool:
        one_archive = head.startswith(LOCAL) and suffix_of(name) not in CONCATENATED_SUFFIXES
        return one_archive and names_a_copy(name)

    def judge(self, files: Files) -> Judgement:
        with files.open("") as file:
            return judge_archive(file, lambda _: "")

    def deep_check(self, files: Files, progress: Callable[[int], None]) -> Judgement | None:
        with files.open("") as file:
            return deep_check_archive(file, progress)
