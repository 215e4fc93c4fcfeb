# SPDX-License-Identifier: Apache-2.0
"""The options that a Hudi writer is given, per version, action and table type."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lakehand.writer import COPY_ON_WRITE, file_lock, hudi_options, is_ready

pytestmark = pytest.mark.filterwarnings("ignore:compaction of a merge-on-read table without index")
URL = "http://lakehand:9091"
NOBODY = "http://127.0.0.1:9"
EVERYTHING = ("compaction", "clustering", "clean")
LOCK = file_lock("/data/trips/.hoodie/locks")
UPDATES = "hoodie.clustering.updates.strategy"


class Ready(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health/ready" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture(params=[200, 503])
def service(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    handler = type("Answering", (Ready,), {"status": request.param})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", request.param
        server.shutdown()


def test_hudi_1_2_1_asks_the_service_and_repeats_what_was_lost() -> None:
    options = hudi_options(URL, hudi_version="1.2.1", actions=EVERYTHING, lock=LOCK)

    assert options["hoodie.table.service.manager.enabled"] == "true"
    assert options["hoodie.table.service.manager.uris"] == URL
    assert options["hoodie.table.service.manager.actions"] == "compaction,clustering,clean"
    assert options["hoodie.compact.inline"] == "true"
    assert "hoodie.write.commit.callback.on" not in options


def test_an_absent_service_never_fails_a_writer_of_1_2_1() -> None:
    options = hudi_options(URL, hudi_version="1.2.1")

    assert options["hoodie.fail.writes.on.inline.table.service.exception"] == "false"


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.1.1", "1.2.0"])
def test_older_writers_report_each_commit_and_only_plan(version: str) -> None:
    options = hudi_options(URL, hudi_version=version, max_delta_commits=3)

    assert options["hoodie.write.commit.callback.http.url"] == f"{URL}/v1/hoodie/service/callback"
    assert options["hoodie.compact.inline"] == "false"
    assert options["hoodie.compact.schedule.inline"] == "true"
    assert options["hoodie.compact.inline.max.delta.commits"] == "3"
    assert "hoodie.table.service.manager.enabled" not in options


def test_the_token_travels_in_the_query_and_the_key_in_a_header() -> None:
    newer = hudi_options(URL, hudi_version="1.3.0", token="a/b&c")
    older = hudi_options(URL, hudi_version="1.2.0", callback_key="secret")

    assert newer["hoodie.table.service.manager.uris"] == f"{URL}/?token=a%2Fb%26c"
    assert older["hoodie.write.commit.callback.http.api.key"] == "secret"


def test_the_client_names_compaction_on_copy_on_write_because_it_gates_on_it() -> None:
    options = hudi_options(URL, hudi_version="1.2.1", actions=["clustering"], table_type=COPY_ON_WRITE, lock=LOCK)

    assert options["hoodie.table.service.manager.actions"] == "compaction,clustering"
    assert "hoodie.compact.inline" not in options


def test_a_merge_on_read_writer_that_keeps_compaction_uses_the_callback() -> None:
    options = hudi_options(URL, hudi_version="1.2.1", actions=["clustering"], lock=LOCK)

    assert options["hoodie.write.commit.callback.on"] == "true"
    assert options["hoodie.clustering.schedule.inline"] == "true"


def test_owner_queue_and_database_are_passed_on() -> None:
    options = hudi_options(URL, hudi_version="1.2.1", owner="finance", queue="night", database="sales")

    assert options["hoodie.table.service.manager.deploy.username"] == "finance"
    assert options["hoodie.table.service.manager.deploy.queue"] == "night"
    assert options["hoodie.database.name"] == "sales"


def test_clean_of_an_older_writer_needs_the_lock() -> None:
    with pytest.raises(ValueError, match="lock"):
        hudi_options(URL, actions=["compaction", "clean"])

    options = hudi_options(URL, actions=EVERYTHING, lock=LOCK)

    assert options["hoodie.clean.automatic"] == "false"
    assert options["hoodie.write.concurrency.mode"] == "optimistic_concurrency_control"
    assert options["hoodie.clean.failed.writes.policy"] == "LAZY"
    assert options["hoodie.write.lock.filesystem.path"] == "/data/trips/.hoodie/locks"


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0", "1.2.1"])
@pytest.mark.parametrize("url", [URL, NOBODY])
def test_under_a_lock_the_writer_wins_against_a_clustering_of_the_same_files(version: str, url: str) -> None:
    options = hudi_options(url, hudi_version=version, actions=["clustering"], lock=LOCK, fallback="inline", timeout=0.1)

    assert options[UPDATES].endswith(".SparkAllowUpdateStrategy")
    assert options["hoodie.write.lock.conflict.resolution.strategy"].endswith(".PreferWriterConflictResolutionStrategy")
    assert options["hoodie.write.num.retries.on.conflict.failures"] == "4"
    assert options["hoodie.write.lock.filesystem.expire"] == "3"


def test_a_lock_wins_also_where_the_service_plans_the_clusterings() -> None:
    assert UPDATES in hudi_options(URL, actions=["clean"], lock=LOCK)


@pytest.mark.parametrize("fallback", [None, "inline"])
def test_clustering_without_a_lock_is_warned_of_and_never_lets_updates_in(fallback: str | None) -> None:
    with pytest.warns(UserWarning, match="refuses this writer's updates"):
        options = hudi_options(URL, actions=["clustering"])

    assert UPDATES not in options
    assert UPDATES not in hudi_options(NOBODY, actions=["compaction"], fallback=fallback)


@pytest.mark.parametrize(
    "lock",
    [
        {"hoodie.write.lock.filesystem.path": "/locks"},
        {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"},
        {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.NoopLockProvider"},
    ],
)
def test_a_lock_that_nobody_else_sees_is_refused(lock: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="name a lock that Lakehand sees"):
        hudi_options(URL, actions=["clustering"], lock=lock)


def test_hudi_0_15_knows_the_failed_writes_policy_by_its_old_name() -> None:
    options = hudi_options(URL, hudi_version="0.15.0", lock=file_lock("/locks"))

    assert options["hoodie.cleaner.policy.failed.writes"] == "LAZY"


def test_without_the_service_a_writer_with_fallback_does_everything_itself() -> None:
    options = hudi_options(NOBODY, actions=EVERYTHING, lock=file_lock("/locks"), fallback="inline")

    assert options["hoodie.compact.inline"] == "true"
    assert options["hoodie.clustering.inline"] == "true"
    assert options["hoodie.clean.automatic"] == "true"
    assert options["hoodie.write.commit.callback.on"] == "false"
    assert options["hoodie.write.lock.filesystem.path"] == "/locks"


def test_fallback_follows_the_readiness_of_the_service(service: tuple[str, int]) -> None:
    url, status = service

    options = hudi_options(url, fallback="inline")

    assert is_ready(url) is (status == 200)
    assert options["hoodie.write.commit.callback.on"] == ("true" if status == 200 else "false")


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"url": "lakehand:9091"}, "not the address"),
        ({"url": "http://lakehand:9091/?token=x"}, "token="),
        ({"url": "http://lakehand/prefix", "hudi_version": "1.2.1"}, "drops the path"),
        ({"hudi_version": "newest"}, "not a Hudi version"),
        ({"actions": ["vacuum"]}, "vacuum"),
        ({"table_type": "MOR"}, "MERGE_ON_READ"),
        ({"fallback": "retry"}, "inline"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(wrong: dict[str, object], names: str) -> None:
    with pytest.raises(ValueError, match=names):
        hudi_options(**{"url": URL, **wrong})  # type: ignore[arg-type]


def test_every_value_is_text_as_spark_wants_it() -> None:
    options = hudi_options(URL, actions="compaction,clustering", max_commits=2, lock=LOCK)

    assert all(isinstance(value, str) for value in options.values())
    assert options["hoodie.clustering.async.max.commits"] == "2"


@pytest.mark.parametrize(
    ("name", "kind"), [("bucket", "BUCKET"), ("record", "RECORD_INDEX"), ("simple", "SIMPLE"), ("SIMPLE", "SIMPLE")]
)
@pytest.mark.filterwarnings("error")
def test_a_writer_that_names_its_index_gets_it_and_no_warning(name: str, kind: str) -> None:
    options = hudi_options(URL, index=name)

    assert options["hoodie.index.type"] == kind
    assert options.get("hoodie.metadata.record.index.enable", "false") == ("true" if name == "record" else "false")


def test_deferred_compaction_with_hudis_default_index_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="looks only into base files"):
        options = hudi_options(URL)

    assert "hoodie.index.type" not in options


@pytest.mark.filterwarnings("error")
def test_a_writer_whose_compactions_are_not_deferred_is_not_warned() -> None:
    hudi_options(URL, actions=["clean"], lock=LOCK)
    hudi_options(URL, actions=["compaction"], table_type=COPY_ON_WRITE)
    hudi_options(NOBODY, actions=["compaction"], fallback="inline", timeout=0.1)


def test_the_documented_options_are_the_real_ones() -> None:
    page = (Path(__file__).parents[1] / "docs" / "hudi.md").read_text(encoding="utf-8")
    newer, older = re.findall(r"^```properties\n(.*?)^```", page, re.DOTALL | re.MULTILINE)

    assert read(newer) == hudi_options(URL, hudi_version="1.2.1", actions=EVERYTHING, lock=LOCK, index="bucket")
    assert read(older) == hudi_options(
        URL, hudi_version="0.15.0", actions=["compaction", "clustering"], lock=LOCK, index="bucket"
    )


def read(properties: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in properties.splitlines())
