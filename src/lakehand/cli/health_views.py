# SPDX-License-Identifier: Apache-2.0
"""Renders the health of a table for a terminal. Pure: a document in, a renderable out."""

from collections import Counter
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from lakehand.cli.views import brief, facts, grid, plain
from lakehand.client.documents import Document
from lakehand.domain.texts import amount
from lakehand.output import data, join, when

COLOURS = {"healthy": "green", "needs": "yellow", "broken": "red"}
BAR = 20  # columns
SHOWN = frozenset(
    {
        "files", "bytes", "small_files", "small_bytes", "histogram", "delete_files", "deletion_vectors", "log_files",
        "log_bytes", "snapshots", "oldest_snapshot", "savepoints", "pending_plans", "oldest_pending", "rows",
    }
)  # fmt: skip


def card(document: Document) -> RenderableType:
    """All details of one table."""
    state = data(document["state"], COLOURS[document["state"]])
    head = facts(
        [
            ("table", join(document["name"], f" ({document['format']}, ", state, ")")),
            ("location", data(document["location"])),
            ("", data(f"can also be read as {', '.join(document['also'])}", "dim") if document["also"] else ""),
            ("problem", document["problem"] or ""),
            *health(document["numbers"]),
        ]
    )
    return Group(head, Text(), decisions(document), Text()) if document["actions"] else Group(head, Text())


def decisions(document: Document) -> RenderableType:
    rows = grid("ACTION", "NEEDED", "WHY")
    for one in document["actions"]:
        by_service = " (with --scheduling service)" if one.get("scheduling") == "service" and one["needed"] else ""
        needed = data("yes", "yellow") if one["needed"] else "no"
        rows.add_row(one["action"], needed, one["reason"] + by_service)
    return rows


def health(numbers: Document) -> Iterator[tuple[str, str]]:
    """Rows of label and text, in the same order for all formats."""
    yield "files", ", ".join(file_words(numbers))
    yield "sizes", histogram(numbers.get("histogram") or {})
    yield "deletes", ", ".join(counts(numbers, delete_files="delete files", deletion_vectors="deletion vectors"))
    yield "logs", f"{numbers['log_files']} log files{sized(numbers, 'log_bytes')}" if numbers.get("log_files") else ""
    yield "rows", f"{numbers['rows']:,}" if isinstance(numbers.get("rows"), int) else ""
    yield "snapshots", dated(numbers, "snapshots", "oldest_snapshot")
    yield "savepoints", savepoints(numbers)
    yield "pending plans", dated(numbers, "pending_plans", "oldest_pending")
    yield "other", others(numbers)


def file_words(numbers: Document) -> Iterator[str]:
    if "files" in numbers:
        yield some(numbers["files"], "files") + sized(numbers, "bytes")
    if numbers.get("small_files"):
        yield f"{numbers['small_files']} of them small{sized(numbers, 'small_bytes')}"


def sized(numbers: Document, name: str) -> str:
    return f" ({amount(numbers[name])})" if numbers.get(name) else ""


def counts(numbers: Document, **names: str) -> Iterator[str]:
    return (some(numbers[name], words) for name, words in names.items() if numbers.get(name))


def some(count: int, words: str) -> str:
    return f"{count} {words if count != 1 else words.removesuffix('s')}"


def dated(numbers: Document, count: str, oldest: str) -> str:
    if numbers.get(count) is None:
        return ""
    since = f", the oldest {when(numbers[oldest])}" if numbers.get(oldest) else ""
    return f"{numbers[count]}{since}"


def savepoints(numbers: Document) -> str:
    """Their instants; Lakehand never removes one, nor the files that it holds."""
    if not numbers.get("savepoints"):
        return ""
    found = str(numbers["savepoints"]).split(",")
    return f"{len(found)}, whose files every action keeps: {', '.join(found)}"


def histogram(classes: Document) -> str:
    """A bar for each size class that has files."""
    most = max((count for count in classes.values()), default=0)
    bars = [f"{name:>11} {'█' * max(1, round(BAR * n / most))} {n}" for name, n in classes.items() if n]
    return "\n".join(bars)


def others(numbers: Document) -> str:
    return plain({name.replace("_", " "): value for name, value in numbers.items() if name not in SHOWN and value})


def line(document: Document) -> Text:
    """One table of a list."""
    state, numbers = document["state"], document["numbers"]
    needed = [one["action"] for one in document["actions"] if one["needed"]]
    words = [*file_words(numbers), *counts(numbers, delete_files="delete files", deletion_vectors="deletion vectors")]
    words += counts(numbers, log_files="log files", pending_plans="pending plans")
    wanted = join(data(", ".join(needed), "yellow"), ": ") if needed else ""
    details = brief(document["problem"] or "") or ", ".join(words)
    where = document["location"] if ":" not in document["name"] else document["name"]
    shape = document["format"] or "?"
    return join(data(f"{state:<8}", COLOURS[state]), f" {shape:<8} {where}  ", wanted, details)


def list_counts(counts: Counter[str]) -> str:
    listed = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    return f" ({listed})" if listed else ""
