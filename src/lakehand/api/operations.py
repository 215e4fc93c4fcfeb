# SPDX-License-Identifier: Apache-2.0
"""Requests and answers about operations, and why a table has some or none."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from lakehand.api.events import EventAnswer, event_answer
from lakehand.api.fields import (
    ID,
    STRICT,
    ActionName,
    Answer,
    Checked,
    Document,
    GivenName,
    Location,
    LongName,
    Moment,
    Name,
    Paging,
    Priority,
    about,
    answer,
    property_key,
)
from lakehand.api.tables import TableAnswer, TableName, table_name
from lakehand.domain.events import StoredEvent
from lakehand.domain.operations import FINAL, Attempt, Operation, Status
from lakehand.domain.processes import Failure, Remedy
from lakehand.domain.row_checks import RowMode
from lakehand.domain.tables import Table
from lakehand.domain.texts import LARGEST_ID

LONGEST_VALUE = 200
EXAMPLES = [
    {"table": 1, "action": "compaction", "instant": "20261115191013982"},
    {"location": "/data/trips", "action": "clustering"},
    {"location": "/data/orders", "action": "vacuum", "dry_run": True},
]
MOST_PARALLEL = 1_000_000
_RESOURCE = re.compile(r"(?:[a-z]{1,16}:)?[0-9]{1,6}[kmgt]?[:,][0-9]{1,6}[kmgt]?", re.IGNORECASE)
_TEXT = re.compile(r"[A-Za-z0-9_.:,+-]+( [A-Za-z0-9_.:,+-]+)*")


def harmless(options: Mapping[str, str]) -> Mapping[str, str]:
    """Options of any format: nothing that loads code or is a secret. Each format takes those that it knows."""
    for key, value in options.items():
        property_key(key)
        if len(value) > LONGEST_VALUE or not _TEXT.fullmatch(value):
            raise ValueError(f"the value of {key} may hold letters, digits, spaces and ._:,+- only, at most 200")
    return options


def read_resource(text: str) -> str:
    """Memory of driver and executor: ``4g:4g`` as in RFC-43, ``spark:4g,4g`` as Hudi's client sends it."""
    if not _RESOURCE.fullmatch(text):
        raise ValueError(f"{text[:40]!a} is not a resource setting: write 4g:4g (driver:executor) or spark:4g,4g")
    return text


Resource = Annotated[str, Checked(check=read_resource, max_length=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedWork:
    """What a request may say of the work that it wants: which action of which table, and how it is to run."""

    table: int | None = field(default=None, metadata=about("The table's id; or give its location.", **ID))
    location: Location | None = None
    action: ActionName = field(metadata=about(examples=["compaction"]))
    options: Annotated[dict[str, str], Checked(check=harmless, max_length=50)] = field(
        default_factory=dict, metadata=about("Format options from a list of allowed ones.", default={})
    )
    resource: Resource | None = field(
        default=None,
        metadata=about(
            "Memory of driver and executors, where it gets an application of its own.",
            examples=["4g:4g", "spark:4g,4g"],
        ),
    )
    parallelism: int | None = field(
        default=None, metadata=about("Cores or executors of that application.", ge=1, le=MOST_PARALLEL)
    )
    engine: Name | None = field(default=None, metadata=about("Where it runs; default: the service chooses."))
    priority: Priority | None = field(default=None, metadata=about("Its own; default: that of the table."))
    queue: GivenName | None = field(default=None, metadata=about("Its own; default: that of the table."))
    owner: GivenName | None = field(default=None, metadata=about("Its own; default: that of the table."))
    retry_on_error: bool | None = field(
        default=None, metadata=about("False: one attempt, and none after it failed. Default: true.")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequest(WantedWork):
    """Work to do now. With an instant: run that plan. Without one: plan and run."""

    __pydantic_config__ = STRICT | {"json_schema_extra": {"examples": EXAMPLES}}

    instant: Name | None = field(default=None, metadata=about("The plan's own time in the table: 14 or 17 digits."))
    dry_run: bool = field(default=False, metadata=about("Only list what would be deleted, if the action supports it."))
    confirm: bool = field(
        default=False,
        metadata=about("Run it even if the job finds it implausible. Recorded with the caller's name."),
    )
    verify_rows: RowMode = field(
        default=RowMode.OFF,
        metadata=about("Compare rows before and after. It can only raise what the table has."),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedOperation:
    """Changes to an operation that waits; what is left out stays. It follows its table no more in what is given."""

    __pydantic_config__ = STRICT | {"json_schema_extra": {"examples": [{"priority": 50}, {"queue": "vip"}]}}

    priority: Priority | None = None
    queue: GivenName | None = None
    owner: GivenName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationQuery(Paging):
    location: LongName | None = None
    owner: Name | None = None
    queue: Name | None = None
    table: int | None = field(default=None, metadata=about(**ID))
    action: Name | None = None
    status: Name | None = field(default=None, metadata=about("One, or several separated by commas."))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    attempt: int | None = field(default=None, metadata=about("Default: the last one.", ge=1, le=2**31 - 1))
    offset: int = field(default=0, metadata=about("Bytes to skip.", ge=0, le=LARGEST_ID))
    limit: int = field(default=65536, metadata=about(ge=1, le=1_048_576))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationAnswer(Answer):
    id: int
    table: TableName
    instant: str
    action: str
    status: Status
    attempts: int = field(metadata=about("How many attempts were started."))
    created_at: Moment
    finished_at: Moment | None
    reason: str = field(metadata=about("Why it has this status."))
    queue: str
    owner: str
    priority: int
    engine: str
    origin: str = field(metadata=about("Who asked for it."))
    retry_on_error: bool = field(metadata=about("Whether a failed attempt is followed by another one."))
    updated_at: Moment
    submitted_at: Moment | None
    started_at: Moment | None
    next_try: Moment | None = field(metadata=about("When a pending operation may start; null if it is not pending."))
    cancel_requested: bool
    is_deleted: bool
    progress: Document

    @property
    def is_final(self) -> bool:
        return self.status in FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureAnswer(Answer):
    reason: str
    message: str
    remedy: Remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAnswer(Answer):
    number: int
    handle: str
    engine: str
    instance: str
    started_at: Moment
    finished_at: Moment | None
    outcome: str
    failure: FailureAnswer | None
    result: Document
    external_id: str | None = field(metadata=about("Where it runs, as that is called there: a Spark application's id."))
    external_url: str | None = field(metadata=about("A page about it there: Spark's UI or its history server."))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDetailAnswer(OperationAnswer):
    parameters: Document
    job: str
    result: Document
    failure: FailureAnswer | None
    attempt_list: list[AttemptAnswer]
    events: list[EventAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsAnswer(Answer):
    operation: int
    attempt: int
    engine: str
    offset: int
    next_offset: int = field(metadata=about("Pass it as `offset` to read on."))
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedAnswer(Answer):
    removed: list[int] = field(metadata=about("The operations that were removed."))


A = TypeVar("A", bound=OperationAnswer)


def operation_answer(operation: Operation, table: Table) -> OperationAnswer:
    return filled(OperationAnswer, operation, table)


def detail_answer(
    operation: Operation, table: Table, attempts: Sequence[Attempt], events: Sequence[StoredEvent]
) -> OperationDetailAnswer:
    return filled(
        OperationDetailAnswer, operation, table, failure=failure_answer(operation.failure),
        attempt_list=[answer(AttemptAnswer, one, failure=failure_answer(one.failure)) for one in attempts],
        events=[event_answer(one) for one in events],
    )  # fmt: skip


def filled(shape: type[A], operation: Operation, table: Table, **more: Any) -> A:
    next_try = operation.not_before if operation.status is Status.PENDING else None
    return answer(
        shape, operation.process, operation, table=table_name(table), attempts=operation.run_times, next_try=next_try,
        **more,
    )  # fmt: skip


def failure_answer(failure: Failure | None) -> FailureAnswer | None:
    return None if failure is None else answer(FailureAnswer, failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAnswer(Answer):
    action: str
    wanted: bool
    now: str = field(metadata=about("One sentence: what runs, what waits, or why nothing is done."))
    evaluated_at: Moment | None = field(
        metadata=about("When it was last evaluated. Without a change, the last reason holds.")
    )
    last_decision: Moment | None = field(
        metadata=about("When the table was last read for a decision: the numbers in `now` are of that time.")
    )
    last_start: Moment | None
    next_evaluation: Moment | None
    unfinished: list[OperationAnswer]  # those that run, and the oldest of those that wait
    last_finished: OperationAnswer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationAnswer(Answer):
    """Why something runs on a table or not, and when it is evaluated next."""

    table: TableAnswer
    summary: str
    next_evaluation: Moment | None
    actions: list[ActionAnswer]
    events: list[EventAnswer]
