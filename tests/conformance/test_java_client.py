# SPDX-License-Identifier: Apache-2.0
"""What Hudi's client 1.2.1 sends with the printed options."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehand.writer import COPY_ON_WRITE, file_lock, hudi_options
from tests import hudi_client
from tests.conformance.writers import JAVA

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:compaction of a merge-on-read table without index"),
]
COMMITS = 6


@pytest.fixture
def recorder(pytestconfig: pytest.Config) -> Iterator[hudi_client.Recorder]:
    hudi_client.require(pytestconfig)
    with hudi_client.recording() as recorder:
        yield recorder


def run(path: Path, options: dict[str, str], **settings: str) -> hudi_client.WriterRun:
    ended = hudi_client.run(path, commits=COMMITS, options=options, **settings)  # type: ignore[arg-type]
    assert ended.errors == ()
    return ended


def test_each_wish_for_an_operation_arrives_as_it_was_made(recorder: hudi_client.Recorder, tmp_path: Path) -> None:
    options = hudi_options(
        recorder.uri, hudi_version=JAVA, owner="ana", queue="night", resource="2g:4g", parallelism=7,
        engine="spark-submit", extra_params={"hoodie.parquet.max.file.size": "1000", "hoodie.cleaner.parallelism": "2"},
    )  # fmt: skip
    run(tmp_path / "trips", options)

    sent = recorder.sent_to("compact")[-1].parameters
    wanted = {
        "username": "ana", "queue": "night", "resource": "2g:4g", "parallelism": "7",
        "execution_engine": "spark-submit",
        "extra_params": "hoodie.parquet.max.file.size=1000;hoodie.cleaner.parallelism=2",
    }  # fmt: skip
    assert {key: sent[key] for key in wanted} == wanted


def test_a_pending_clustering_is_sent_with_each_commit_and_stays_for_the_service(
    recorder: hudi_client.Recorder, tmp_path: Path
) -> None:
    lock = file_lock(str(tmp_path / "trips" / ".hoodie" / "locks"))
    options = hudi_options(
        recorder.uri, hudi_version=JAVA, actions=["clustering"], table_type=COPY_ON_WRITE, lock=lock, max_commits=2
    )
    ended = run(tmp_path / "trips", options, table_type=COPY_ON_WRITE)

    sent = [request.parameters["instant"] for request in recorder.sent_to("cluster")]
    first = ended.pending_clusterings[0]
    assert len(sent) == COMMITS
    assert all(first in instants.split(",") for instants in sent[1:]), "a lost request is repeated"


def test_with_schedule_inline_a_pending_clustering_is_sent_once(recorder: hudi_client.Recorder, tmp_path: Path) -> None:
    """Why the printed options have `hoodie.clustering.inline`."""
    lock = file_lock(str(tmp_path / "trips" / ".hoodie" / "locks"))
    printed = hudi_options(
        recorder.uri, hudi_version=JAVA, actions=["clustering"], table_type=COPY_ON_WRITE, lock=lock, max_commits=2
    )
    once = {
        "hoodie.clustering.inline": "false",
        "hoodie.clustering.schedule.inline": "true",
        "hoodie.clustering.async.max.commits": "2",
    }
    ended = run(tmp_path / "trips", {**printed, **once}, table_type=COPY_ON_WRITE)

    [plan] = ended.pending_clusterings
    sent = [request.parameters["instant"] for request in recorder.sent_to("cluster")]
    assert [instants for instants in sent if instants] == [plan]


def test_a_clean_that_is_left_to_the_client_is_run_by_the_writer_at_its_next_commit(
    recorder: hudi_client.Recorder, tmp_path: Path
) -> None:
    """Why the printed options turn the writer's cleans off. If this fails with a newer client, leave cleans to it."""
    printed = hudi_options(recorder.uri, hudi_version=JAVA, actions=["compaction"], table_type=COPY_ON_WRITE)
    left = {
        "hoodie.table.service.manager.actions": "compaction,clean",
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
    }
    run(tmp_path / "trips", {**printed, **left}, table_type=COPY_ON_WRITE)

    sent = {request.parameters["instant"] for request in recorder.sent_to("clean")} - {""}
    timeline = tmp_path / "trips" / ".hoodie" / "timeline"
    by_the_writer = {file.name.partition("_")[0] for file in timeline.glob("*_*.clean")}
    assert sent & by_the_writer


@pytest.mark.parametrize("actions", [["compaction"], ["compaction", "clustering"]])
def test_a_writer_goes_on_while_the_service_is_away(
    actions: list[str], recorder: hudi_client.Recorder, tmp_path: Path
) -> None:
    with hudi_client.recording() as gone:
        pass
    lock = file_lock(str(tmp_path / "trips" / ".hoodie" / "locks"))
    ended = run(tmp_path / "trips", hudi_options(gone.uri, hudi_version=JAVA, actions=actions, lock=lock))

    assert [commit.ok for commit in ended.commits] == [True] * COMMITS
    assert recorder.requests == []
