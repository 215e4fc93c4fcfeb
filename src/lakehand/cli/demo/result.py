# SPDX-License-Identifier: Apache-2.0
"""The demo's result: before and after side by side, and what was promised against what is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from lakehand.cli.demo.picture import Picture
from lakehand.cli.screen import data, joined
from lakehand.cli.times import span
from lakehand.spi import health


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one table."""

    name: str
    format: str
    before: Picture
    after: Picture
    operations: Sequence[tuple[str, str]]  # action and status, in the order of their ends
    was_told: bool  # a writer spoke to Lakehand
    should_be_told: bool

    @property
    def is_equal(self) -> bool:
        return (self.before.rows, self.before.checksum) == (self.after.rows, self.after.checksum)

    @property
    def has_succeeded(self) -> bool:
        return bool(self.operations) and all(status == "succeeded" for _, status in self.operations)

    @property
    def opens_fewer(self) -> bool:
        return self.after.opened < self.before.opened

    @property
    def is_unplanned(self) -> bool:
        return self.after.count(health.PENDING_PLANS) == 0

    @property
    def is_mended(self) -> bool:
        return self.is_equal and self.has_succeeded and self.opens_fewer and self.is_unplanned


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    text: str
    is_kept: bool


WIDE = 138  # columns that the comparison needs on one line
FIGURES: Mapping[str, Callable[[Picture], str]] = {
    "files": lambda p: str(p.files),
    "small": lambda p: str(p.count(health.SMALL_FILES)),
    "deletes, logs": lambda p: str(p.merged),
    "bytes": lambda p: health.amount(p.count(health.BYTES, "log_bytes")),
    "query": lambda p: span(p.seconds),
}
PROMISES: Mapping[str, Callable[[Outcome], bool]] = {
    "every reader sees the same rows with the same values": lambda o: o.is_equal,
    "every operation succeeded": lambda o: o.has_succeeded,
    "a query opens fewer files": lambda o: o.opens_fewer,
    "no plan is left pending": lambda o: o.is_unplanned,
}


def comparison(outcomes: Sequence[Outcome], width: int = WIDE) -> Table:
    """A row per table; on a narrow screen with before above after."""
    is_wide = width >= WIDE
    padding = (0, 1 if is_wide else 0)
    shape, arrow = (list, " → ") if is_wide else (folded, "\n→ ")
    table = Table(
        title="Before → after", title_justify="left", box=box.SIMPLE_HEAD, padding=padding, collapse_padding=True
    )
    for number, column in enumerate(shape(["table", "format", "done", *FIGURES, "rows, values", ""])):
        is_text, is_action = number < (3 if is_wide else 2), column == "done"
        table.add_column(column, justify="left" if is_text else "right", min_width=12 if is_action else None)
    for outcome in outcomes:
        table.add_row(*shape(cells(outcome, arrow)))
    return table


def folded(words: Sequence[str | Text]) -> list[str | Text]:
    """The first two in one column, and the last two."""
    return [Text("\n").join(map(joined, words[:2])), *words[2:-2], Text("\n").join(map(joined, words[-2:]))]


def cells(outcome: Outcome, arrow: str) -> list[str | Text]:
    done = dict.fromkeys(action for action, status in outcome.operations if status == "succeeded")
    figures = [Text(f"{f(outcome.before)}{arrow}").append(f(outcome.after), "green") for f in FIGURES.values()]
    rows = f"{outcome.after.rows:,}".replace(",", "\u00a0")
    return [
        outcome.name,
        outcome.format,
        ", ".join(done),
        *figures,
        joined(f"{rows} ", "equal" if outcome.is_equal else data("DIFFERENT", "red")),
        data("mended", "green") if outcome.is_mended else data("NOT MENDED", "red"),
    ]


def promises(outcomes: Sequence[Outcome]) -> list[Promise]:
    told = [o for o in outcomes if o.should_be_told]
    untold = [o for o in outcomes if not o.should_be_told]
    kept = [promise(f"Lakehand was told by callback of {names(told)}", told, lambda o: o.was_told)] if told else []
    if untold:
        kept += [promise(f"nobody told it of {names(untold)}: it looked", untold, lambda o: not o.was_told)]
    return kept + [promise(text, outcomes, is_kept) for text, is_kept in PROMISES.items()]


def promise(text: str, outcomes: Sequence[Outcome], is_kept: Callable[[Outcome], bool]) -> Promise:
    broken = [outcome for outcome in outcomes if not is_kept(outcome)]
    told = f"; not so: {names(broken)}" if broken else ""
    return Promise(text=f"{text} ({len(outcomes) - len(broken)} of {len(outcomes)} tables{told})", is_kept=not broken)


def names(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(outcome.name for outcome in outcomes)
