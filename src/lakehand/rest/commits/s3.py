# SPDX-License-Identifier: Apache-2.0
"""Notifications of S3, as the store sends them and as EventBridge does. MinIO and others send the first kind, too."""

from urllib.parse import unquote_plus

from lakehand.domain.commits import CommitEvent
from lakehand.rest.commits.items import Defaults, Document, Item, ignored, key_of, part_of, refused, text_of

CREATED = ("ObjectCreated:", "s3:ObjectCreated:")
BRIDGED = "Object Created"
NOT_CREATED = "only written objects are commits"
TEST = "a test event of S3"
NAMELESS = "the notification names no bucket or no key"


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
        return refused(NAMELESS)
    place = f"s3://{bucket}/{key}"
    which = text_of(found.get("sequencer")) or text_of(found.get("versionId") or found.get("version-id"))
    return CommitEvent(
        key=key_of(place, which) if which else "", object=place, catalog=defaults.catalog, register=defaults.register
    )
