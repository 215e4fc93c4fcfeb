# SPDX-License-Identifier: Apache-2.0
"""Cluster mode on YARN: what its applications are started with, and the folder that service and NodeManagers share."""

import os
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from lakehand.domain.errors import Invalid, Unavailable
from lakehand.engines.spark.command import Command
from lakehand.storage.private_folders import identity_of, refuse_open_folder, refuse_open_parents

FIXED = {
    "spark.submit.deployMode": "cluster",
    "spark.yarn.maxAppAttempts": "1",  # the service decides about another attempt
    "spark.yarn.submit.waitAppCompletion": "false",
}
OF_THIS_MACHINE = ("spark.driver.host", "spark.driver.bindAddress", "spark.local.dir")
MOUNT = "Mount storage there that the NodeManagers have at the same path, with a folder that this user can write to"


def in_cluster_mode(command: Command, driver_python: str) -> Command:
    """The same application, with its driver in YARN."""
    kept = {key: value for key, value in command.properties.items() if key not in OF_THIS_MACHINE}
    python = {"spark.pyspark.driver.python": driver_python} if driver_python else {}
    return replace(command, arguments=[*command.arguments, "--remote"], properties={**kept, **python, **FIXED})


class SharedFolder:
    """Secrets are written into it, and work is read from it: it must be as private as the home, and stay the same."""

    def __init__(self, shared: Path, home: Path) -> None:
        refuse_unsafe(shared)
        self.shared = shared
        self.own = own_folder(shared, home)
        self._identities = {folder: identity_of(folder) for folder in (self.shared, self.own)}

    def problem(self) -> str:
        """Why nothing is written there now: a storage that is not mounted any more, or another folder in its place."""
        try:
            changed = [folder for folder, known in self._identities.items() if identity_of(folder) != known]
        except OSError as error:
            return f"shared-folder {self.shared} cannot be read: {error}"
        return f"{changed[0]} is not the folder that the service was started with" if changed else ""

    def refuse_another(self) -> None:
        if problem := self.problem():
            raise Unavailable(f"{problem}: nothing is written there. Mount the right storage, or restart the service")


def refuse_unsafe(shared: Path) -> None:
    name = f"shared-folder {shared} of the spark-submit engine"
    try:
        refuse_open_folder(shared, name, "name another folder")
        refuse_open_parents(shared, name)
    except OSError as error:
        raise Invalid(f"{name} cannot be used: {error.strerror}. {MOUNT}") from error
    if not os.access(shared, os.W_OK | os.X_OK):
        raise Invalid(f"{name} cannot be written. {MOUNT}")


def own_folder(shared: Path, home: Path) -> Path:
    """One folder per home, so that instances may share the storage."""
    file = home / "shared-folder-name"
    if not file.exists():
        file.write_text(uuid4().hex)
    folder = shared / file.read_text().strip()
    folder.mkdir(mode=0o700, exist_ok=True)
    refuse_open_folder(folder, f"the folder {folder}", "remove it")
    return folder
