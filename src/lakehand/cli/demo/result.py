# SPDX-License-Identifier: Apache-2.0
"""The demo's result: before and after side by side, and what was promised against what is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from lakehand.cli.demo.picture import Picture
from lakehand.cli.times import size, span

FIGURES: Mapping[str, Callable[[Picture], str]] = {
    "files a query opens": lambda p: str(p.files.base_opened + p.files.logs_opened),
    "log files among them": lambda p: str(p.files.logs_opened),
    "files on storage": lambda p: str(p.files.stored),
    "bytes on storage": lambda p: size(p.files.bytes),
    "pending plans": lambda p: str(p.files.pending),
    "query time, best of 5": lambda p: span(p.seconds),
    "rows": lambda p: f"{p.rows:,}".replace(",", " "),
    "checksum of all rows": lambda p: p.checksum[-10:],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    text: str
    is_kept: bool


def comparison(before: Mapping[str, Picture], after: Mapping[str, Picture], titles: Mapping[str, str]) -> Table:
    table = Table(title="Before and after", title_justify="left", header_style="bold")
    table.add_column("", no_wrap=True)
    for name in before:
        table.add_column(f"{titles[name]}\nbefore", justify="right")
        table.add_column("\n\nafter", justify="right", style="green")
    for figure, text_of in FIGURES.items():
        table.add_row(figure, *(text_of(taken) for name in before for taken in (before[name], after[name])))
    equal = [word for name in before for word in ("", "equal" if same_rows(before[name], after[name]) else "DIFFERENT")]
    table.add_row("rows and values", *equal)
    return table


def same_rows(before: Picture, after: Picture) -> bool:
    return (before.rows, before.checksum) == (after.rows, after.checksum)


def promises(
    before: Mapping[str, Picture], after: Mapping[str, Picture], statuses: Mapping[str, Sequence[str]], told: bool
) -> list[Promise]:
    kept = [Promise(text="Lakehand was told of the commits by callback", is_kept=told)]
    for name in before:
        first, last = before[name].files, after[name].files
        kept += [
            Promise(text=f"{name}: all rows are equal", is_kept=same_rows(before[name], after[name])),
            Promise(
                text=f"{name}: every operation succeeded ({len(statuses[name])})",
                is_kept=bool(statuses[name]) and set(statuses[name]) == {"succeeded"},
            ),
            Promise(text=f"{name}: no plan is left pending", is_kept=last.pending == 0),
            Promise(
                text=f"{name}: a query opens fewer files",
                is_kept=last.base_opened + last.logs_opened < first.base_opened + first.logs_opened,
            ),
        ]
    return kept
