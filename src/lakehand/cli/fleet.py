# SPDX-License-Identifier: Apache-2.0
"""lakehand fleet: how many tables are healthy, what needs a person, and what was done."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from lakehand.cli.options import Limit, Session
from lakehand.cli.views import brief, facts, grid, name_of
from lakehand.client import Document
from lakehand.domain.texts import amount, span
from lakehand.output import data, join, when

# State → its shape, as on the dashboard, its colour, and its words.
STATES = {
    "healthy": ("●", "green", "healthy"),
    "needs-work": ("▲", "yellow", "need work"),
    "working": ("◐", "cyan", "working"),
    "failed": ("■", "red", "failed"),
    "paused": ("‖", "dim", "paused"),
    "unreadable": ("?", "red", "unreadable"),
    "new": ("○", "dim", "new"),
}


def fleet(
    *,
    hours: Annotated[int, typer.Option("--hours", min=1, max=8784, help="Count what was done in this time.")] = 24,
    limit: Limit = 20,
    session: Session,
) -> None:
    """Show how many tables are healthy, what needs a person, and what was done."""
    found = session.client.fleet(hours=hours, limit=min(limit, 1000))
    session.show(found.raw, lambda document: fleet_view(document, hours))


def fleet_view(document: Document, hours: int = 24) -> RenderableType:
    if not document["totals"]["tables"]:
        return Text("no tables: register one with lakehand tables add LOCATION")
    head = facts([("tables", states_line(document)), ("files", files_line(document["totals"]))])
    done = facts([(f"done in {hours} h", ", ".join(done_words(document["done"])))])
    return Group(head, *needs_person(document["needs_person"]), done, *queues(document["queues"]))


def states_line(document: Document) -> Text:
    counts = [(STATES[state], count) for state, count in in_order(document["states"]) if count]
    parts = [join("  ", data(f"{shape} {count:,} {words}", colour)) for (shape, colour, words), count in counts]
    return join(f"{document['totals']['tables']:,} ", *parts)


def in_order(states: Document) -> list[tuple[str, int]]:
    return [(state, states.get(state, 0)) for state in STATES]


def files_line(totals: Document) -> str:
    small = f", {totals['small_files']:,} of them small ({amount(totals['small_bytes'])})"
    return f"{totals['files']:,} ({amount(totals['bytes'])}){small}"


def needs_person(problems: Document) -> Iterator[RenderableType]:
    if not problems["total"]:
        yield Text("nothing needs a person", style="green")
        return
    rows = grid("NEEDS A PERSON", "TABLE", "ACTION", "OPERATION", "SINCE", "WHY")
    for one in problems["items"]:
        shape, colour, words = STATES[one["state"]]
        rows.add_row(
            data(f"{shape} {words}", colour), name_of(one["table"]), one["action"] or "", str(one["operation"] or ""),
            when(one["since"]), brief(one["reason"]),
        )  # fmt: skip
    yield from (Text(), rows)
    if (more := problems["total"] - len(problems["items"])) > 0:
        yield data(f"and {more} more: raise --limit", "dim")
    yield Text()


def done_words(done: Document) -> Iterator[str]:
    yield f"{done['operations']:,} operations"
    if done["success_rate"] is not None:
        yield f"{done['success_rate']:.1%} of {done['succeeded'] + done['failed']:,} succeeded"
    yield f"{done['files_removed']:,} files removed"
    yield f"{amount(done['bytes_rewritten'])} rewritten"
    if done["mean_run_seconds"] is not None:
        yield f"waited {span(done['mean_wait_seconds'])} and ran {span(done['mean_run_seconds'])} on average"


def queues(found: list[Document]) -> Iterator[RenderableType]:
    if not found:
        return
    rows = grid("QUEUE", "WAITING", "OLDEST", "RUNNING")
    for one in found:
        rows.add_row(one["queue"], f"{one['waiting']:,}", when(one["oldest"]), f"{one['running']:,}")
    yield from (Text(), rows)
