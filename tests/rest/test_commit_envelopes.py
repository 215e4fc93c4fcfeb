# SPDX-License-Identifier: Apache-2.0
"""Events in the envelopes that senders put around them. Written after their documents and sources, not recorded."""

import json
from typing import Any

import pytest

from lakehand.domain.errors import Invalid
from lakehand.domain.notifications import CommitEvent, CommitResult, Outcome
from lakehand.rest.commits.events import CONFIRM, NOT_CREATED, OTHER_EVENT, S3_TEST, Defaults, Item, read_request

OBJECT = "s3://lake/a b/day=1/_delta_log/00000000000000000001.json"
RECORD: dict[str, Any] = {
    "eventVersion": "2.1", "eventSource": "aws:s3", "eventName": "ObjectCreated:Put",
    "s3": {
        "bucket": {"name": "lake", "arn": "arn:aws:s3:::lake"},
        "object": {"key": "a+b/day%3D1/_delta_log/00000000000000000001.json", "sequencer": "0055AED6DCD90281E5"},
    },
}  # fmt: skip
BRIDGED: dict[str, Any] = {
    "version": "0", "id": "17793124-05d4-b198-2fde-7ededc63b103", "detail-type": "Object Created", "source": "aws.s3",
    "detail": {
        "bucket": {"name": "lake"},
        "object": {"key": "a b/day=1/_delta_log/00000000000000000001.json", "sequencer": "0055AED6DCD90281E5"},
    },
}  # fmt: skip
NOTIFICATION = {"Records": [RECORD]}


def sns(document: Any) -> dict[str, Any]:
    return {"Type": "Notification", "MessageId": "22b80b92", "TopicArn": "arn:aws:sns:x:1:t", "Message": text(document)}


def text(document: Any) -> str:
    return json.dumps(document)


def read(document: Any, defaults: Defaults | None = None, **headers: str) -> list[Item]:
    return read_request(headers, text(document).encode(), defaults or Defaults())


SHAPES: dict[str, Any] = {
    "S3": NOTIFICATION,
    "MinIO": {"EventName": "s3:ObjectCreated:Put", "Records": [{**RECORD, "eventName": "s3:ObjectCreated:Put"}]},
    "one record": RECORD,
    "EventBridge": BRIDGED,
    "a batch of EventBridge": [BRIDGED],
    "SNS": sns(NOTIFICATION),
    "SNS of EventBridge": sns(BRIDGED),
    "a message of SQS": {"messageId": "1", "body": text(NOTIFICATION)},
    "messages as the API of SQS returns them": {"Messages": [{"MessageId": "1", "Body": text(NOTIFICATION)}]},
    "records of SQS": {"Records": [{"eventSource": "aws:sqs", "messageId": "1", "body": text(sns(NOTIFICATION))}]},
    "records of SNS": {"Records": [{"EventSource": "aws:sns", "Sns": sns(NOTIFICATION)}]},
    "a pipe of SQS": [{"messageId": "1", "body": text(sns(BRIDGED))}],
}  # fmt: skip


@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_written_object_is_found_in_every_envelope(shape: str) -> None:
    [found] = read(SHAPES[shape])

    assert isinstance(found, CommitEvent)
    assert found.object == OBJECT


def test_one_write_has_one_key_in_all_envelopes_and_another_write_another() -> None:
    keys = {found.key for shape in SHAPES.values() for found in read(shape) if isinstance(found, CommitEvent)}
    again = {**RECORD, "s3": {**RECORD["s3"], "object": {**RECORD["s3"]["object"], "sequencer": "0055AED6DCD90281E6"}}}
    [later] = read(again)

    assert isinstance(later, CommitEvent)
    assert len(keys) == 1
    assert later.key not in keys


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "lake"}, S3_TEST),
        (sns({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "lake"}), S3_TEST),
        ({"Type": "SubscriptionConfirmation", "SubscribeURL": "http://127.0.0.1:1/", "TopicArn": "t"}, CONFIRM),
        ({"Type": "UnsubscribeConfirmation", "SubscribeURL": "http://127.0.0.1:1/"}, CONFIRM),
        ({**RECORD, "eventName": "ObjectRemoved:Delete"}, NOT_CREATED),
        ({**BRIDGED, "detail-type": "Object Deleted"}, NOT_CREATED),
    ],
)
def test_what_is_no_commit_is_ignored_and_no_link_is_followed(document: Any, reason: str) -> None:
    [found] = read(document)

    assert isinstance(found, CommitResult)
    assert (found.outcome, found.reason) == (Outcome.IGNORED, reason)


@pytest.mark.parametrize("document", [{"s3": {}}, {"s3": {"bucket": 7, "object": []}}])
def test_a_notification_without_bucket_or_key_is_refused(document: Any) -> None:
    [found] = read({**RECORD, **document})

    assert isinstance(found, CommitResult)
    assert found.outcome is Outcome.REFUSED


def test_what_an_envelope_holds_must_be_json() -> None:
    with pytest.raises(Invalid, match="not JSON"):
        read({"messageId": "1", "body": "hello"})


# Catalogs

LAKEKEEPER: dict[str, Any] = {
    "specversion": "1.0", "id": "0199", "type": "updateTable", "source": "uri:iceberg-catalog-service:host-1",
    "datacontenttype": "application/json", "tabular-type": "table", "tabular-id": "8a1b", "warehouse-id": "77c0",
    "name": "orders", "namespace": "sales\x1feu", "prefix": "", "num-events": 1, "sequence-number": 0, "trace-id": "1",
    "actor": '{"type":"anonymous"}', "data": {"requirements": [], "updates": []},
}  # fmt: skip
POLARIS: dict[str, Any] = {
    "event_type": "AFTER_UPDATE_TABLE", "event_id": "7d3c", "timestamp": "2026-11-15T12:00:00Z", "table_name": "orders",
    "namespace": ["sales", "eu"], "catalog_name": "lake", "realm_id": "POLARIS", "principal": "root",
}  # fmt: skip


def test_an_event_of_lakekeeper_names_the_table_of_the_catalog_in_the_address() -> None:
    [found] = read(LAKEKEEPER, Defaults(catalog="lake"))

    assert isinstance(found, CommitEvent)
    assert (found.catalog, found.db_name, found.table_name, bool(found.key)) == ("lake", "sales.eu", "orders", True)


def test_an_event_of_lakekeeper_may_be_binary_as_it_is_in_kafka() -> None:
    headers = {
        f"ce-{name}": str(value) for name, value in LAKEKEEPER.items() if name not in ("data", "datacontenttype")
    }
    [found] = read(LAKEKEEPER["data"], Defaults(catalog="lake"), **headers)

    assert found == read(LAKEKEEPER, Defaults(catalog="lake"))[0]


def test_an_event_of_polaris_names_catalog_and_table() -> None:
    [found] = read(POLARIS)

    assert isinstance(found, CommitEvent)
    assert (found.catalog, found.db_name, found.table_name, bool(found.key)) == ("lake", "sales.eu", "orders", True)


@pytest.mark.parametrize(
    "document",
    [
        {**LAKEKEEPER, "type": "dropTable"},
        {**LAKEKEEPER, "type": "updateView"},
        {**POLARIS, "event_type": "BEFORE_UPDATE_TABLE"},
        {**POLARIS, "event_type": "AFTER_LOAD_TABLE"},
    ],
)
def test_other_events_of_catalogs_are_ignored(document: Any) -> None:
    [found] = read(document)

    assert isinstance(found, CommitResult)
    assert (found.outcome, found.reason) == (Outcome.IGNORED, OTHER_EVENT)
