# SPDX-License-Identifier: Apache-2.0
"""Parses a request into commit events: CloudEvents of our own, notifications of S3, events of Iceberg catalogs.

Documents are recognised by their shape, and the envelopes around them are opened.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.http import HTTPMessage, from_binary
from cloudevents.core.exceptions import BaseCloudEventException
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from pydantic import AwareDatetime, TypeAdapter, ValidationError

from lakehand.api.writers import COMMIT, MOST_COMMITS, CommitData
from lakehand.core.intake.commit_events import event_of, key_of
from lakehand.domain.errors import Invalid
from lakehand.domain.notifications import CommitEvent, CommitResult, Outcome

Document = Mapping[str, Any]
Item = CommitEvent | CommitResult
MOST_ENVELOPES = 5  # around an event: SQS in a batch, SNS in it, EventBridge in that, ...
LONGEST_NAME = 250
SHOWN = 80  # characters of a wrong value that are shown
CREATED = ("ObjectCreated:", "s3:ObjectCreated:")
BRIDGED = "Object Created"
NOT_CREATED = "only written objects are commits"
S3_TEST = "a test event of S3"
OBJECT_NAMELESS = "the notification names no bucket or no key"
LAKEKEEPER = "uri:iceberg-catalog-service:"  # the beginning of its source
LAKEKEEPER_COMMITS = frozenset({"updateTable", "createTable", "registerTable"})
POLARIS_COMMITS = frozenset({"AFTER_UPDATE_TABLE", "AFTER_CREATE_TABLE", "AFTER_REGISTER_TABLE"})
SEPARATOR = "\x1f"  # between the levels of a namespace, where Lakekeeper writes it as in an address
OTHER_EVENT = "the event of the catalog is not a commit"
TABLE_NAMELESS = "the event of the catalog names no table"
COMMITTED = "dev.lakehand.table.committed"
OTHER_TYPE = "the type of the CloudEvent is not known here"
FORMAT = JSONFormat()
PREFIX = "ce-"
TIME: TypeAdapter[AwareDatetime] = TypeAdapter(AwareDatetime)
FAULTS = (BaseCloudEventException, ValueError, TypeError, ArithmeticError, LookupError)
DATA: TypeAdapter[CommitData] = TypeAdapter(CommitData)
EXAMPLE: dict[str, Any] = {
    "specversion": "1.0",
    "type": COMMITTED,
    "source": "orders-job",
    "id": "42",
    "data": COMMIT,
}
LISTS = ("Records", "Messages")  # of S3, SQS and SNS; of SQS as its API returns them
BODIES = ("body", "Body", "Message")  # texts with JSON in them: SQS in both spellings, SNS
CONFIRMATIONS = frozenset({"SubscriptionConfirmation", "UnsubscribeConfirmation"})
CONFIRM = "SNS asks for a confirmation: no link is followed here; open its SubscribeURL yourself"


class Unrecognised(Invalid):
    """The document is not an event."""


class Defaults(NamedTuple):
    """What the query of the request says for events that do not say it themselves."""

    catalog: str = ""
    register: frozenset[Any] = frozenset()


def text_of(value: object) -> str:
    """A text that can be stored; empty for everything else."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def part_of(document: Document, *keys: str) -> Document:
    """The object at the end of a path of keys; empty if there is none."""
    for key in keys:
        found = document.get(key)
        document = found if isinstance(found, dict) else {}
    return document


def ignored(reason: str, example: str = "") -> CommitResult:
    return CommitResult(outcome=Outcome.IGNORED, reason=reason, example=example)


def refused(reason: str, example: str = "") -> CommitResult:
    return CommitResult(outcome=Outcome.REFUSED, reason=reason, example=example)


def quote(text: str) -> str:
    return ascii(text[:SHOWN])


def is_test(document: Document) -> bool:
    """What S3 sends once when a notification is configured."""
    return document.get("Event") == "s3:TestEvent"


def is_record(document: Document) -> bool:
    return isinstance(document.get("s3"), dict)


def read_record(record: Document, defaults: Defaults) -> Item:
    """Keys are encoded as in a form here: ``day%3D1/a+b``."""
    if not text_of(record.get("eventName")).startswith(CREATED):
        return ignored(NOT_CREATED)
    found = part_of(record, "s3", "object")
    key = unquote_plus(text_of(found.get("key")))
    return written(text_of(part_of(record, "s3", "bucket").get("name")), key, found, defaults)


def is_bridged(document: Document) -> bool:
    return document.get("source") == "aws.s3" and isinstance(document.get("detail"), dict)


def read_bridged(document: Document, defaults: Defaults) -> Item:
    """Keys are plain here."""
    if document.get("detail-type") != BRIDGED:
        return ignored(NOT_CREATED)
    found = part_of(document, "detail", "object")
    bucket = text_of(part_of(document, "detail", "bucket").get("name"))
    return written(bucket, text_of(found.get("key")), found, defaults)


def written(bucket: str, key: str, found: Document, defaults: Defaults) -> Item:
    """The sequencer tells two writes of one key apart; without one, the event counts as new each time."""
    if not bucket or not key:
        return refused(OBJECT_NAMELESS)
    place = f"s3://{bucket}/{key}"
    which = text_of(found.get("sequencer")) or text_of(found.get("versionId") or found.get("version-id"))
    return CommitEvent(
        key=key_of(place, which) if which else "", object=place, catalog=defaults.catalog, register=defaults.register
    )


def is_lakekeeper(source: str) -> bool:
    return source.startswith(LAKEKEEPER)


def read_lakekeeper(attributes: Mapping[str, Any], defaults: Defaults) -> Item:
    """It names the table by namespace and name, and its warehouse by an id that only Lakekeeper knows."""
    if attributes["type"] not in LAKEKEEPER_COMMITS:
        return ignored(OTHER_EVENT, text_of(attributes["type"])[:80])
    namespace = text_of(attributes.get("namespace")).replace(SEPARATOR, ".")
    key = key_of(attributes["source"], attributes["id"])
    return named(key, defaults.catalog, namespace, text_of(attributes.get("name")), defaults)


def is_polaris(document: Document) -> bool:
    return isinstance(document.get("event_type"), str) and "realm_id" in document


def read_polaris(document: Document, defaults: Defaults) -> Item:
    """As its listener for Kafka writes it. The catalog's name in Polaris need not be its name here."""
    if document["event_type"] not in POLARIS_COMMITS:
        return ignored(OTHER_EVENT, document["event_type"][:80])
    levels = document.get("namespace")
    namespace = ".".join(map(text_of, levels)) if isinstance(levels, list) else text_of(levels)
    which = text_of(document.get("event_id"))
    key = key_of(f"polaris:{text_of(document['realm_id'])}", which) if which else ""
    catalog = defaults.catalog or text_of(document.get("catalog_name"))
    return named(key, catalog, namespace, text_of(document.get("table_name")), defaults)


def named(key: str, catalog: str, namespace: str, name: str, defaults: Defaults) -> Item:
    if not name:
        return refused(TABLE_NAMELESS)
    return CommitEvent(
        key=key, catalog=catalog, db_name=namespace, table_name=name, format="iceberg", register=defaults.register
    )


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
        raise Unrecognised(f"this is not a CloudEvent 1.0: {str(error)[:500]}") from error
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
        raise Unrecognised(f"this is not a CloudEvent 1.0: {str(error)[:500]}") from error
    return read_event(event, defaults)


def require_id(attributes: Mapping[str, Any]) -> None:
    """The library would make one up."""
    if not attributes.get("id"):
        raise ValueError("the attribute 'id' is missing")


def read_event(event: BaseCloudEvent, defaults: Defaults) -> Item:
    if is_lakekeeper(event.get_source()):
        return read_lakekeeper(event.get_attributes(), defaults)
    if event.get_type() != COMMITTED:
        return ignored(OTHER_TYPE, event.get_type()[:80])
    try:
        data = DATA.validate_python(event.get_data())
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))[:80]
        raise Unrecognised(f"the data of the event is wrong: {quote(where)}: {fault['msg'][:300]}") from error
    key = key_of(event.get_source(), event.get_id())
    return event_of(data, key, catalog=defaults.catalog, register=defaults.register)


def read_request(headers: Mapping[str, str], body: bytes, defaults: Defaults) -> list[Item]:
    """All events of a request. Raises Invalid if the request as a whole makes no sense.

    Within a batch, what is wrong with one event is said in its place.
    """
    if is_binary(headers):
        return [read_binary(headers, body, defaults)]
    document = parsed(body)
    found: list[Item] = []
    for item in items_of(document, defaults, 0, is_alone=True):
        found.append(item)
        if len(found) > MOST_COMMITS:
            raise Invalid(f"the request has more than {MOST_COMMITS} events: send them in several requests")
    return found


def parsed(body: bytes | str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unrecognised(f"this is not JSON: {str(error)[:200]}") from error


def items_of(document: Any, defaults: Defaults, depth: int, *, is_alone: bool = False) -> Iterator[Item]:
    """The events in a document. One that stands alone raises; in a batch a wrong one is refused."""
    if depth > MOST_ENVELOPES:
        raise Invalid(f"the events are in more than {MOST_ENVELOPES} envelopes")
    if isinstance(document, list):
        for one in document:
            yield from items_of(one, defaults, depth + 1)
        return
    try:
        yield from opened(document, defaults, depth, is_alone=is_alone)
    except Unrecognised as error:
        if is_alone:
            raise
        yield refused(str(error))


def opened(document: Any, defaults: Defaults, depth: int, *, is_alone: bool) -> Iterator[Item]:
    if not isinstance(document, dict):
        raise Unrecognised("an event is a JSON object")
    item = read_document(document, defaults)
    if item is not None:
        yield item
        return
    for key in LISTS:
        if isinstance(document.get(key), list):
            yield from items_of(document[key], defaults, depth)
            return
    inner = document.get("Sns", document)  # as SNS comes within Records
    text = next((inner[key] for key in BODIES if isinstance(inner, dict) and isinstance(inner.get(key), str)), None)
    if text is None:
        raise Unrecognised("nobody knows this shape: send CloudEvents 1.0, or notifications of S3 as they are")
    yield from items_of(parsed(text), defaults, depth + 1, is_alone=is_alone)


def read_document(document: Document, defaults: Defaults) -> CommitEvent | Item | None:
    """The event that a document is; None if it may be an envelope."""
    if is_structured(document):
        return read_structured(document, defaults)
    if is_record(document):
        return read_record(document, defaults)
    if is_bridged(document):
        return read_bridged(document, defaults)
    if is_test(document):
        return ignored(S3_TEST)
    if document.get("Type") in CONFIRMATIONS:
        return ignored(CONFIRM, str(document.get("TopicArn"))[:250])
    return read_polaris(document, defaults) if is_polaris(document) else None
