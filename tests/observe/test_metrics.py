# SPDX-License-Identifier: Apache-2.0
"""What Prometheus is told, and that nobody can fill its memory."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from lakehand.core.ports import Metrics, PluginReport
from lakehand.domain.actions import Action
from lakehand.domain.operations import Operation, OperationId, Status
from lakehand.domain.processes import Instant, Json, TableProcess
from lakehand.domain.tables import Format, TableId
from lakehand.observe.metrics import MOST_VALUES, PrometheusMetrics

SECOND = timedelta(seconds=1)
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
HUDI = Format("hudi")
FINAL = [status for status in Status if status.is_final]


def ended(action: str, status: Status, result: Mapping[str, Json] | None = None) -> Operation:
    process = TableProcess(action=Action(action))
    return Operation(
        id=OperationId(1), table=TableId(1), instant=Instant("1"), process=process, status=status, result=result or {},
        not_before=NOON, due_at=NOON, created_at=NOON, updated_at=NOON,
    )  # fmt: skip


def value(metrics: PrometheusMetrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"lakehand_{name}", labels)


def test_it_is_what_the_core_reports_to() -> None:
    metrics: Metrics = PrometheusMetrics()

    metrics.probed(3, 1)


def test_delays_and_outcomes_are_counted_by_action() -> None:
    metrics = PrometheusMetrics()
    metrics.scheduled("clean", SECOND)
    metrics.submitted("clean", 2 * SECOND)
    metrics.finished(ended("clean", Status.FAILED), HUDI, 3 * SECOND)
    metrics.attempt_failed("clean", "lock-held")
    metrics.lease_lost("clean")
    metrics.starved(HUDI, "clean")

    assert value(metrics, "scheduling_delay_seconds_sum", action="clean") == 1
    assert value(metrics, "submission_delay_seconds_sum", action="clean") == 2
    assert value(metrics, "run_seconds_sum", action="clean", status="failed") == 3
    assert value(metrics, "operations_finished_total", format="hudi", action="clean", status="failed") == 1
    assert value(metrics, "attempts_failed_total", action="clean", reason="lock-held") == 1
    assert value(metrics, "leases_lost_total", action="clean") == 1
    assert value(metrics, "actions_starved_total", format="hudi", action="clean") == 1


def test_what_operations_report_is_added_up_and_nothing_odd_is_taken_for_a_number() -> None:
    metrics = PrometheusMetrics()
    results: list[dict[str, Json]] = [
        {"files_removed": 7, "bytes_rewritten": 2048},
        {"files_removed": "many", "bytes_rewritten": -1},
    ]
    for result in results:
        metrics.finished(ended("clean", Status.SUCCEEDED, result), HUDI, SECOND)

    assert value(metrics, "files_removed_total", format="hudi", action="clean") == 7
    assert value(metrics, "bytes_rewritten_total", format="hudi", action="clean") == 2048


def test_counters_of_known_actions_and_receivers_begin_at_zero() -> None:
    metrics = PrometheusMetrics()
    named: dict[str, str] = {"kind": "process-factory", "name": "hudi", "distribution": "", "version": "1"}
    metrics.plugins([PluginReport(**named, state="on", pairs={"hudi": ["clean"]})])  # type: ignore[arg-type]
    metrics.receivers(["team"])

    pair = {"format": "hudi", "action": "clean"}
    assert {value(metrics, "operations_finished_total", **pair, status=str(one)) for one in FINAL} == {0}
    assert value(metrics, "files_removed_total", **pair) == value(metrics, "bytes_rewritten_total", **pair) == 0
    assert value(metrics, "leases_lost_total", action="clean") == 0
    assert value(metrics, "actions_starved_total", **pair) == 0
    assert value(metrics, "alert_messages_total", receiver="team", outcome="given-up") == 0
    assert value(metrics, "notifications_total", source="callback", outcome="refused") == 0


def test_the_fleet_the_database_and_the_disk_are_measured() -> None:
    metrics = PrometheusMetrics()
    metrics.tables({"healthy": 3, "failed": 0})
    metrics.database(0.25, is_up=True)
    metrics.database(0.5, is_up=False)
    metrics.disk(0.75)

    assert value(metrics, "tables", state="healthy") == 3
    assert value(metrics, "tables", state="failed") == 0
    assert value(metrics, "database_up") == 0
    assert value(metrics, "database_seconds_sum") == 0.75
    assert value(metrics, "disk_free_ratio") == 0.75


def test_a_queue_that_is_empty_again_is_shown_no_more() -> None:
    metrics = PrometheusMetrics()
    metrics.queue({"night": (4, 12.5), "day": (1, 1.0)})
    metrics.queue({"day": (2, 3.0)})

    assert value(metrics, "queue_depth", queue="night") is None
    assert value(metrics, "queue_depth", queue="day") == 2
    assert value(metrics, "queue_oldest_seconds", queue="day") == 3


def test_loops_engines_probes_and_requests_are_counted() -> None:
    metrics = PrometheusMetrics()
    metrics.loop("monitor", 0.1, failed=False)
    metrics.loop("monitor", 0.1, failed=True)
    metrics.engine("spark", up=True, restarts=2)
    metrics.probed(5, 2)
    metrics.request("/api/v1/tables/{id}", "GET", 200, 0.5)
    metrics.notifications("wire", "stored", 7)
    spark = PluginReport(kind="engine", name="spark", distribution="lakehand", version="1", state="on")
    metrics.plugins([spark])

    assert value(metrics, "loop_failures_total", loop="monitor") == 1
    assert value(metrics, "loop_seconds_count", loop="monitor") == 2
    assert value(metrics, "engine_up", engine="spark") == 1
    assert value(metrics, "engine_restarts", engine="spark") == 2
    assert value(metrics, "tables_probed_total") == 5
    assert value(metrics, "requests_total", route="/api/v1/tables/{id}", method="GET", status="200") == 1
    assert value(metrics, "request_seconds_sum", route="/api/v1/tables/{id}", method="GET") == 0.5
    assert value(metrics, "notifications_total", source="wire", outcome="stored") == 7


def test_words_from_outside_cannot_fill_the_registry() -> None:
    metrics = PrometheusMetrics()
    for number in range(MOST_VALUES + 100):
        metrics.attempt_failed("clean", f"reason {number}")

    text = metrics.text()[0].decode()
    assert text.count("lakehand_attempts_failed_total{") == MOST_VALUES + 1
    assert value(metrics, "attempts_failed_total", action="clean", reason="other") == 100


def test_two_services_in_one_process_do_not_meet() -> None:
    first, second = PrometheusMetrics(), PrometheusMetrics()
    first.probed(1, 1)

    assert value(second, "tables_probed_total") == 0


def test_the_process_itself_is_measured() -> None:
    assert b"process_resident_memory_bytes" in PrometheusMetrics().text()[0]


def test_a_plugin_is_shown_in_the_state_it_is_in_and_its_faults_are_counted() -> None:
    metrics = PrometheusMetrics()
    named: dict[str, str] = {"kind": "process-factory", "name": "odd"}
    well = PluginReport(kind="process-factory", name="odd", distribution="odd", version="1", state="on", errors=2)
    metrics.plugins([well])
    metrics.plugins([replace(well, state="stuck", errors=5, hangs=1)])

    assert value(metrics, "plugin", **named, version="1", state="stuck") == 1
    assert value(metrics, "plugin", **named, version="1", state="on") is None
    assert value(metrics, "plugin_errors_total", **named) == 5
    assert value(metrics, "plugin_hangs_total", **named) == 1
