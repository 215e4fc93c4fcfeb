# SPDX-License-Identifier: Apache-2.0
"""Answers by the client's names, and how they are made from documents: one reader for all.

Fields that a type does not know are only in ``raw``.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from lakehand.api import access, alerts, catalogs, events, fleet, operations, service, writers
from lakehand.client import GOOD
from lakehand.client.errors import OperationFailed, RequestFailed

T = TypeVar("T")
Convert = Callable[..., Any]
OURS = ("raw", "is_new")  # fields that are in no document
# The client's names of answers that are called otherwise in the API's schemas.
AuditEntry = access.AuditEntryAnswer
Caller = access.CallerAnswer
NewToken = access.NewTokenAnswer
Token = access.TokenAnswer
Alert = alerts.AlertAnswer
ReceiverTest = alerts.TestAnswer
Catalog = catalogs.CatalogAnswer
CatalogSync = catalogs.SyncAnswer
Event = events.EventAnswer
Done = fleet.DoneAnswer
Fleet = fleet.FleetAnswer
FleetProblem = fleet.FleetProblemAnswer
FleetProblems = fleet.ProblemsAnswer
Queue = fleet.QueueAnswer
Totals = fleet.TotalsAnswer
ActionExplanation = operations.ActionAnswer
Attempt = operations.AttemptAnswer
Cleared = operations.ClearedAnswer
Explanation = operations.ExplanationAnswer
Failure = operations.FailureAnswer
LogPage = operations.LogsAnswer
Operation = operations.OperationAnswer
OperationDetail = operations.OperationDetailAnswer
Drain = service.DrainAnswer
Instance = service.InstanceAnswer
Plugin = service.PluginAnswer
Strategy = service.PairAnswer
Version = service.VersionAnswer
CommitOutcome = writers.CommitsAnswer
CommitReason = writers.Reason
Plans = writers.PlansAnswer


def read(answer: type[T], document: Any, **more: object) -> T:
    """The document as this type; ``more``: fields that come from elsewhere."""
    hint: Any = answer
    return cast(T, converter(hint)(document, **more))


@cache
def converter(hint: Any) -> Convert:
    """How a value of this type is made from JSON."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        [inner] = [converter(one) for one in arguments if one is not NoneType]
        return lambda value: None if value is None else inner(value)
    if origin is list:
        item = converter(arguments[0])
        return lambda values: [item(value) for value in values]
    if origin is dict:
        item = converter(arguments[1])
        return lambda values: {key: item(value) for key, value in values.items()}
    if hint is datetime:
        return read_time
    if isinstance(hint, type) and issubclass(hint, Enum):
        return words_of(hint)
    return reader_of(origin or hint, arguments) if is_dataclass(origin or hint) else unchanged


def unchanged(value: Any) -> Any:
    return value


def words_of(words: type[Enum]) -> Convert:
    """A word that only a newer service knows stays text."""
    known = {one.value: one for one in words}
    return lambda text: known.get(text, text)


def read_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def reader_of(answer: Any, arguments: tuple[Any, ...]) -> Convert:
    chosen = dict(zip(getattr(answer, "__parameters__", ()), arguments, strict=False))
    hints = {name: bound(hint, chosen) for name, hint in get_type_hints(answer).items()}
    wanted = {one.name: converter(hints[one.name]) for one in fields(answer) if one.name not in OURS}
    optional = {name for name in wanted if NoneType in get_args(hints[name])}

    def make(document: Any, **more: object) -> Any:
        if not isinstance(document, dict):
            raise RequestFailed(f"the service answered with {type(document).__name__} instead of an object")
        missing = [name for name in wanted if name not in document and name not in optional]
        if missing:
            raise RequestFailed(
                f"the answer of the service has no {', '.join(missing)}: is its version much older than this client's?"
            )
        own = {name: convert(document.get(name)) for name, convert in wanted.items()}
        made = answer(**own, **more)
        object.__setattr__(made, "raw", document)  # the answers are frozen
        return made

    return make


def bound(hint: Any, chosen: dict[Any, Any]) -> Any:
    """The hint with the type parameters of its class filled in."""
    own = getattr(hint, "__parameters__", ())
    return chosen.get(hint, hint[tuple(chosen[one] for one in own)] if own else hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedOperation(Operation):
    is_new: bool  # False: it was stored already, maybe by an earlier attempt of the same call


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """How an operation ended."""

    operation: OperationDetail

    @property
    def status(self) -> str:
        return self.operation.status

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"

    @property
    def why(self) -> str:
        """The reason of its status; if it failed, the failure's message."""
        failure = self.operation.failure
        return failure.message if failure and self.status == "failed" else self.operation.reason

    def check(self) -> OperationDetail:
        """The operation, if it succeeded or nothing was left to do (dropped); else raises OperationFailed."""
        if self.status in GOOD:
            return self.operation
        one = self.operation
        raise OperationFailed(f"operation {one.id} ({one.action} of {one.table.location}) {self.status}: {self.why}")
