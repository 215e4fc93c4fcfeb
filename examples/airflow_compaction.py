# SPDX-License-Identifier: Apache-2.0
"""An Airflow DAG that asks for a compaction after the nightly load, and waits until the table shows that it is done.

Needs Lakehand installed beside Airflow 2.4 or newer, and LAKEHAND_URL (and LAKEHAND_TOKEN) in the workers' environment.
"""

from datetime import datetime, timedelta, timezone

from airflow import DAG
from airflow.decorators import task

from lakehand.client import LakehandClient


def compact(table: str, timeout: timedelta = timedelta(hours=1)) -> dict[str, object]:
    """Fails with the reason if the compaction does; returns its numbers, which Airflow keeps as the task's result."""
    with LakehandClient() as lakehand:
        operation = lakehand.operations.submit(table, "compaction")
        result = lakehand.operations.wait(operation, timeout=timeout.total_seconds())
        return result.check().result


with DAG(
    "nightly_compaction", schedule="0 4 * * *", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), catchup=False
):
    # No retries: the service repeats what can be repeated, and submitting again would plan again.
    task(task_id="compact_orders", retries=0)(compact)("sales.orders")
