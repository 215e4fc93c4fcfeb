# SPDX-License-Identifier: Apache-2.0
"""Makes answers from documents: one reader for all types. Fields that a type does not know are only in ``raw``."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from lakehand.api.fields import Answer
from lakehand.client.errors import RequestFailed

T = TypeVar("T")
Convert = Callable[..., Any]
OURS = ("raw", "is_new")  # fields that are in no document


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList(Answer, Generic[T]):
    items: list[T]


def read(answer: type[T], document: Any, **more: object) -> T:
    """The document as this type; ``more``: fields that come from elsewhere."""
    hint: Any = answer
    return cast(T, converter(hint)(document, **more))


@cache
def converter(hint: Any) -> Convert:
    """How a value of this type is made from JSON."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        [inner] = [converter(one) for one in arguments if one is not NoneType]
        return lambda value: None if value is None else inner(value)
    if origin is list:
        item = converter(arguments[0])
        return lambda values: [item(value) for value in values]
    if origin is dict:
        item = converter(arguments[1])
        return lambda values: {key: item(value) for key, value in values.items()}
    if hint is datetime:
        return read_time
    if isinstance(hint, type) and issubclass(hint, Enum):
        return words_of(hint)
    return reader_of(origin or hint, arguments) if is_dataclass(origin or hint) else unchanged


def unchanged(value: Any) -> Any:
    return value


def words_of(words: type[Enum]) -> Convert:
    """A word that only a newer service knows stays text."""
    known = {one.value: one for one in words}
    return lambda text: known.get(text, text)


def read_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def reader_of(answer: Any, arguments: tuple[Any, ...]) -> Convert:
    chosen = dict(zip(getattr(answer, "__parameters__", ()), arguments, strict=False))
    hints = {name: bound(hint, chosen) for name, hint in get_type_hints(answer).items()}
    wanted = {one.name: converter(hints[one.name]) for one in fields(answer) if one.name not in OURS}
    optional = {name for name in wanted if NoneType in get_args(hints[name])}

    def make(document: Any, **more: object) -> Any:
        if not isinstance(document, dict):
            raise RequestFailed(f"the service answered with {type(document).__name__} instead of an object")
        missing = [name for name in wanted if name not in document and name not in optional]
        if missing:
            raise RequestFailed(
                f"the answer of the service has no {', '.join(missing)}: is its version much older than this client's?"
            )
        own = {name: convert(document.get(name)) for name, convert in wanted.items()}
        made = answer(**own, **more)
        object.__setattr__(made, "raw", document)  # the answers are frozen
        return made

    return make


def bound(hint: Any, chosen: dict[Any, Any]) -> Any:
    """The hint with the type parameters of its class filled in."""
    own = getattr(hint, "__parameters__", ())
    return chosen.get(hint, hint[tuple(chosen[one] for one in own)] if own else hint)
