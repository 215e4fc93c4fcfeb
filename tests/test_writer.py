# SPDX-License-Identifier: Apache-2.0
"""The options that a Hudi writer is given, per version, action and table type."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lakehand.writer import COPY_ON_WRITE, file_lock, hudi_options, is_ready, storage_lock, table_properties

pytestmark = [
    pytest.mark.filterwarnings("ignore:compaction of a merge-on-read table without index"),
    pytest.mark.filterwarnings("ignore:Hudi before 1.0 does not count commits"),
]
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
    assert options["hoodie.table.service.manager.actions"] == "compaction,clustering"
    assert options["hoodie.compact.inline"] == options["hoodie.clustering.inline"] == "true"
    assert options["hoodie.clustering.inline.max.commits"] == "4"
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


DEPLOY = "hoodie.table.service.manager."


def test_what_an_operation_is_to_run_with_is_passed_on_by_the_client() -> None:
    options = hudi_options(
        URL, hudi_version="1.2.1", resource="2g:4g", parallelism=8, engine="spark-submit",
        extra_params={"hoodie.parquet.max.file.size": "1000", "hoodie.cleaner.parallelism": "2"},
    )  # fmt: skip

    assert options[f"{DEPLOY}deploy.resources"] == "2g:4g"
    assert options[f"{DEPLOY}deploy.parallelism"] == "8"
    assert options[f"{DEPLOY}execution.engine"] == "spark-submit", "the key of all versions has no 'deploy'"
    assert options[f"{DEPLOY}deploy.extra.params"] == "hoodie.parquet.max.file.size=1000;hoodie.cleaner.parallelism=2"


@pytest.mark.parametrize(
    "field", [{"owner": "finance"}, {"queue": "night"}, {"resource": "4g:4g"}, {"parallelism": 4}, {"engine": "spark"}]
)
@pytest.mark.parametrize("writer", [{"hudi_version": "1.2.0"}, {"hudi_version": "1.2.1", "scheduling": "service"}])
def test_fields_that_nobody_would_send_are_warned_of(field: dict[str, object], writer: dict[str, str]) -> None:
    with pytest.warns(UserWarning, match="only Hudi's client sends this"):
        options = hudi_options(URL, lock=LOCK, **writer, **field)  # type: ignore[arg-type]

    assert not [key for key in options if key.startswith(f"{DEPLOY}deploy") or key.endswith("engine")]


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0", "1.2.1"])
def test_clean_is_planned_by_the_service_and_needs_the_lock(version: str) -> None:
    with pytest.raises(ValueError, match=r"file_lock.*storage_lock"):
        hudi_options(URL, hudi_version=version, actions=["compaction", "clean"])

    assert hudi_options(URL, hudi_version=version, actions=["clean"], lock=LOCK)["hoodie.clean.automatic"] == "false"
    options = hudi_options(URL, actions=EVERYTHING, lock=LOCK)

    assert options["hoodie.clean.automatic"] == "false"
    assert options["hoodie.write.concurrency.mode"] == "optimistic_concurrency_control"
    assert options["hoodie.clean.failed.writes.policy"] == "LAZY"
    assert options["hoodie.write.lock.filesystem.path"] == "/data/trips/.hoodie/locks"


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0", "1.2.1"])
def test_under_a_lock_the_writer_wins_against_a_clustering_of_the_same_files(version: str) -> None:
    options = hudi_options(URL, hudi_version=version, actions=["clustering"], lock=LOCK)

    assert options[UPDATES].endswith(".SparkAllowUpdateStrategy")
    assert options["hoodie.write.lock.conflict.resolution.strategy"].endswith(".PreferWriterConflictResolutionStrategy")
    assert options["hoodie.write.num.retries.on.conflict.failures"] == "4"
    assert options["hoodie.write.lock.filesystem.expire"] == "3"


def test_a_lock_wins_also_where_the_service_plans_the_clusterings() -> None:
    assert UPDATES in hudi_options(URL, actions=["clean"], lock=LOCK)


def test_clustering_without_a_lock_is_warned_of_and_never_lets_updates_in() -> None:
    with pytest.warns(UserWarning, match="refuses this writer's updates"):
        options = hudi_options(URL, actions=["clustering"])

    assert UPDATES not in options
    assert UPDATES not in hudi_options(NOBODY, actions=["compaction"])


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


@pytest.mark.parametrize("version", ["1.2.0", "1.2.1"])
def test_without_the_service_a_writer_with_fallback_compacts_and_leaves_the_rest(version: str) -> None:
    """Hudi guards compactions by a heartbeat, and nothing else that a driver of ours may still be running."""
    options = hudi_options(
        NOBODY, hudi_version=version, actions=EVERYTHING, lock=file_lock("/locks"), fallback="inline"
    )

    assert options["hoodie.compact.inline"] == "true"
    assert options["hoodie.clustering.inline"] == options["hoodie.clean.automatic"] == "false"
    assert options["hoodie.clustering.schedule.inline"] == "true"
    assert options["hoodie.write.commit.callback.on"] == options["hoodie.table.service.manager.enabled"] == "false"
    assert options["hoodie.fail.writes.on.inline.table.service.exception"] == "false"
    assert options["hoodie.write.lock.filesystem.path"] == "/locks"


def test_fallback_follows_the_readiness_of_the_service(service: tuple[str, int]) -> None:
    url, status = service

    options = hudi_options(url, fallback="inline", lock=LOCK)

    assert is_ready(url) is (status == 200)
    assert options["hoodie.write.commit.callback.on"] == ("true" if status == 200 else "false")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"lock": None}, "completed twice.*file_lock.*storage_lock"),
        ({"hudi_version": "1.1.1"}, "1.2.0 or newer"),
        ({"actions": ["clustering", "clean"]}, "wait for the service"),
        ({"table_type": COPY_ON_WRITE}, "merge-on-read"),
        ({"fallback": "async"}, "structured streaming alone"),
    ],
)
@pytest.mark.parametrize("url", [URL, NOBODY])
def test_a_fallback_that_would_run_a_plan_twice_is_refused_before_the_service_is_away(
    url: str, given: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        hudi_options(url, **{"lock": LOCK, "fallback": "inline", "timeout": 0.1, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.1.1", "1.2.0", "1.2.1"])
def test_with_service_scheduling_the_writer_plans_nothing_and_reports_its_commits(version: str) -> None:
    options = hudi_options(
        URL, hudi_version=version, actions=EVERYTHING, scheduling="service", lock=LOCK, callback_key="secret"
    )

    off = {
        "hoodie.table.service.manager.enabled", "hoodie.compact.inline", "hoodie.compact.schedule.inline",
        "hoodie.datasource.compaction.async.enable", "hoodie.clustering.inline", "hoodie.clustering.schedule.inline",
        "hoodie.clustering.async.enabled", "hoodie.clean.automatic",
    }  # fmt: skip
    assert {key for key, value in options.items() if value == "false"} == off
    assert options["hoodie.write.commit.callback.http.url"] == f"{URL}/v1/hoodie/service/callback"
    assert options["hoodie.write.commit.callback.http.api.key"] == "secret"
    assert options["hoodie.write.concurrency.mode"] == "optimistic_concurrency_control"


def test_what_a_writer_keeps_with_service_scheduling_it_does_as_ever() -> None:
    options = hudi_options(URL, actions=["clean"], scheduling="service", lock=LOCK)

    assert not [key for key in options if "compact" in key or key.startswith("hoodie.clustering.schedule")]


def test_service_scheduling_without_a_lock_is_refused_with_the_locks_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"file_lock.*storage_lock"):
        hudi_options(URL, scheduling="service")


@pytest.mark.parametrize(
    ("trigger", "strategy", "counts"),
    [
        ("time", "TIME_ELAPSED", False),
        ("num-or-time", "NUM_OR_TIME", True),
        ("num-and-time", "NUM_AND_TIME", True),
    ],
)
@pytest.mark.parametrize("version", ["0.15.0", "1.2.0", "1.2.1"])
def test_compactions_are_planned_by_age_and_number(version: str, trigger: str, strategy: str, counts: bool) -> None:
    options = hudi_options(URL, hudi_version=version, trigger=trigger, max_age=900, max_delta_commits=3)

    assert options["hoodie.compact.inline.trigger.strategy"] == strategy
    assert options["hoodie.compact.inline.max.delta.seconds"] == "900"
    assert options.get("hoodie.compact.inline.max.delta.commits") == ("3" if counts else None)


def test_a_writer_that_falls_back_keeps_its_trigger() -> None:
    away = hudi_options(NOBODY, trigger="time", max_age=60, lock=LOCK, fallback="inline", timeout=0.1)

    assert away["hoodie.compact.inline.trigger.strategy"] == "TIME_ELAPSED"


def test_clusterings_are_planned_by_number_whatever_the_trigger_says_and_a_warning_tells() -> None:
    with pytest.warns(UserWarning, match="clusterings by the number of commits alone"):
        hudi_options(URL, actions=["compaction", "clustering"], trigger="time", max_age=60, lock=LOCK)


def test_hudi_0_15_plans_a_clustering_whenever_none_is_pending_and_a_warning_tells() -> None:
    with pytest.warns(UserWarning, match="does not count commits"):
        hudi_options(URL, hudi_version="0.15.0", actions=["clustering"], lock=LOCK)


def test_the_table_of_a_writer_that_plans_nothing_is_registered_with_its_lock_and_its_numbers() -> None:
    properties = table_properties(lock=storage_lock(), actions=EVERYTHING, max_commits=7, index="record")

    assert properties == {
        **storage_lock(),
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hudi.compaction.delta-commits": "5",
        "hudi.clustering.commits": "7",
        "hoodie.index.type": "RECORD_INDEX",
    }


def test_the_service_plans_all_actions_of_such_a_table_by_time() -> None:
    properties = table_properties(lock=LOCK, actions=EVERYTHING, trigger="num-or-time", max_age=900)

    for action in EVERYTHING:
        assert properties[f"hudi.{action}.trigger"] == "num-or-time"
        assert properties[f"hudi.{action}.max-age"] == "900s"
    with pytest.raises(ValueError, match="needs seconds"):
        table_properties(lock=LOCK, trigger="time")


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
        ({"scheduling": "nobody"}, "writer, service"),
        ({"trigger": "often"}, "num-or-time"),
        ({"trigger": "time"}, "needs seconds"),
        ({"max_age": 60}, "needs seconds"),
        ({"trigger": "time", "max_age": 60, "actions": ["clustering"]}, "number of commits alone"),
        ({"trigger": "time", "max_age": 60, "table_type": COPY_ON_WRITE}, "number of commits alone"),
        ({"trigger": "time", "max_age": 60, "scheduling": "service", "lock": LOCK}, "table_properties"),
        ({"actions": ["clustering"], "index": "bucket", "lock": LOCK}, "next write fails"),
        ({"hudi_version": "1.2.1", "extra_params": {"key": "a;b"}}, "semicolons"),
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
    hudi_options(NOBODY, actions=["compaction"], lock=LOCK, fallback="inline", timeout=0.1)


def test_the_documented_options_are_the_real_ones() -> None:
    page = (Path(__file__).parents[1] / "docs" / "hudi.md").read_text(encoding="utf-8")
    newer, older = re.findall(r"^```properties\n(.*?)^```", page, re.DOTALL | re.MULTILINE)

    assert read(newer) == hudi_options(URL, hudi_version="1.2.1", actions=EVERYTHING, lock=LOCK, index="record")
    assert read(older) == hudi_options(
        URL, hudi_version="0.15.0", actions=["compaction", "clustering"], lock=LOCK, index="record"
    )


def read(properties: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in properties.splitlines())
