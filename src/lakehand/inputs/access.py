# SPDX-License-Identifier: Apache-2.0
"""What requests about tokens and the audit trail may contain."""

from pydantic import BaseModel, ConfigDict, Field

from lakehand.api.fields import Name
from lakehand.domain.access import Role
from lakehand.inputs.fields import Id, Paging


class TokenRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "airflow", "role": "operator"}]})

    name: Name = Field(description="Several tokens may have one name: make the new one, then revoke the old one.")
    role: Role
    owner: Name = Field(default="", description="It may only touch the tables of this owner; empty: of all.")
    life: float | None = Field(default=None, gt=0, le=3660 * 86400, description="Seconds; null: it does not expire.")


class AuditQuery(Paging):
    caller: Name | None = None
    action: Name | None = Field(default=None, description="A whole action, or a prefix that ends in a dot: `table.`.")
    table: Id | None = None
    operation: Id | None = None
