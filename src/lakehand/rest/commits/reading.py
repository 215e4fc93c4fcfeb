# SPDX-License-Identifier: Apache-2.0
"""Parses a request into events: recognises documents by their shape, and opens the envelopes around them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakehand.domain.errors import Invalid
from lakehand.domain.notifications import CommitEvent
from lakehand.rest.commits.events import (
    MOST_ENVELOPES,
    MOST_EVENTS,
    S3_TEST,
    Defaults,
    Document,
    Item,
    Unrecognised,
    ignored,
    is_binary,
    is_bridged,
    is_polaris,
    is_record,
    is_structured,
    is_test,
    read_binary,
    read_bridged,
    read_polaris,
    read_record,
    read_structured,
    refused,
)

LISTS = ("Records", "Messages")  # of S3, SQS and SNS; of SQS as its API returns them
BODIES = ("body", "Body", "Message")  # texts with JSON in them: SQS in both spellings, SNS
CONFIRMATIONS = frozenset({"SubscriptionConfirmation", "UnsubscribeConfirmation"})
CONFIRM = "SNS asks for a confirmation: no link is followed here; open its SubscribeURL yourself"


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
        if len(found) > MOST_EVENTS:
            raise Invalid(f"the request has more than {MOST_EVENTS} events: send them in several requests")
    return found


def parsed(body: bytes | str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unrecognised(f"this is no JSON: {str(error)[:200]}") from error


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
