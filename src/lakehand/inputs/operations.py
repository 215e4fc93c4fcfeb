# SPDX-License-Identifier: Apache-2.0
"""What requests about operations may contain."""

from collections.abc import Collection

from pydantic import BaseModel, ConfigDict, Field

from lakehand.api.fields import ActionName, Location, Name
from lakehand.core.services.tables import TableService
from lakehand.domain.errors import Invalid
from lakehand.domain.operations import Status
from lakehand.domain.row_checks import RowMode
from lakehand.domain.tables import Table, TableId
from lakehand.domain.texts import LARGEST_ID
from lakehand.inputs.fields import Id, OwnedQuery
from lakehand.inputs.parameters import Options


class OperationRequest(BaseModel):
    """Work to do now. With an instant: run that plan. Without one: plan and run."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"table": 1, "action": "compaction", "instant": "20261115191013982"},
                {"location": "/data/trips", "action": "clustering"},
                {"location": "/data/orders", "action": "vacuum", "dry_run": True},
            ]
        },
    )

    table: Id | None = Field(default=None, description="The table's id; or give its location.")
    location: Location | None = None
    action: ActionName
    instant: Name | None = Field(default=None, description="The plan's own time in the table: 14 or 17 digits.")
    options: Options = Field(default={}, description="Format options from a list of allowed ones.")
    dry_run: bool = Field(default=False, description="Only list what would be deleted, if the action supports it.")
    confirm: bool = Field(
        default=False, description="Run it even if the job finds it implausible. Recorded with the caller's name."
    )
    verify_rows: RowMode = Field(
        default=RowMode.OFF, description="Compare rows before and after. It can only raise what the table has."
    )


class OperationQuery(OwnedQuery):
    table: Id | None = None
    action: Name | None = None
    status: Name | None = Field(default=None, description="One, or several separated by commas.")


class LogQuery(BaseModel):
    attempt: int | None = Field(default=None, ge=1, le=2**31 - 1, description="Default: the last one.")
    offset: int = Field(default=0, ge=0, le=LARGEST_ID, description="Bytes to skip.")
    limit: int = Field(default=65536, ge=1, le=1_048_576)


def named_table(new: OperationRequest, tables: TableService) -> Table:
    if new.table is not None:
        return tables.get(TableId(new.table))
    if new.location is not None:
        return tables.find(new.location)
    raise Invalid("the request names no table: give its id (table) or its location")


def read_statuses(text: str) -> Collection[Status]:
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in {str(status) for status in Status}]
    if unknown:
        raise Invalid(f"{unknown[0]!a} is not a status: use {', '.join(str(status) for status in Status)}")
    return [Status(word) for word in words]
