# SPDX-License-Identifier: Apache-2.0
"""Cluster mode on YARN: what its applications are started with, and the folder that service and NodeManagers share."""

import os
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from lakehand.domain.errors import Invalid
from lakehand.engines.spark.command import Command

FIXED = {
    "spark.submit.deployMode": "cluster",
    "spark.yarn.maxAppAttempts": "1",  # the service decides about another attempt
    "spark.yarn.submit.waitAppCompletion": "false",
}
OF_THIS_MACHINE = ("spark.driver.host", "spark.driver.bindAddress", "spark.local.dir")


def in_cluster_mode(command: Command, driver_python: str) -> Command:
    """The same application, with its driver in YARN."""
    kept = {key: value for key, value in command.properties.items() if key not in OF_THIS_MACHINE}
    python = {"spark.pyspark.driver.python": driver_python} if driver_python else {}
    return replace(command, arguments=[*command.arguments, "--remote"], properties={**kept, **python, **FIXED})


def own_folder(shared: Path, home: Path) -> Path:
    """One folder per home, so that instances may share the storage."""
    if not shared.is_dir() or not os.access(shared, os.W_OK | os.X_OK):
        raise Invalid(
            f"shared-folder of the spark-submit engine is {shared}: no folder that this service can write to."
            " Mount storage there that the NodeManagers have at the same path"
        )
    file = home / "shared-folder-name"
    if not file.exists():
        file.write_text(uuid4().hex)
    return shared / file.read_text().strip()
