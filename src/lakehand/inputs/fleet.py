# SPDX-License-Identifier: Apache-2.0
"""What requests about events may contain."""

from lakehand.inputs.fields import Id, Name, Paging


class EventQuery(Paging):
    table: Id | None = None
    operation: Id | None = None
    kind: Name | None = None
