# SPDX-License-Identifier: Apache-2.0
"""Small Hudi tables with one pending compaction plan each: one is written by PySpark, the others are copies of it.

``python -m bench.fleet_tables FOLDER`` writes the first one. Nothing in a Hudi table names the folder it lies in.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import COMPACTION
from lakehand.spi import Instant, TableProcess
from tests.formats.hudi.runtime import MemoryRuntime, asked_for
from tests.hudi_tables import completed, make_table, pending, scheduling_compaction, start_session

ROWS = 2000
COMMITS = 5  # one of inserts, four of changes


def write_template(folder: Path) -> None:
    """In a process of its own, so that its JVM is gone before anything is measured."""
    subprocess.run([sys.executable, "-m", "bench.fleet_tables", str(folder)], check=True, capture_output=True)
    assert len(pending(folder)) == 1, f"{folder} should have one pending plan: {pending(folder)}"


def copies(template: Path, folder: Path, count: int) -> list[Path]:
    """Fresh tables, all alike."""
    paths = [folder / f"orders_{number:02d}" for number in range(count)]
    for path in paths:
        shutil.copytree(template, path)
    return paths


def instant_of(path: Path) -> str:
    [(instant, _)] = pending(path)
    return instant


def order_of(path: Path) -> Mapping[str, Any]:
    """What the service would tell its job about this table, options and all."""
    wanted = asked_for(COMPACTION, Instant(instant_of(path)))
    admitted = HudiProcessFactory().admit(MemoryRuntime(path), wanted)
    assert isinstance(admitted, TableProcess), admitted
    return admitted.parameters


def check_compacted(paths: list[Path], instant: str) -> None:
    undone = [path.name for path in paths if len(completed(path, instant)) != 1]
    if undone:
        raise RuntimeError(f"these tables were not compacted exactly once: {undone}")


if __name__ == "__main__":
    session = start_session()
    make_table(session, Path(sys.argv[1]), commits=COMMITS, rows=ROWS, options=scheduling_compaction(COMMITS))
    session.stop()
