# SPDX-License-Identifier: Apache-2.0
"""Reads what a form sent. The bounds of bodies and the check for foreign pages are in front of every route."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

from fastapi import Depends, Request
from pydantic import TypeAdapter, ValidationError

from lakehand.api.fields import describe_faults, names_of
from lakehand.domain.errors import Invalid

T = TypeVar("T")
MOST_FIELDS = 2000
LONGEST = 4000


@dataclass(frozen=True, slots=True)
class FormFields:
    values: Mapping[str, Sequence[str]]

    def text(self, name: str) -> str:
        found = self.values.get(name, [""])[-1].strip()
        if len(found) > LONGEST or not found.isprintable():
            raise Invalid(f"{name} is too long, or has characters that cannot be shown")
        return found

    def number(self, name: str) -> int:
        try:
            return int(self.text(name))
        except ValueError:
            raise Invalid(f"{name} is {self.text(name)[:80]!a}: use a whole number") from None

    def read(self, shape: type[T], **more: object) -> T:
        """The request, by the names of its fields. What the form leaves empty has its default."""
        wanted: Any = shape
        given = {name: text for name in names_of(wanted) if (text := self.text(name))}
        try:
            request: T = TypeAdapter(wanted).validate_python(given | more)
        except ValidationError as error:
            raise Invalid(describe_faults(error.errors())) from error
        return request

    def all(self, name: str) -> Sequence[str]:
        return self.values.get(name, [])


async def form_of(request: Request) -> FormFields:
    try:
        text = (await request.body()).decode()
        return FormFields(parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"))
    except ValueError as error:
        raise Invalid(f"the form cannot be read: {error}") from error


Form = Annotated[FormFields, Depends(form_of)]
