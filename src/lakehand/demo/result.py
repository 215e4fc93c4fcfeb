# SPDX-License-Identifier: Apache-2.0
"""The result of the demo: figures of each table before and after, and whether every promise was kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from lakehand.demo.tables import DemoTable
from lakehand.domain.texts import span
from lakehand.output import data, join
from lakehand.spi import Json, TableFormat, TableReference, amount, health

MERGED = (health.LOG_FILES, health.DELETE_FILES, health.DELETION_VECTORS)  # a reader merges them with the data


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSnapshot:
    """Figures of a table at one moment: from its metadata, read without Spark, and from a reader."""

    numbers: Mapping[str, Json]
    rows: int
    checksum: str
    seconds: float  # of one query over the whole table

    def count(self, *names: str) -> int:
        return sum(value for name in names if isinstance(value := self.numbers.get(name), int))

    @property
    def opened(self) -> int:
        """Files that a query of the whole table opens."""
        return self.count(health.FILES, *MERGED)


def take_snapshot(format: TableFormat, reference: TableReference, read: Mapping[str, Any]) -> DemoSnapshot:
    numbers = format.inspect(reference).numbers
    return DemoSnapshot(
        numbers=numbers, rows=int(read["rows"]), checksum=str(read["checksum"]), seconds=float(read["seconds"])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutcome:
    """One table before and after, and the operations in between."""

    name: str
    format: str
    before: DemoSnapshot
    after: DemoSnapshot
    operations: Sequence[tuple[str, str]]  # action and status, oldest first
    was_notified: bool
    should_be_notified: bool

    @property
    def is_equal(self) -> bool:
        return (self.before.rows, self.before.checksum) == (self.after.rows, self.after.checksum)

    @property
    def is_fixed(self) -> bool:
        return all(is_kept(self) for is_kept in PROMISES.values())


class Promise(NamedTuple):
    text: str
    is_kept: bool


WIDE = 138  # columns that the comparison needs on one line
FIGURES: Mapping[str, Callable[[DemoSnapshot], str]] = {
    "files": lambda p: str(p.count(health.FILES)),
    "small": lambda p: str(p.count(health.SMALL_FILES)),
    "deletes, logs": lambda p: str(p.count(*MERGED)),
    "bytes": lambda p: amount(p.count(health.BYTES, "log_bytes")),
    "query": lambda p: span(p.seconds),
}
PROMISES: Mapping[str, Callable[[TableOutcome], bool]] = {
    "every reader sees the same rows with the same values": lambda o: o.is_equal,
    "every operation succeeded": lambda o: {status for _, status in o.operations} == {"succeeded"},
    "a query opens fewer files": lambda o: o.after.opened < o.before.opened,
    "no plan is left pending": lambda o: o.after.count(health.PENDING_PLANS) == 0,
}


def comparison(outcomes: Sequence[TableOutcome], width: int = WIDE) -> Table:
    """A row per table; on a narrow terminal with before above after."""
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
    return [Text("\n").join(map(join, words[:2])), *words[2:-2], Text("\n").join(map(join, words[-2:]))]


def cells(outcome: TableOutcome, arrow: str) -> list[str | Text]:
    done = dict.fromkeys(action for action, status in outcome.operations if status == "succeeded")
    figures = [Text(f"{f(outcome.before)}{arrow}").append(f(outcome.after), "green") for f in FIGURES.values()]
    rows = f"{outcome.after.rows:,}".replace(",", "\u00a0")
    return [
        outcome.name,
        outcome.format,
        ", ".join(done),
        *figures,
        join(f"{rows} ", "equal" if outcome.is_equal else data("DIFFERENT", "red")),
        data("fixed", "green") if outcome.is_fixed else data("NOT FIXED", "red"),
    ]


def promises(outcomes: Sequence[TableOutcome]) -> list[Promise]:
    notified = [o for o in outcomes if o.should_be_notified]
    unnotified = [o for o in outcomes if not o.should_be_notified]
    made = [
        promise(f"Lakehand was notified of {names(notified)}", notified, lambda o: o.was_notified),
        promise(f"nobody notified it of {names(unnotified)}: it probed them", unnotified, lambda o: not o.was_notified),
    ]
    made = [one for one, tables in zip(made, (notified, unnotified), strict=True) if tables]
    return made + [promise(text, outcomes, is_kept) for text, is_kept in PROMISES.items()]


def promise(text: str, outcomes: Sequence[TableOutcome], is_kept: Callable[[TableOutcome], bool]) -> Promise:
    broken = [outcome for outcome in outcomes if not is_kept(outcome)]
    failed = f"; not so: {names(broken)}" if broken else ""
    return Promise(text=f"{text} ({len(outcomes) - len(broken)} of {len(outcomes)} tables{failed})", is_kept=not broken)


def names(tables: Sequence[TableOutcome | DemoTable]) -> str:
    return ", ".join(table.name for table in tables)
