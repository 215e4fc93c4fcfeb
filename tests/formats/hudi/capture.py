# SPDX-License-Identifier: Apache-2.0
"""Makes the timelines under ``tables/`` anew, with real writers: ``python -m tests.formats.hudi.capture /lake``."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import hudi_tables as hudi

HERE = Path(__file__).parent / "tables"
COMPACTING = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
CLUSTERING = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
CLEANING = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"}
OVERWRITING = {"hoodie.datasource.write.operation": "insert_overwrite"}

Step = Mapping[str, Any]


def step(number: int, table_type: str, **more: Mapping[str, str]) -> Step:
    options = {key: value for part in more.values() for key, value in part.items()}
    return {"number": number, "table_type": table_type, "rows": 10, "options": options}


# A compaction and cleans are done; then the writer leaves a plan.
ORDERS = [
    step(1, hudi.MERGE_ON_READ),
    step(2, hudi.MERGE_ON_READ, a=COMPACTING, b=CLEANING),
    step(3, hudi.MERGE_ON_READ),
    step(4, hudi.MERGE_ON_READ, a=hudi.scheduling_compaction(2)),
    step(5, hudi.MERGE_ON_READ),
]
# A clustering, an overwrite and a clean are done; then the writer leaves a plan.
EVENTS = [
    step(1, hudi.COPY_ON_WRITE),
    step(2, hudi.COPY_ON_WRITE, a=CLUSTERING),
    step(3, hudi.COPY_ON_WRITE, a=OVERWRITING),
    step(4, hudi.COPY_ON_WRITE, a=CLEANING),
    step(5, hudi.COPY_ON_WRITE, a=hudi.scheduling_clustering(1)),
]


def keep(table: Path) -> None:
    """The metadata without the metadata table and without data: a few kilobytes."""
    ignored = shutil.ignore_patterns(
        "metadata", "*.crc", ".temp", ".schema", "archived", "history", ".aux", ".heartbeat"
    )
    shutil.copytree(table / ".hoodie", HERE / table.name / ".hoodie", ignore=ignored)


def main(lake: Path) -> None:
    shutil.rmtree(HERE, ignore_errors=True)
    for name, steps, jars in (
        ("orders_v9", ORDERS, "hudi"),
        ("events_v9", EVENTS, "hudi"),
        ("orders_v6", ORDERS, "hudi-0.15"),
        ("events_v6", EVENTS, "hudi-0.15"),
    ):
        shutil.rmtree(lake / name, ignore_errors=True)
        with hudi.writer_elsewhere(lake / name, jars) as write:
            write(*steps)
        keep(lake / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
