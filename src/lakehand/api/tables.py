# SPDX-License-Identifier: Apache-2.0
"""Answers about tables."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.api.fields import Answer, answer

if TYPE_CHECKING:
    from lakehand.domain.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName(Answer):
    """A table as other answers mention it."""

    id: int
    db_name: str
    table_name: str
    location: str
    format: str


def table_name(table: "Table") -> TableName:
    return answer(TableName, table.spec, table)
