# SPDX-License-Identifier: Apache-2.0
"""Panels about the tables and what is done to them."""

from tools.board.panel import HOURLY, ZERO, Panel, quantiles, stat

FLEET = [
    stat("Tables", "Registered tables.", "sum(max by (state) (lakehand_tables{@}))"),
    stat(
        "Needs a person", "Tables on which an operation has failed for good, or whose metadata cannot be read.",
        'sum(max by (state) (lakehand_tables{@,state=~"failed|unreadable"}))', alarm=1,
    ),
    stat("Waiting", "Operations that wait to be started.", f"sum(max by (queue) (lakehand_queue_depth{{@}})){ZERO}"),
    stat(
        "Success rate", "Operations that succeeded, of those that succeeded or failed for good, in the chosen time.",
        'sum(increase(lakehand_operations_finished_total{@,status="succeeded"}[$__range]))'
        ' / (sum(increase(lakehand_operations_finished_total{@,status=~"succeeded|failed"}[$__range])) > 0)'
        " or on () vector(1)", unit="percentunit",
    ),
    stat(
        "Open alerts", "What Lakehand itself says needs a person.", "sum(max by (severity) (lakehand_alerts_open{@}))",
        alarm=1,
    ),
    stat("Instances down", "Instances that Prometheus cannot scrape.", "sum(1 - up{@})", alarm=1),
    Panel(
        "Tables by state", "How many tables are in each state. Each table is in one.", "short",
        {"{{state}}": "max by (state) (lakehand_tables{@})"}, width=12, stacked=True,
    ),
    Panel(
        "Open alerts by severity", "What needs a person, by how much it hurts.", "short",
        {"{{severity}}": "max by (severity) (lakehand_alerts_open{@})"}, width=12, stacked=True,
    ),
]  # fmt: skip

OPERATIONS = [
    Panel(
        "Operations by status", "Operations that ended, per hour.", HOURLY,
        {"{{status}}": "3600 * sum by (status) (rate(lakehand_operations_finished_total{@}[$__rate_interval]))"},
        stacked=True,
    ),
    Panel(
        "Operations by format", "Operations that ended, per hour.", HOURLY,
        {"{{format}}": "3600 * sum by (format) (rate(lakehand_operations_finished_total{@}[$__rate_interval]))"},
        stacked=True,
    ),
    Panel(
        "Failed attempts", "Attempts that failed in the last hour, by reason. Most are repeated and succeed.", "short",
        {"{{reason}}": f"sum by (reason) (increase(lakehand_attempts_failed_total{{@}}[1h])){ZERO}"}, stacked=True,
    ),
    Panel(
        "Run time", "From start to end of operations that succeeded in the last hour.", "s",
        quantiles("lakehand_run_seconds", '@,status="succeeded"', "1h"),
    ),
    Panel(
        "Run time by action", "Nineteen in twenty of the operations of the last hour took less.", "s",
        {"{{action}}": "histogram_quantile(0.95, sum by (action, le) (rate(lakehand_run_seconds_bucket{@}[1h])))"},
    ),
    Panel(
        "Time to start", "From due to pending, and from pending to submitted: nineteen in twenty took less.", "s",
        {
            name: f"histogram_quantile(0.95, sum by (le) (rate(lakehand_{name}_delay_seconds_bucket{{@}}[1h])))"
            for name in ("scheduling", "submission")
        },
    ),
    Panel(
        "Queue wait", "How long the oldest operation of each queue has been due.", "s",
        {"{{queue}}": f"max by (queue) (lakehand_queue_oldest_seconds{{@}}){ZERO}"}, alarm=3600,
    ),
    Panel(
        "Queue depth", "Operations that wait, by queue.", "short",
        {"{{queue}}": f"max by (queue) (lakehand_queue_depth{{@}}){ZERO}"}, stacked=True,
    ),
    Panel(
        "Tables probed", "How many tables were probed, and how many of these had changed.", "cps",
        {
            "probed": "sum(rate(lakehand_tables_probed_total{@}[$__rate_interval]))",
            "changed": "sum(rate(lakehand_tables_changed_total{@}[$__rate_interval]))",
        },
    ),
    Panel(
        "Bytes rewritten", "What operations wrote anew, by format.", "Bps",
        {"{{format}}": "sum by (format) (rate(lakehand_bytes_rewritten_total{@}[$__rate_interval]))"}, stacked=True,
    ),
    Panel(
        "Files removed", "Files that operations removed per hour, by format.", HOURLY,
        {"{{format}}": "3600 * sum by (format) (rate(lakehand_files_removed_total{@}[$__rate_interval]))"},
        stacked=True,
    ),
    Panel(
        "Leases lost", "Operations of the last hour that another instance took over. Should stay at zero.", "short",
        {"{{instance}}": "sum by (instance) (increase(lakehand_leases_lost_total{@}[1h]))"}, alarm=1,
    ),
]  # fmt: skip
