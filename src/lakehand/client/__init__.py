# SPDX-License-Identifier: Apache-2.0
"""A typed client of the REST API, sync and async: ``LakehandClient`` and ``AsyncLakehandClient``. Public.

Names are imported when they are first used: commands start before the types are made, and ``--help`` needs none.
What commands need before they send anything is here.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from lakehand.api.tables import RemovedTable, TableName
    from lakehand.client.answers import (
        ActionExplanation,
        Alert,
        Attempt,
        AuditEntry,
        Caller,
        Catalog,
        CatalogSync,
        Cleared,
        CommitOutcome,
        CommitReason,
        Done,
        Drain,
        Event,
        Explanation,
        Failure,
        Fleet,
        FleetProblem,
        FleetProblems,
        Instance,
        LogPage,
        NewToken,
        Operation,
        OperationDetail,
        OperationResult,
        Plans,
        Plugin,
        Queue,
        ReceiverTest,
        Strategy,
        SubmittedOperation,
        Token,
        Totals,
        Version,
    )
    from lakehand.client.clients import AsyncLakehandClient, LakehandClient, Verify
    from lakehand.client.errors import (
        Conflict,
        Forbidden,
        Invalid,
        NotFound,
        OperationFailed,
        RequestFailed,
        StillRunning,
        Unauthorized,
        Unavailable,
    )
    from lakehand.client.outcomes import NO_RETRIES, Retries
    from lakehand.client.table_calls import (
        AddedTable,
        HealthHistory,
        HealthPoint,
        OperationEnd,
        Setting,
        Table,
        TableRef,
    )
    from lakehand.client.writer_calls import Commit

__all__ = [
    "DEFAULT_URL",
    "FINAL",
    "GOOD",
    "NO_RETRIES",
    "ActionExplanation",
    "AddedTable",
    "Alert",
    "AsyncLakehandClient",
    "Attempt",
    "AuditEntry",
    "Caller",
    "Catalog",
    "CatalogSync",
    "Cleared",
    "Commit",
    "CommitOutcome",
    "CommitReason",
    "Conflict",
    "Document",
    "Done",
    "Drain",
    "Event",
    "Explanation",
    "Failure",
    "Fleet",
    "FleetProblem",
    "FleetProblems",
    "Forbidden",
    "HealthHistory",
    "HealthPoint",
    "Instance",
    "Invalid",
    "LakehandClient",
    "LogPage",
    "NewToken",
    "NotFound",
    "Operation",
    "OperationDetail",
    "OperationEnd",
    "OperationFailed",
    "OperationResult",
    "Parameters",
    "Plans",
    "Plugin",
    "Queue",
    "ReceiverTest",
    "RemovedTable",
    "RequestFailed",
    "Retries",
    "Setting",
    "StillRunning",
    "Strategy",
    "SubmittedOperation",
    "Table",
    "TableName",
    "TableRef",
    "Token",
    "Totals",
    "Unauthorized",
    "Unavailable",
    "Verify",
    "Version",
    "absolute_location",
    "given",
]
Document: TypeAlias = dict[str, Any]
Parameters: TypeAlias = Mapping[str, Any]
DEFAULT_URL = "http://127.0.0.1:9091"
FINAL = frozenset({"succeeded", "failed", "canceled", "dropped"})  # statuses of an operation that is over
GOOD = frozenset({"succeeded", "dropped"})  # nothing is left to do
HOMES = ("clients", "errors", "outcomes", "table_calls", "answers", "writer_calls")


def given(parameters: Parameters) -> Document:
    """Without those that are None."""
    return {key: value for key, value in parameters.items() if value is not None}


def absolute_location(text: str) -> str:
    """A path as one types it in a shell, made absolute; anything with a scheme stays as it is."""
    if urlsplit(text).scheme or text.startswith("/"):
        return text
    return str(Path(text).expanduser().absolute())


if not TYPE_CHECKING:  # a name that does not exist must not pass for Any

    def __getattr__(name: str) -> Any:
        for home in HOMES if name in __all__ else ():
            module = import_module(f"lakehand.client.{home}")
            if name in vars(module):
                return vars(module)[name]
        raise AttributeError(f"lakehand.client has no {name}")
