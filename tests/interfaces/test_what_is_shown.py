# SPDX-License-Identifier: Apache-2.0
"""What is stored about the attempts of an operation is shown by every interface."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakehand.api.operations import OperationRequest
from lakehand.cli import app
from lakehand.client import LakehandClient
from lakehand.domain.operations import Attempt, ExternalId, Handle, InstanceId, OperationId, Status
from lakehand.domain.tables import TableSpec
from lakehand.rest import ApiContext
from lakehand.rpc.generated import operations_pb2
from lakehand.store import SqlStore, open_store
from tests.rest.parts import ACTIONS, HUDI, LOCATION, context_over, serving
from tests.rpc.parts import rpc_context, rpc_serving
from tests.web.conftest import pages_over

ID, URL = "application_1763150000000_0042", "https://history:18080/history/application_1763150000000_0042?a=1&b=2"
HERE = InstanceId("here")


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    opened = open_store(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'lakehand.db')}")
    yield opened
    opened.close()


@pytest.fixture
def context(store: SqlStore) -> ApiContext:
    return context_over(store)


@pytest.fixture
def operation(context: ApiContext, store: SqlStore) -> OperationId:
    """One that runs, in its second attempt; nobody knows what the first one was called."""
    table = context.services.tables.register(TableSpec(location=LOCATION, format=HUDI, action_types=ACTIONS))[0]
    added = context.services.operations.add(table, OperationRequest(action="compaction"), by="ann")[0]
    now = store.clock.now()
    claimed = store.operations.claim(added, holder=HERE, now=now, time_to_live=timedelta(minutes=1))
    assert claimed is not None
    sent = replace(claimed.moved_to(Status.SUBMITTED, at=now, reason="sent"), handle=Handle("h-2"), run_times=2)
    for number in (1, 2):
        attempt = Attempt(
            operation=added.id,
            number=number,
            handle=Handle(f"h-{number}"),
            engine="spark",
            instance=HERE,
            started_at=now,
        )
        store.operations.save(sent, now=now, attempt=attempt)
    running = sent.moved_to(Status.RUNNING, at=now, reason="runs")
    store.operations.save(running, now=now, external=ExternalId(id=ID, url=URL))
    return added.id


def test_what_an_attempt_is_called_where_it_runs_is_shown_with_the_page_about_it(
    context: ApiContext, store: SqlStore, operation: OperationId
) -> None:
    pages = pages_over(context, store)
    with serving(context, pages=pages) as http, rpc_serving(rpc_context(context)) as rpc:
        url = str(http.base_url).rstrip("/")
        by_rest = http.get(f"/api/v1/operations/{operation}").json()["attempt_list"]
        with LakehandClient(url) as client:
            by_client = client.operations.get(operation).attempt_list
        request = operations_pb2.GetOperationRequest(id=operation)
        by_rpc = rpc.operations.GetOperation(request).detail.attempts
        by_command = CliRunner().invoke(
            app, ["operations", "show", str(operation), "--url", url], env={"COLUMNS": "200", "TERM": "dumb"}
        )
        page = http.get(f"/operations/{operation}").text
        pages.live.feed.close(timeout=10)

    assert [(one["external_id"], one["external_url"]) for one in by_rest] == [(None, None), (ID, URL)]
    assert [(one.external_id, one.external_url) for one in by_client] == [(None, None), (ID, URL)]
    assert [(one.HasField("external_id"), one.external_id, one.external_url) for one in by_rpc] == [
        (False, "", ""), (True, ID, URL)
    ]  # fmt: skip
    [line] = [one for one in by_command.output.splitlines() if ID in one]
    assert line.split() == ["attempt", "2", "ran", "as", ID, URL]
    assert f'<a href="{URL.replace("&", "&amp;")}" rel="noreferrer">{ID}</a>' in page
    assert page.count(">–</td>") >= 1
