# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics, in a registry of their own, with bounded labels: text from outside cannot fill it."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import product

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from lakehand.core.ports import PluginReport
from lakehand.domain.notifications import Outcome
from lakehand.domain.operations import Operation, Status
from lakehand.domain.processes import reported_number
from lakehand.domain.tables import Format
from lakehand.spi.health import BYTES_REWRITTEN, FILES_REMOVED
from lakehand.spi.metrics import PluginMetric

log = logging.getLogger(__name__)
NO_NAME = re.compile(r"[^a-z0-9]+")
MOST_VALUES = 200
LONGEST_VALUE = 60
REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
DELAY_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
RUN_SECONDS = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10800)
LOOP_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)
FINAL = tuple(str(status) for status in Status if status.is_final)
MESSAGE_OUTCOMES = ("sent", "failed", "given-up")
NOTIFICATION_OUTCOMES = (
    *product(("wire", "callback", "unread"), ("stored", "refused")),
    *product(("event",), map(str, Outcome)),
)


class LabelLimiter:
    """Passes the first values of a label, and replaces all later ones by "other"."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most = most
        self._values: set[str] = set()

    def __call__(self, value: str) -> str:
        value = value[:LONGEST_VALUE] or "none"
        if value not in self._values:
            if len(self._values) >= self._most:
                return "other"
            self._values.add(value)
        return value


prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]


class CallMetrics:
    """Counts what the gRPC API reports."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        counter = partial(prometheus.Counter, namespace="lakehand", registry=registry)
        histogram = partial(prometheus.Histogram, namespace="lakehand", registry=registry)
        self._calls = counter("rpc_calls", "gRPC calls that ended.", ["rpc", "code"])
        self._seconds = histogram(
            "rpc_seconds", "Time to answer a gRPC call, streams left out.", ["rpc"], buckets=REQUEST_SECONDS
        )
        self._streams = prometheus.Gauge(
            "rpc_streams", "gRPC streams that are open.", namespace="lakehand", registry=registry
        )

    def call(self, rpc: str, code: str, seconds: float | None) -> None:
        """A call has ended; a stream has no seconds."""
        self._calls.labels(rpc, code).inc()
        if seconds is not None:
            self._seconds.labels(rpc).observe(seconds)

    def streams(self, open: int) -> None:
        self._streams.set(open)


class PluginMetricsCollector(Collector):
    """The numbers of plugins, each named after its plugin. Reading them calls no code of a plugin."""

    def __init__(self) -> None:
        self._metrics: dict[str, PluginMetric] = {}

    def add(self, plugin: str, metric: PluginMetric) -> None:
        """A name that is taken is left out, with a line in the log: the others are still shown."""
        name = f"plugin_{NO_NAME.sub('_', plugin.lower())}_{metric.name}"
        if metric.kind == "counter":
            name = f"{name}_total"
        if name in (*self._metrics, "plugin_errors_total", "plugin_hangs_total"):
            log.warning("a metric of a plugin is left out: its name is taken", extra={"plugin": plugin, "metric": name})
        else:
            self._metrics[name] = metric

    def collect(self) -> Iterator[Metric]:
        for name, metric in self._metrics.items():
            made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = made(f"lakehand_{name}", metric.meaning, labels=metric.labels)
            for values, number in PluginMetric.samples(metric).items():
                family.add_metric(values, number)
            yield family


class PrometheusMetrics:
    """Counts what the loops and the API report; implements the core's ``Metrics``."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        self._reason, self._queue, self._action, self._refused, self._format = (LabelLimiter() for _ in range(5))
        self._seen: dict[tuple[str, str, int], tuple[Callable[[], None], Callable[[float], None]]] = {}
        self._counted: dict[tuple[str, str], tuple[int, int]] = {}
        self._pairs: set[tuple[str, str]] = set()
        self._make_metrics()
        self.rpc = CallMetrics(self.registry)
        self._of_plugins = PluginMetricsCollector()
        self.registry.register(self._of_plugins)

    def _make_metrics(self) -> None:
        counter = partial(prometheus.Counter, namespace="lakehand", registry=self.registry)
        gauge = partial(prometheus.Gauge, namespace="lakehand", registry=self.registry)
        histogram = partial(prometheus.Histogram, namespace="lakehand", registry=self.registry)
        self._requests = counter("requests", "Requests answered.", ["route", "method", "status"])
        self._latency = histogram(
            "request_seconds", "Time to answer a request.", ["route", "method"], buckets=REQUEST_SECONDS
        )
        self._notifications = counter("notifications", "Notifications of writers, by outcome.", ["source", "outcome"])
        for source, outcome in NOTIFICATION_OUTCOMES:
            self._notifications.labels(source, outcome)
        self._refusals = counter("refusals", "Requests and connections that were refused.", ["reason", "name"])
        self._plugins = gauge("plugin", "1 for the state that a plugin is in.", ["kind", "name", "version", "state"])
        self._plugin_errors = counter("plugin_errors", "Calls in which a plugin failed.", ["kind", "name"])
        self._plugin_hangs = counter(
            "plugin_hangs", "Calls that were abandoned because they missed their deadline.", ["kind", "name"]
        )
        self._scheduling = histogram(
            "scheduling_delay_seconds", "From due to stored as pending.", ["action"], buckets=DELAY_SECONDS
        )
        self._submission = histogram(
            "submission_delay_seconds",
            "From when an attempt could start until an engine took it.",
            ["action"],
            buckets=DELAY_SECONDS,
        )
        self._run = histogram(
            "run_seconds", "From start to end of an operation.", ["action", "status"], buckets=RUN_SECONDS
        )
        self._finished = counter("operations_finished", "Operations that ended.", ["format", "action", "status"])
        self._files = counter("files_removed", "Files that operations removed.", ["format", "action"])
        self._bytes = counter("bytes_rewritten", "Bytes that operations wrote anew.", ["format", "action"])
        self._failed = counter("attempts_failed", "Attempts that failed.", ["action", "reason"])
        self._lost = counter("leases_lost", "Leases that another instance took.", ["action"])
        self._starved = counter(
            "actions_starved", "Decisions that kept a needed action waiting for far too long.", ["format", "action"]
        )
        self._depth = gauge("queue_depth", "Pending operations.", ["queue"])
        self._age = gauge("queue_oldest_seconds", "Age of the oldest pending operation.", ["queue"])
        self._loop = histogram("loop_seconds", "Time of one step of a loop.", ["loop"], buckets=LOOP_SECONDS)
        self._loop_failures = counter("loop_failures", "Steps of a loop that failed.", ["loop"])
        self._probed = counter("tables_probed", "Tables that were probed.")
        self._changed = counter("tables_changed", "Probed tables that had changed.")
        self._tables = gauge("tables", "Registered tables.", ["state"])
        self._database_up = gauge("database_up", "1 while the database accepts reads and writes.")
        self._database = histogram("database_seconds", "Time of a small query.", buckets=LOOP_SECONDS)
        self._disk = gauge("disk_free_ratio", "Free share of the disk with the home.")
        self._up = gauge("engine_up", "1 while an engine's driver runs.", ["engine"])
        self._alerts = gauge("alerts_open", "Open alerts.", ["severity"])
        self._alert_messages = counter("alert_messages", "Messages about alerts, by outcome.", ["receiver", "outcome"])
        self._restarts = gauge("engine_restarts", "Times that an engine's driver was started again.", ["engine"])

    def scheduled(self, action: str, delay: timedelta) -> None:
        self._scheduling.labels(self._action(action)).observe(delay.total_seconds())

    def submitted(self, action: str, delay: timedelta) -> None:
        self._submission.labels(self._action(action)).observe(delay.total_seconds())

    def finished(self, operation: Operation, format: Format, run_time: timedelta) -> None:
        pair = self._format(str(format)), self._action(operation.process.action)
        self._finished.labels(*pair, operation.status).inc()
        self._files.labels(*pair).inc(reported_number(operation.result.get(FILES_REMOVED)))
        self._bytes.labels(*pair).inc(reported_number(operation.result.get(BYTES_REWRITTEN)))
        self._run.labels(pair[1], operation.status).observe(run_time.total_seconds())

    def attempt_failed(self, action: str, reason: str) -> None:
        self._failed.labels(self._action(action), self._reason(reason)).inc()

    def lease_lost(self, action: str) -> None:
        self._lost.labels(self._action(action)).inc()

    def starved(self, format: Format, action: str) -> None:
        self._starved.labels(self._format(str(format)), self._action(action)).inc()

    def probed(self, tables: int, changed: int) -> None:
        self._probed.inc(tables)
        self._changed.inc(changed)

    def loop(self, name: str, seconds: float, failed: bool) -> None:
        self._loop.labels(name).observe(seconds)
        failures = self._loop_failures.labels(name)
        if failed:
            failures.inc()

    def queue(self, depth: Mapping[str, tuple[int, float]]) -> None:
        """Empty queues are removed."""
        self._depth.clear()
        self._age.clear()
        for name, (count, age) in depth.items():
            queue = self._queue(name)
            self._depth.labels(queue).inc(count)
            self._age.labels(queue).set(age)

    def engine(self, name: str, up: bool, restarts: int) -> None:
        self._up.labels(name).set(1 if up else 0)
        self._restarts.labels(name).set(restarts)

    def plugins(self, reports: Sequence[PluginReport]) -> None:
        """Old states are removed."""
        self._plugins.clear()
        for one in reports:
            self._plugins.labels(one.kind, one.name, one.version, one.state).set(1)
            errors, hangs = self._counted.get((one.kind, one.name), (0, 0))
            self._plugin_errors.labels(one.kind, one.name).inc(max(one.errors - errors, 0))
            self._plugin_hangs.labels(one.kind, one.name).inc(max(one.hangs - hangs, 0))
            self._counted[one.kind, one.name] = (one.errors, one.hangs)
            self._begin_at_zero((pair[0], action) for pair in one.pairs.items() for action in pair[1])

    def _begin_at_zero(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Make the counters of these formats and actions: Prometheus sees no increase in one that begins at 1."""
        for known in set(pairs) - self._pairs:
            self._pairs.add(known)
            pair = self._format(known[0]), self._action(known[1])
            for status in FINAL:
                self._finished.labels(*pair, status)
            self._files.labels(*pair)
            self._bytes.labels(*pair)
            self._starved.labels(*pair)
            self._lost.labels(pair[1])

    def add_plugin_metrics(self, metrics: Iterable[tuple[str, PluginMetric]]) -> None:
        """Show what plugins count themselves; each with the name of its plugin."""
        for plugin, metric in metrics:
            self._of_plugins.add(plugin, metric)

    def alerts(self, open: Mapping[str, int]) -> None:
        for severity, count in open.items():
            self._alerts.labels(severity).set(count)

    def receivers(self, names: Iterable[str]) -> None:
        for name, outcome in product(names, MESSAGE_OUTCOMES):
            self._alert_messages.labels(name, outcome)

    def alert_message(self, receiver: str, outcome: str) -> None:
        self._alert_messages.labels(receiver, outcome).inc()

    def tables(self, states: Mapping[str, int]) -> None:
        for state, count in states.items():
            self._tables.labels(state).set(count)

    def database(self, seconds: float, *, is_up: bool) -> None:
        self._database_up.set(1 if is_up else 0)
        self._database.observe(seconds)

    def disk(self, free: float) -> None:
        self._disk.set(free)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Called for every request, so the labels are looked up once for each kind."""
        seen = self._seen.get((route, method, status))
        if seen is None:
            counter = self._requests.labels(route, method, str(status))
            seen = self._seen[route, method, status] = (counter.inc, self._latency.labels(route, method).observe)
        seen[0]()
        seen[1](seconds)

    def notifications(self, source: str, outcome: str, count: int) -> None:
        self._notifications.labels(source, outcome).inc(count)

    def refusal(self, reason: str, name: str) -> None:
        self._refusals.labels(reason, self._refused(name)).inc()

    def text(self) -> tuple[bytes, str]:
        """All metrics in Prometheus' text format, and its content type."""
        return prometheus.generate_latest(self.registry), CONTENT_TYPE_LATEST
