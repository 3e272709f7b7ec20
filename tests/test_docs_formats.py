"""The page on formats speaks of every format that there is, of no other, and in the order in which they are asked."""

from __future__ import annotations

import re
from pathlib import Path

from ckpt_governor.formats.registry import FORMATS

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "formats.md").read_text(encoding="utf-8")
WORDS = [format.word for format in FORMATS]


def section(title: str) -> str:
    """What stands below a heading."""
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match, f"formats.md has no section {title}"
    return match.group(1)


def test_the_table_has_every_format_in_the_order_in_which_they_are_asked():
    rows = re.findall(r"^\| `([^`]+)` \|", section("The table"), re.MULTILINE)
    assert rows == WORDS


def test_every_row_says_all_there_is_to_say():
    rows = [line for line in section("The table").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    assert [row[0] for row in cells if len(row) != len(cells[0]) or not all(row)] == []


def test_the_formats_that_miss_what_their_elders_had_are_named():
    match = re.search(r"\*\*Elders\.\*\* Of (.*?) a lost file", PAGE, re.DOTALL)
    assert match
    missing = {format.word for format in FORMATS if format.misses_by_elders}
    assert set(re.findall(r"`([^`]+)`", match.group(1))) == missing
    marks = {mark for format in FORMATS if not format.misses_by_elders for mark in format.marks}
    assert [mark for mark in marks if f"`{mark}`" not in PAGE] == []


def test_the_changelog_counts_them():
    changelog = (DOCS / "changelog.md").read_text(encoding="utf-8")
    assert f"Copies in {len(FORMATS)} formats" in changelog


def test_every_local_link_leads_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", PAGE)
    assert links
    assert [link for link in links if not (DOCS / link).exists()] == []
