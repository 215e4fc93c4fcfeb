# SPDX-License-Identifier: Apache-2.0
"""Notifications that an S3 server (moto) sends of real tables: every table is found, and data files are ignored."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from lakehand.core.intake.commit_events import NOT_A_COMMIT, CommitIntake
from lakehand.core.plugins.registry import Plugins
from lakehand.domain.actions import Action
from lakehand.domain.tables import TableSpec
from lakehand.formats.delta.table import DeltaFormat
from lakehand.formats.hudi.table import HudiFormat
from lakehand.formats.iceberg.table import IcebergFormat
from lakehand.formats.lance.table import LanceFormat
from lakehand.formats.paimon.table import PaimonFormat
from lakehand.rest import ApiContext
from lakehand.rest.commits.events import S3_TEST
from lakehand.spi import TableFormat
from lakehand.store import SqlStore
from tests import small_tables
from tests.formats.paimon.handmade import HandMade, small
from tests.rest.parts import context_over
from tests.s3_server import KEY, REGION, Server, s3_server

pytestmark = pytest.mark.server

ClientOf = Callable[[ApiContext], httpx.Client]
PATH = "/api/v1/commits"
QUEUE = f"arn:aws:sqs:{REGION}:123456789012:commits"
CREATED = ["s3:ObjectCreated:*"]
COMMITS = 3
FORMATS: list[TableFormat] = [DeltaFormat(), HudiFormat(), IcebergFormat(), LanceFormat(), PaimonFormat()]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table of each format, by the formats' own libraries; Hudi's are captured, Paimon's made by hand."""
    folder = tmp_path_factory.mktemp("tables")
    catalog = small_tables.SqlCatalog(folder / "catalog")
    iceberg = catalog.create("orders", commits=COMMITS)
    catalog.close()
    paimon = HandMade(folder / "paimon")
    for number in range(COMMITS):
        paimon.commit(small(2, f"data{number}"))
    return {
        "delta": small_tables.delta(folder / "delta", COMMITS),
        "hudi": small_tables.hudi(folder / "hudi"),
        "hudi_v6": small_tables.hudi(folder / "hudi_v6", "orders_v6"),
        "iceberg": iceberg,
        "lance": small_tables.lance(folder / "lance", COMMITS),
        "paimon": paimon.root,
    }


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with s3_server() as server:
        yield server


def client_for(server: Server, name: str) -> Any:
    return boto3.client(
        name, endpoint_url=server.endpoint, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=KEY
    )


@pytest.fixture
def client(store: SqlStore, client_of: ClientOf, tables: dict[str, Path]) -> httpx.Client:
    """A service with the real formats, that serves all these tables."""
    for name in tables:
        spec = TableSpec(
            location=f"s3://lake/sales/{name}", format=format_of(name), table_name=name,
            action_types=frozenset({Action("compaction")}),
        )  # fmt: skip
        store.tables.add(spec, now=store.clock.now())
    context = context_over(store)
    plugins = Plugins(formats={one.format: one for one in FORMATS}, factories={}, engines={})
    commits = CommitIntake(intake=context.intake, plugins=plugins, sync_catalogs=lambda: None)
    return client_of(replace(context, commits=commits))


def format_of(name: str) -> Any:
    return next(one.format for one in FORMATS if name.startswith(one.format))


def bodies_of(sqs: Any, queue: str) -> Iterator[dict[str, Any]]:
    """What the queue holds, as its API returns it."""
    while True:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        if not answer.get("Messages"):
            return
        yield {"Messages": answer["Messages"]}
        for message in answer["Messages"]:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def test_notifications_in_a_queue_name_every_table_and_its_data_files_are_ignored(
    server: Server, client: httpx.Client, tables: dict[str, Path]
) -> None:
    sqs = client_for(server, "sqs")
    queue = sqs.create_queue(QueueName="commits")["QueueUrl"]
    server.make_bucket("lake")
    server.client.put_bucket_notification_configuration(
        Bucket="lake",
        NotificationConfiguration={"QueueConfigurations": [{"QueueArn": QUEUE, "Events": CREATED}]},
    )
    found: dict[str, tuple[int, int]] = {}
    reasons: set[str] = set()
    for name, folder in tables.items():
        server.put_folder(folder, "lake", f"sales/{name}")
        answers = [client.post(PATH, json=body).json() for body in bodies_of(sqs, queue)]
        reasons |= {one["reason"] for answer in answers for one in answer["reasons"]}
        sums = {key: sum(answer[key] for answer in answers) for key in ("stored", "ignored", "refused")}
        assert sums["refused"] == 0
        assert sums["stored"] + sums["ignored"] >= sum(file.is_file() for file in folder.rglob("*"))
        found[name] = sums["stored"], sums["ignored"]

    assert {name: stored for name, (stored, _) in found.items() if not name.startswith("hudi")} == {
        "delta": COMMITS, "iceberg": COMMITS + 1, "lance": COMMITS, "paimon": COMMITS,
    }  # fmt: skip
    assert min(found["hudi"][0], found["hudi_v6"][0]) >= COMMITS
    assert min(ignored for _, ignored in found.values()) >= COMMITS
    assert reasons == {NOT_A_COMMIT, S3_TEST}
    assert all(table["notified_at"] for table in client.get("/api/v1/tables").json()["items"])


def test_notifications_of_a_topic_in_a_queue_are_found_in_both_envelopes(server: Server, client: httpx.Client) -> None:
    sqs, sns = client_for(server, "sqs"), client_for(server, "sns")
    queue = sqs.create_queue(QueueName="of-topic")["QueueUrl"]
    topic = sns.create_topic(Name="commits")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=QUEUE.replace(":commits", ":of-topic"))
    server.make_bucket("lake")
    server.client.put_bucket_notification_configuration(
        Bucket="lake", NotificationConfiguration={"TopicConfigurations": [{"TopicArn": topic, "Events": CREATED}]}
    )

    server.put("lake", "sales/delta/_delta_log/00000000000000000009.json", b"{}")
    answers = [client.post(PATH, json=body).json() for body in bodies_of(sqs, queue)]

    assert (sum(one["stored"] for one in answers), sum(one["ignored"] for one in answers)) == (1, 1)
