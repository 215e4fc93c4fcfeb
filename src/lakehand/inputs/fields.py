# SPDX-License-Identifier: Apache-2.0
"""What lists have in common, where `api` does not describe them yet."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from lakehand.api.fields import Cursor
from lakehand.domain.texts import LARGEST_ID

Id = Annotated[int, Field(ge=1, le=LARGEST_ID)]


class Paging(BaseModel):
    """The parameters of every list."""

    limit: int = Field(default=100, ge=1, le=1000, description="How many at most.")
    cursor: Cursor | None = Field(default=None, description="`next` of the page before.")

    def filters(self) -> dict[str, Any]:
        return self.model_dump(exclude={"limit", "cursor"})
