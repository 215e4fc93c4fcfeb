# SPDX-License-Identifier: Apache-2.0
"""Types of the values in answers."""

from dataclasses import fields
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from lakehand.api.fields import iso
from lakehand.domain.texts import LARGEST_ID

T = TypeVar("T")


Moment = Annotated[
    datetime,
    PlainSerializer(iso, return_type=str),
    Field(json_schema_extra={"format": "date-time", "examples": ["2026-11-15T19:10:13.982Z"]}),
]
PathId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Document = dict[str, Any]
SortedNames = Annotated[list[str], BeforeValidator(sorted)]  # from any collection
SpanSeconds = Annotated[float, BeforeValidator(timedelta.total_seconds)]


class Answer(BaseModel):
    """An answer, or a part of one; it can be made from an object with the same attributes."""

    model_config = ConfigDict(from_attributes=True)


class PageAnswer(BaseModel, Generic[T]):
    items: list[T]
    next: str | None = Field(description="Give it back as `cursor` for the next page; null at the end.")


def fields_of(*objects: Any) -> dict[str, Any]:
    """The fields of dataclasses, as one dictionary; later objects win."""
    return {field.name: getattr(one, field.name) for one in objects for field in fields(one)}
