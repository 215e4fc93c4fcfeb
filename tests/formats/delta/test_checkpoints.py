# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that only Spark writes: in several parts, and with sidecars."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.delta import DeltaFormat, checkpoint_files
from lakehand.formats.delta.files import LiveFile, row_count
from lakehand.spi import TableReference
from tests import delta_tables

pytestmark = pytest.mark.spark


def files_of(path: Path) -> dict[str, LiveFile]:
    return dict(DeltaFormat().inspect(TableReference(location=str(path))).files)


@pytest.mark.parametrize(
    ("policy", "sign"), [("classic", "*.checkpoint.0000000001.*.parquet"), ("v2", "_sidecars/*.parquet")]
)
def test_checkpoints_in_parts_and_with_sidecars_are_read(
    spark: SparkSession, tmp_path: Path, policy: str, sign: str
) -> None:
    path, session = tmp_path / "t", spark.newSession()
    session.conf.set("spark.databricks.delta.checkpoint.partSize", "5")
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointPolicy": policy}
    delta_tables.make_table(session, path, commits=1, files=20, properties=properties)
    delta_tables.delete(session, path, "id % 4 = 1")
    whole = files_of(path)
    jvm: Any = session.sparkContext._jvm
    jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, str(path)).checkpoint()
    jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
    assert list((path / "_delta_log").glob(sign))
    for commit in (path / "_delta_log").glob("*.json"):
        if commit.stem.isdigit() and int(commit.stem) < 2:
            commit.unlink()

    assert files_of(path) == whole
    log = DeltaFormat().inspect(TableReference(location=str(path))).log
    assert log.start is not None
    known = {name: row_count(text) for name, text in checkpoint_files.statistics(log, log.start)}
    assert known == {name: file.rows for name, file in whole.items()}, "statistics alone, too"
    assert sum(file.deleted for file in whole.values()) == 100
    assert sum(file.rows for file in whole.values()) == 400
