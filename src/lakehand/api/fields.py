# SPDX-License-Identifier: Apache-2.0
"""What requests and answers of the API are made of. Standard library only: the client imports it.

Pydantic checks requests and writes the OpenAPI document. It finds bounds and descriptions (``about``) in the metadata
of fields, and calls ``Checked`` and ``Milliseconds`` by the names of their methods. A class is named like its schema,
and what it says of itself is in the document.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from lakehand.domain.locations import LONGEST
from lakehand.domain.texts import LARGEST_ID

T = TypeVar("T")
Document: TypeAlias = dict[str, Any]
STRICT: Document = {"extra": "forbid"}  # the __pydantic_config__ of a body: a field that we do not know is refused
LONGEST_NAME = 250
ID: Document = {"ge": 1, "le": LARGEST_ID}  # the bounds of an id
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,249}")
_FOREIGN = ("spark.", "hadoop.", "fs.", "java.", "javax.")
_LOADING = re.compile(r"(^|[._-])(class|classes|classpath|jars?|script|command)($|[._-])", re.IGNORECASE)
_SECRET = re.compile(r"password|secret|token|credential|access[._-]?key|private[._-]?key", re.IGNORECASE)
_LOCK_PROVIDERS = "org.apache.hudi."
MOST_FAULTS = 10  # that an error names
# Of dataclasses and of models: the same fault, the same words.
FAULTS = {
    "unexpected_keyword_argument": "Extra inputs are not permitted",
    "dataclass_type": "Input should be a valid dictionary or object to extract fields from",
}


def about(
    description: str = "", *, gt: float | None = None, ge: float | None = None, le: float | None = None,
    max_length: int | None = None, allow_inf_nan: bool | None = None, examples: Sequence[object] | None = None,
    default: object = None,
) -> dict[str, Any]:  # fmt: skip
    """The metadata of a field: what it is, and its bounds. ``default``: what its factory makes, for the document."""
    given = {
        "description": description or None, "gt": gt, "ge": ge, "le": le, "max_length": max_length,
        "allow_inf_nan": allow_inf_nan, "examples": examples,
        "json_schema_extra": None if default is None else {"default": default},
    }  # fmt: skip
    return {key: value for key, value in given.items() if value is not None}


def printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("control characters are not allowed")
    return text


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checked:
    """Bounds of a value wherever it stands, in a list for instance. Pydantic checks them, and Unicode, first."""

    ge: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    allow_inf_nan: bool | None = None
    tz_constraint: str | None = None
    check: Callable[[Any], Any] | None = None
    description: str | None = None
    examples: Sequence[object] | None = None

    def given(self, *names: str) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        bounds = self.given("ge", "le", "min_length", "max_length", "allow_inf_nan", "tz_constraint")
        value = {**handler(source), **bounds}
        if self.check is None:
            return value
        return {"type": "function-after", "function": {"type": "no-info", "function": self.check}, "schema": value}

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        return {**handler(schema), **self.given("description", "examples")}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Printable(Checked):
    """Text without control characters."""

    check: Callable[[Any], Any] | None = printable


class Milliseconds:
    """A time as JSON has it: in UTC, with milliseconds."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        text = {"type": "function-plain", "function": iso, "return_schema": {"type": "str"}}
        return {**handler(source), "serialization": text}

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        return {**handler(schema), "format": "date-time", "examples": ["2026-11-15T19:10:13.982Z"]}


def iso(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def property_key(key: str) -> str:
    """A key that a request may set: nothing that loads code, configures Spark, or is a secret."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key[:80]!a} is not a property key: letters, digits, dots, hyphens; at most 250")
    if key.lower().startswith(_FOREIGN):
        raise ValueError(
            f"{key}: settings of Spark and of storage cannot be set by a request: use the service's configuration"
        )
    if _LOADING.search(key):
        raise ValueError(f"{key}: a request cannot set options that load code")
    if _SECRET.search(key):
        raise ValueError(f"{key}: a request cannot set secrets: use the service's configuration")
    return key


def safe_properties(properties: Mapping[str, str]) -> Mapping[str, str]:
    provider = properties.get("hoodie.write.lock.provider", _LOCK_PROVIDERS)
    if not provider.startswith(_LOCK_PROVIDERS):
        raise ValueError(f"hoodie.write.lock.provider: only Hudi's own lock providers ({_LOCK_PROVIDERS}*) are loaded")
    return properties


Name = Annotated[str, Printable(max_length=LONGEST_NAME)]
GivenName = Annotated[str, Printable(min_length=1, max_length=LONGEST_NAME)]
LongName = Annotated[str, Printable(max_length=LONGEST)]
ActionName = Annotated[str, Printable(max_length=64, examples=["compaction"])]
Location = Annotated[str, Printable(min_length=1, max_length=LONGEST, examples=["/data/trips", "s3://lake/trips"])]
Cursor = Annotated[str, Printable(max_length=500)]
Priority = Annotated[int, Checked(ge=-1_000_000, le=1_000_000, description="The higher, the sooner.")]
Seconds = Annotated[float, Checked(ge=1, le=30 * 86400, allow_inf_nan=False, examples=[600])]
PropertyKey = Annotated[str, Checked(check=property_key)]
PropertyValue = Annotated[str, Printable(max_length=2000)]
Properties = Annotated[dict[PropertyKey, PropertyValue], Checked(max_length=100, check=safe_properties)]
GivenTime = Annotated[datetime, Checked(tz_constraint="aware")]  # in a request
Moment = Annotated[datetime, Milliseconds()]  # in an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer, or a part of one. ``raw``: in the client, the document as the service sent it.

    Pydantic leaves out a field that nobody can give and that has no default, so that ``raw`` is not part of the API.
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
    return shape(**{name: more[name] if name in more else attribute(name, sources) for name in names_of(shape)})


@cache
def names_of(shape: Any) -> Sequence[str]:
    return [one.name for one in fields(shape) if one.init]


def attribute(name: str, sources: Sequence[object]) -> object:
    for source in reversed(sources):
        if hasattr(source, name):
            return getattr(source, name)
    raise LookupError(f"nothing has a value for the field {name}")


def values_of(request: Any) -> dict[str, Any]:
    """What a request was given, by the names of its fields."""
    return {one.name: getattr(request, one.name) for one in fields(request) if one.init}


def given_values(request: Any) -> dict[str, Any]:
    """Without those that have their default: a service that does not know a newer field takes the rest."""
    made = {
        one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in fields(request)
    }
    return {name: value for name, value in values_of(request).items() if value != made[name]}


def seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def describe_faults(faults: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with a request, from what pydantic found; the same words in every interface."""
    return "; ".join(describe_fault(fault) for fault in faults[:MOST_FAULTS])


def describe_fault(fault: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in fault.get("loc", ()))[:200]
    words = FAULTS.get(str(fault.get("type")), str(fault.get("msg", "not understood")))
    return f"{where}: {words.removeprefix('Value error, ')[:500]}"
