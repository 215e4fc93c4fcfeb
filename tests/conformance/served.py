# SPDX-License-Identifier: Apache-2.0
"""A service beside a writer: how its table is registered, and when all is done."""

from collections.abc import Mapping, Sequence
from pathlib import Path

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
    """As the command beside the printed options says, with thresholds for tests."""
    properties = table_properties(lock=lock, actions=actions, index=index, max_delta_commits=2, max_commits=2)
    return service.add_table(path, *actions, scheduling=scheduling, properties={**properties, **EAGER}, **SOON)


def settle(service: RunningService, path: Path) -> None:
    """Until no plan is pending and no operation is under way."""

    def is_settled() -> bool:
        operations = service.operations(location=str(path))
        return not hudi.pending(path) and all(one["status"] in ENDED for one in operations)

    wait_for(is_settled, f"all plans of {path.name} to be done")
