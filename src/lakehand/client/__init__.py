# SPDX-License-Identifier: Apache-2.0
"""A typed client of the REST API, sync and async: ``LakehandClient`` and ``AsyncLakehandClient``. Public.

Names are imported when they are first used: commands start before the types are made, and ``--help`` needs none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakehand.client.documents import DEFAULT_URL, FINAL, GOOD, Document, Parameters, absolute_location, given

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
        Plugin,
        Queue,
        ReceiverTest,
        Strategy,
        SubmittedOperation,
        Token,
        Totals,
        Version,
    )
    from lakehand.client.clients import (
        AsyncLakehandClient,
        LakehandClient,
        Verify,
    )
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
    from lakehand.client.event_calls import (
        CommitOutcome,
        CommitReason,
    )
    from lakehand.client.outcomes import (
        NO_RETRIES,
        Retries,
    )
    from lakehand.client.table_calls import (
        AddedTable,
        HealthHistory,
        HealthPoint,
        OperationEnd,
        Setting,
        Table,
        TableRef,
    )

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
HOMES = ("clients", "errors", "outcomes", "table_calls", "answers", "event_calls")


if not TYPE_CHECKING:  # a name that does not exist must not pass for Any

    def __getattr__(name: str) -> Any:
        for home in HOMES if name in __all__ else ():
            module = import_module(f"lakehand.client.{home}")
            if name in vars(module):
                return vars(module)[name]
        raise AttributeError(f"lakehand.client has no {name}")
