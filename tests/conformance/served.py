# SPDX-License-Identifier: Apache-2.0
"""A service beside a writer: how its table is registered, and when all is done."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from lakehand.writer import table_properties
from tests import hudi_tables as hudi
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

EVERYTHING = ("compaction", "clustering", "clean")
# Tables are asked about soon also where nobody notifies: the writers of these tests are quick.
SOON = {"heartbeat_timeout": 2}
EAGER = {"hudi.clean.commits": "2", "hudi.clean.retain-commits": "2", "hudi.clustering.order-columns": "ts"}
ENDED = ("succeeded", "dropped")


def register(
    service: RunningService,
    path: Path,
    lock: Mapping[str, str],
    *,
    actions: Sequence[str] = EVERYTHING,
    scheduling: str = "service",
    index: str | None = None,
) -> int:
    """As the command beside the printed options says, with thresholds for tests.

    The first request of Hudi's client has registered its table, for compaction alone: that is changed.
    """
    numbers = table_properties(lock=lock, actions=actions, index=index, max_delta_commits=2, max_commits=3)
    wanted = {"action_types": list(actions), "scheduling": scheduling, "properties": {**numbers, **EAGER}, **SOON}
    table = int(service.post("/api/v1/tables", {"location": str(path), **wanted})["id"])
    httpx.patch(f"{service.url}/api/v1/tables/{table}", json=wanted, timeout=30).raise_for_status()
    return table


def settle(service: RunningService, path: Path) -> None:
    """Until no plan is pending and no operation is under way."""

    def is_settled() -> bool:
        operations = service.operations(location=str(path))
        return not hudi.pending(path) and all(one["status"] in ENDED for one in operations)

    wait_for(is_settled, f"all plans of {path.name} to be done")
