# SPDX-License-Identifier: Apache-2.0
"""What requests and answers of the API are made of. Standard library only: the client imports it.

Pydantic checks requests and writes the OpenAPI document. It finds bounds and descriptions (``about``) in the metadata
of fields, and calls ``Printable``, ``Milliseconds`` and ``OneOf`` by the names of their methods. A class is named like
its schema, and what it says of itself is in the document.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from lakehand.domain.numbers import LARGEST_ID

T = TypeVar("T")
STRICT = {"extra": "forbid"}  # the __pydantic_config__ of a body: a field that we do not know is refused
LONGEST_NAME = 250


def about(
    description: str = "", *, gt: float | None = None, ge: float | None = None, le: float | None = None,
    max_length: int | None = None, allow_inf_nan: bool | None = None, examples: Sequence[object] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The metadata of a field: what it is, and its bounds."""
    given = {
        "description": description or None, "gt": gt, "ge": ge, "le": le, "max_length": max_length,
        "allow_inf_nan": allow_inf_nan, "examples": examples,
    }  # fmt: skip
    return {key: value for key, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Printable:
    """Text without control characters. The bound belongs to the text itself: pydantic checks it, and Unicode, first."""

    max_length: int

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        text = {**handler(source), "max_length": self.max_length}
        return {"type": "function-after", "function": {"type": "no-info", "function": printable}, "schema": text}


class Milliseconds:
    """A time as JSON has it: in UTC, with milliseconds."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        text = {"type": "function-plain", "function": iso, "return_schema": {"type": "str"}}
        return {**handler(source), "serialization": text}

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        return {**handler(schema), "format": "date-time", "examples": ["2026-11-15T19:10:13.982Z"]}


@dataclass(frozen=True, slots=True)
class OneOf:
    """A word of an enum. Our own code and callers may give it as plain text."""

    words: type[Enum]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        schema = handler(self.words)
        word = {"type": "function-plain", "function": self.words, "return_schema": schema}
        return {**schema, "serialization": word}


def iso(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("control characters are not allowed")
    return text


Name = Annotated[str, Printable(max_length=LONGEST_NAME)]
Cursor = Annotated[str, Printable(max_length=500)]
Moment = Annotated[datetime, Milliseconds()]
Document: TypeAlias = dict[str, Any]
AN_ID = about(ge=1, le=LARGEST_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer, or a part of one. ``raw``: in the client, the document as the service sent it.

    Pydantic leaves out a field that nobody can give and that has no default, so that ``raw`` is no part of the API.
    """

    raw: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "raw", {})


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAnswer(Answer, Generic[T]):
    items: list[T]
    next: str | None = field(metadata=about("Give it back as `cursor` for the next page; null at the end."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """The parameters of every list."""

    limit: int = field(default=100, metadata=about("How many at most.", ge=1, le=1000))
    cursor: Cursor | None = field(default=None, metadata=about("`next` of the page before."))

    def filters(self) -> dict[str, Any]:
        """What a list is to have, by name."""
        return {name: value for name, value in values_of(self).items() if name not in ("limit", "cursor")}


def answer(shape: Callable[..., T], *sources: object, **more: object) -> T:
    """An answer filled by the names of its fields: from the keyword, else from the last object that has one."""
    wanted: Any = shape
    names = [one.name for one in fields(wanted) if one.init]
    values = {name: more[name] if name in more else attribute(name, sources) for name in names}
    return shape(**{name: plain(value) for name, value in values.items()})


def attribute(name: str, sources: Iterable[object]) -> object:
    holders = [source for source in sources if hasattr(source, name)]
    if not holders:
        raise LookupError(f"nothing has a value for the field {name}")
    return getattr(holders[-1], name)


def plain(value: object) -> object:
    """Words of the domain are plain text for callers."""
    return value.value if isinstance(value, Enum) else value


def values_of(request: Any) -> dict[str, Any]:
    """What a request was given, by the names of its fields."""
    return {one.name: getattr(request, one.name) for one in fields(request) if one.init}


def seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
