# SPDX-License-Identifier: Apache-2.0
"""CloudEvents 1.0: our own type, and those of catalogs. The library checks the attributes."""

from collections.abc import Mapping
from typing import Annotated, Any

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.http import HTTPMessage, from_binary
from cloudevents.core.exceptions import BaseCloudEventException
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lakehand.domain.commits import CommitEvent
from lakehand.inputs.fields import Location, Name
from lakehand.rest.commits import catalogs
from lakehand.rest.commits.items import Defaults, Document, Item, Unrecognised, ignored, key_of, quote

COMMITTED = "dev.lakehand.table.committed"
OTHER_TYPE = "the type of the CloudEvent is not known here"
FORMAT = JSONFormat()
PREFIX = "ce-"
TIME: TypeAdapter[AwareDatetime] = TypeAdapter(AwareDatetime)
FAULTS = (BaseCloudEventException, ValueError, TypeError, ArithmeticError, LookupError)
Version = Annotated[str | int, Field(union_mode="left_to_right")]
Partition = Annotated[str, Field(max_length=1024)]
PARTITIONS = "Which partitions changed, each as column=value/column=value: where decisions look first."
Numbers = Annotated[dict[Name, float], Field(max_length=100, description="Files, bytes, rows that were added.")]
EXAMPLE: dict[str, Any] = {
    "specversion": "1.0",
    "type": COMMITTED,
    "source": "orders-job",
    "id": "42",
    "data": {"location": "s3://lake/sales/orders", "format": "delta", "version": 42, "partitions": ["day=2026-11-15"]},
}


class CommitData(BaseModel):
    """The data of a `dev.lakehand.table.committed` event: a table by location, or by catalog and name."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE["data"]]})

    location: Location | None = None
    catalog: Name = ""
    table: Name = Field(default="", description="The name in the catalog, with its namespace: sales.orders.")
    format: Name = Field(default="", description="Needed only to register an unknown table.")
    version: Version = Field(default="", description="Instant, snapshot or version of the commit.")
    partitions: Annotated[tuple[Partition, ...], Field(max_length=1000, description=PARTITIONS)] = ()
    numbers: Numbers | None = None


def is_structured(document: Document) -> bool:
    return "specversion" in document


def read_structured(document: Document, defaults: Defaults) -> Item:
    """Lakekeeper's attributes have hyphens, which the specification does not allow: here and below they are dropped."""
    attributes = {name.replace("-", ""): value for name, value in document.items()}
    data = attributes.pop("data", None)
    attributes.pop("data_base64", None)  # no JSON: no event of a type that is known here has it
    try:
        if "time" in attributes:
            attributes["time"] = TIME.validate_python(attributes["time"])
        require_id(attributes)
        event = CloudEvent(attributes, data)
    except FAULTS as error:
        raise Unrecognised(f"this is no CloudEvent 1.0: {str(error)[:500]}") from error
    return read_event(event, defaults)


def is_binary(headers: Mapping[str, str]) -> bool:
    return f"{PREFIX}specversion" in headers


def read_binary(headers: Mapping[str, str], body: bytes, defaults: Defaults) -> Item:
    own = {name[len(PREFIX) :].replace("-", ""): text for name, text in headers.items() if name.startswith(PREFIX)}
    try:
        require_id(own)
        named = {f"{PREFIX}{name}": text for name, text in own.items()}
        event = from_binary(HTTPMessage({**named, "content-type": "application/json"}, body), FORMAT, CloudEvent)
    except (*FAULTS, RecursionError) as error:
        raise Unrecognised(f"this is no CloudEvent 1.0: {str(error)[:500]}") from error
    return read_event(event, defaults)


def require_id(attributes: Mapping[str, Any]) -> None:
    """The library would make one up."""
    if not attributes.get("id"):
        raise ValueError("the attribute 'id' is missing")


def read_event(event: BaseCloudEvent, defaults: Defaults) -> Item:
    if catalogs.is_lakekeeper(event.get_source()):
        return catalogs.read_lakekeeper(event.get_attributes(), defaults)
    if event.get_type() != COMMITTED:
        return ignored(OTHER_TYPE, event.get_type()[:80])
    try:
        data = CommitData.model_validate(event.get_data())
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))[:80]
        raise Unrecognised(f"the data of the event is wrong: {quote(where)}: {fault['msg'][:300]}") from error
    db_name, _, table_name = data.table.rpartition(".")
    return CommitEvent(
        key=key_of(event.get_source(), event.get_id()),
        location=data.location or "",
        catalog=data.catalog or defaults.catalog,
        db_name=db_name,
        table_name=table_name,
        format=data.format,
        partitions=data.partitions,
        register=defaults.register,
    )
