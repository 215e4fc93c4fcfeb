# SPDX-License-Identifier: Apache-2.0
"""Panels about the service itself: engines, plugins, API, loops, database."""

from tools.board.panel import ZERO, Panel, quantiles

ENGINES = [
    Panel(
        "Engines", "1 while an engine runs. The Spark driver exits when it is idle: 0 alone is not a fault.", "short",
        {"{{instance}} {{engine}}": "max by (instance, engine) (lakehand_engine_up{@})"},
    ),
    Panel(
        "Engine restarts", "Starts of a driver after one that died, in the last hour.", "short",
        {"{{instance}} {{engine}}": "max by (instance, engine) (increase(lakehand_engine_restarts{@}[1h]))"}, alarm=3,
    ),
    Panel(
        "Plugins by state", "Plugins of all instances. Broken, failing and stuck ones need a person.", "short",
        {"{{state}}": "sum by (state) (lakehand_plugin{@})"}, stacked=True,
    ),
    Panel(
        "Plugin errors", "Calls of the last hour that raised an error or returned an invalid result.", "short",
        {"{{kind}} {{name}}": "sum by (kind, name) (increase(lakehand_plugin_errors_total{@}[1h]))"}, width=12,
    ),
    Panel(
        "Abandoned calls", "Calls into plugins that missed their deadline in the last hour.", "short",
        {"{{kind}} {{name}}": "sum by (kind, name) (increase(lakehand_plugin_hangs_total{@}[1h]))"}, width=12,
    ),
]  # fmt: skip

API = [
    Panel(
        "Requests", "Requests answered, by status. Writers' notifications are counted apart.", "reqps",
        {"{{status}}": "sum by (status) (rate(lakehand_requests_total{@}[$__rate_interval]))"}, stacked=True,
    ),
    Panel(
        "Request errors", "Requests that ended with 500 or more.", "reqps",
        {"{{route}}": f'sum by (route) (rate(lakehand_requests_total{{@,status=~"5.."}}[$__rate_interval])){ZERO}'},
        stacked=True,
    ),
    Panel(
        "Request time", "Time to answer a request, without the pages, whose live updates stay open.", "s",
        quantiles("lakehand_request_seconds", '@,route!="unmatched"'),
    ),
    Panel(
        "Notifications", "Notifications of writers that were stored.", "cps",
        {
            "{{source}}":
            'sum by (source) (rate(lakehand_notifications_total{@,outcome="stored"}[$__rate_interval]))',
        },
    ),
    Panel(
        "Refused notifications", "Notifications of the last hour that were refused. The table is probed anyway.",
        "short",
        {"{{source}}": 'sum by (source) (increase(lakehand_notifications_total{@,outcome="refused"}[1h]))'}, alarm=1,
    ),
    Panel(
        "Refused requests", "Requests and connections that were refused in the last hour, by reason.", "short",
        {"{{reason}}": f"sum by (reason) (increase(lakehand_refusals_total{{@}}[1h])){ZERO}"},
    ),
]  # fmt: skip

SERVICE = [
    Panel(
        "Loops", "Time of one iteration of each loop: nineteen in twenty took less.", "s",
        {
            "{{loop}}":
            "histogram_quantile(0.95, sum by (loop, le) (rate(lakehand_loop_seconds_bucket{@}[$__rate_interval])))",
        },
    ),
    Panel(
        "Loop failures", "Iterations of the last hour that failed. The loop goes on.", "short",
        {"{{instance}} {{loop}}": "sum by (instance, loop) (increase(lakehand_loop_failures_total{@}[1h]))"}, alarm=5,
    ),
    Panel(
        "Messages about alerts", "Messages of the last hour, by receiver and outcome.", "short",
        {
            "{{receiver}} {{outcome}}":
            f"sum by (receiver, outcome) (increase(lakehand_alert_messages_total{{@}}[1h])){ZERO}",
        },
    ),
    Panel(
        "Database time", "Time of a small query.", "s", quantiles("lakehand_database_seconds"), alarm=0.5,
    ),
    Panel(
        "Database", "1 while the database answers and accepts writes.", "short",
        {"{{instance}}": "max by (instance) (lakehand_database_up{@})"},
    ),
    Panel(
        "Free disk", "Free share of the disk with the home.", "percentunit",
        {"{{instance}}": "max by (instance) (lakehand_disk_free_ratio{@})"},
    ),
    Panel(
        "Memory", "Memory of the service itself, without the Spark driver.", "bytes",
        {"{{instance}}": "max by (instance) (process_resident_memory_bytes{@})"}, width=12,
    ),
    Panel(
        "Processor", "Cores that the service itself uses, without the Spark driver.", "short",
        {"{{instance}}": "sum by (instance) (rate(process_cpu_seconds_total{@}[$__rate_interval]))"}, width=12,
    ),
]  # fmt: skip
