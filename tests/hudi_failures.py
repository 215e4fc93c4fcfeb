# SPDX-License-Identifier: Apache-2.0
"""Hudi writes that fail after they have written files and before they commit, and writers that have been dead long."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests import hudi_tables as hudi

# A check of Hudi's own that no commit passes.
FAILING = {
    "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
    "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
}


def fail_to_write(
    session: SparkSession, path: Path, *, number: int, table_type: str, options: Mapping[str, str], rows: int = 4
) -> str:
    """The instant of a write that its writer gave up: its files, markers and heartbeat stay."""
    with pytest.raises(Py4JJavaError, match="Failed to upsert"):
        hudi.upsert(
            session, path, number=number, table_type=table_type, rows=rows, options={**options, **FAILING}
        )  # fmt: skip
    [(instant, _)] = hudi.pending(path)
    return instant


def age(path: Path, seconds: int = 3600) -> None:
    """Nobody has had a sign of life of this table's writers since."""
    then = time.time() - seconds
    for folder in (hudi.timeline(path), path / ".hoodie" / ".heartbeat"):
        for file in folder.iterdir() if folder.exists() else ():
            os.utime(file, (then, then))
