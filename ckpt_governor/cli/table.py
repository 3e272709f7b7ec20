"""Rows for people: aligned text, or a rich table where rich is installed and somebody looks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from ckpt_governor.wording import columns, printable

STYLES = {"sound": "green", "writing": "cyan", "broken": "bold red", "unknown": "yellow", "1": "bold red"}
"""The colour of a cell by its word."""


def coloured() -> bool:
    """Whether colours are wanted: on a terminal, and never with NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows under a header; every cell is foreign text and made printable first."""
    shown = [[printable(cell) for cell in row] for row in rows]
    if not (sys.stdout.isatty() and _print_rich(header, shown)):
        for line in columns([header, *shown]):
            print(line)


def _print_rich(
    header: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[str, str] = STYLES
) -> bool:
    """The same with rich; False where it is not installed."""
    try:
        from rich.console import Console  # an extra, and slow to import
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in header:
        table.add_column(title, overflow="fold")
    for row in rows:
        # Text, not str: a file may be named like rich's own markup.
        table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    Console(file=sys.stdout).print(table)
    return True
