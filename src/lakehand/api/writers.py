# SPDX-License-Identifier: Apache-2.0
"""What writers say: which tables they have committed to, and which plans are to be run or are gone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from lakehand.api.fields import ID, STRICT, ActionName, Answer, Checked, Document, Location, Name, about
from lakehand.api.operations import OperationAnswer, WantedWork, operation_answer
from lakehand.domain.notifications import CommitResult, Outcome
from lakehand.domain.operations import Operation
from lakehand.domain.tables import Table

MOST_COMMITS = 1000  # in one request
MOST_INSTANTS = 1000
MOST_REASONS = 20
PARTITIONS = "Which partitions changed, each as column=value/column=value: where decisions look first."
COMMIT = {"location": "s3://lake/sales/orders", "format": "delta", "version": 42, "partitions": ["day=2026-11-15"]}
EXAMPLES: Document = {"json_schema_extra": {"examples": [COMMIT]}}
PLANS = {"location": "/data/trips", "action": "compaction", "instants": ["20261115191013982"], "resource": "4g:4g"}
Partition = Annotated[str, Checked(max_length=1024)]
Instants = Annotated[list[Name], Checked(min_length=1, max_length=MOST_INSTANTS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitData:
    """The data of a `dev.lakehand.table.committed` event: a table by location, or by catalog and name."""

    __pydantic_config__ = EXAMPLES

    location: Location | None = None
    catalog: Name = ""
    table: Name = field(default="", metadata=about("The name in the catalog, with its namespace: sales.orders."))
    format: Name = field(default="", metadata=about("Needed only to register an unknown table."))
    version: str | int = field(default="", metadata=about("Instant, snapshot or version of the commit."))
    partitions: Annotated[list[Partition], Checked(max_length=1000)] = field(
        default_factory=list, metadata=about(PARTITIONS, default=[])
    )
    numbers: Annotated[dict[Name, float], Checked(max_length=100)] | None = field(
        default=None, metadata=about("Files, bytes, rows that were added.")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCommit(CommitData):
    """A commit from a caller of the API, who needs no envelope around it."""

    id: Name = field(default="", metadata=about("The same id of the same source is the same commit; empty: a new one."))
    source: Name = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason(Answer):
    outcome: str = field(metadata=about(examples=["refused"]))
    reason: str
    count: int
    example: str = field(metadata=about("One of the tables or objects."))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsAnswer(Answer):
    """What became of the events of a request. Stored ones are durable, and their tables are evaluated next."""

    stored: int
    ignored: int = field(metadata=about("No commit, or the same event again."))
    waiting: int = field(metadata=about("The table is registered when its catalog has been read."))
    refused: int
    tables: int = field(metadata=about("How many tables the stored events are about."))
    reasons: list[Reason] = field(metadata=about(f"At most {MOST_REASONS}."))


def commits_answer(results: Sequence[CommitResult]) -> CommitsAnswer:
    counts = Counter(one.outcome for one in results)
    others = [one for one in results if one.outcome is not Outcome.STORED]
    times = Counter((one.outcome, one.reason) for one in others)
    first: dict[tuple[Outcome, str], str] = {}
    for one in others:
        first.setdefault((one.outcome, one.reason), one.example)
    reasons = [
        Reason(outcome=str(outcome), reason=reason, count=times[outcome, reason], example=example)
        for (outcome, reason), example in list(first.items())[:MOST_REASONS]
    ]
    tables = len({one.table for one in results if one.table is not None})
    return CommitsAnswer(**{str(one): counts[one] for one in Outcome}, tables=tables, reasons=reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlansRequest(WantedWork):
    """Plans of one action that a table has, to be run. An unknown location is registered for this action alone."""

    __pydantic_config__ = STRICT | {"json_schema_extra": {"examples": [PLANS]}}

    db_name: Name = field(default="", metadata=about("With table_name: in place of id and location."))
    table_name: Name = ""
    instants: Instants = field(metadata=about("The plans' own times in the table: 14 or 17 digits."))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRemoval:
    """A plan that was rolled back, or is not wanted any more."""

    __pydantic_config__ = STRICT

    table: int | None = field(default=None, metadata=about("The table's id; or give its location.", **ID))
    location: Location | None = None
    db_name: Name = field(default="", metadata=about("With table_name: in place of id and location."))
    table_name: Name = ""
    action: ActionName = field(metadata=about(examples=["compaction"]))
    instant: Name = field(metadata=about("The plan's own time in the table."))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlansAnswer(Answer):
    table: int
    operations: list[OperationAnswer]


def plans_answer(table: Table, operations: Sequence[Operation]) -> PlansAnswer:
    return PlansAnswer(table=table.id, operations=[operation_answer(one, table) for one in operations])
