# SPDX-License-Identifier: Apache-2.0
"""Where the demo's tables are: in a folder, or in a bucket of an S3 server on this machine, which the demo starts."""

import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx

from lakehand.app.setting_groups import StorageSettings
from lakehand.demo.service import DemoFailed, wait_or_kill
from lakehand.domain.errors import Invalid
from lakehand.engines.spark.command import FORMATS, catalog_properties, storage_properties
from lakehand.spi import Catalog, EngineContext, Format, TableReference
from lakehand.storage.object_stores import lance_options

BUCKET = "lake"
STORAGES = ("disk", "s3")
START_TIMEOUT = 60.0  # seconds for the S3 server to answer
DATABASE = "shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A folder, unless ``s3`` says how to reach a bucket. Iceberg tables in a bucket are in a JDBC catalog."""

    root: str
    home: Path  # on this machine: for locks, and for the database of the catalog
    s3: Mapping[str, str] = field(default_factory=dict)  # as in [storage.s3] of the settings

    def at(self, path: str) -> str:
        return f"{self.root}/{path}"

    @property
    def schemes(self) -> tuple[str, ...]:
        return ("s3",) if self.s3 else ()

    @property
    def databases(self) -> tuple[str, ...]:
        """Those of JDBC catalogs, which need a driver."""
        return ("sqlite",) if self.s3 else ()

    @property
    def storage(self) -> Mapping[str, str]:
        return StorageSettings.model_validate({"s3": self.s3}).properties()

    @property
    def service_settings(self) -> dict[str, Any]:
        """What the service is told in its settings."""
        if not self.s3:
            return {}
        central = {"type": "jdbc", "sync": False, "properties": self.jdbc}
        return {"storage": {"s3": dict(self.s3)}, "catalogs": {"iceberg": central}}

    @property
    def jdbc(self) -> dict[str, str]:
        return {"uri": f"jdbc:sqlite:{self.home}/catalog.db", "warehouse": self.root, "jdbc.schema-version": "V1"}

    @property
    def catalogs(self) -> tuple[Catalog, ...]:
        if not self.s3:
            return ()
        files = StorageSettings.model_validate({"s3": self.s3}).catalog_properties(self.root)
        return (Catalog(name="iceberg", format=Format("iceberg"), type="jdbc", properties={**files, **self.jdbc}),)

    def context(self, home: Path, formats: Sequence[str]) -> EngineContext:
        return EngineContext(
            home=home, formats=tuple(sorted(formats)), catalogs=self.catalogs, storage=self.storage,
            storage_schemes=self.schemes,
        )  # fmt: skip

    def writer_conf(self, formats: Sequence[str]) -> dict[str, str]:
        """For the writer's Spark: the storage, and a catalog named like the format for each that needs one."""
        found = storage_properties(self.storage, self.schemes)
        for name, conf in FORMATS.items():
            if name in formats and conf.catalog:
                key = f"spark.sql.catalog.{name}"
                found |= {key: conf.catalog, f"{key}.warehouse": self.root}
                found |= {f"{key}.type": "hadoop"} if name == "iceberg" and not self.s3 else {}
        found |= catalog_properties([one for one in self.catalogs if one.name in formats])
        return found | {f"spark.sql.catalog.{name}.cache-enabled": "false" for name in ("iceberg", "paimon")}

    def reference(self, location: str, format: str, name: str) -> TableReference:
        if format != "iceberg" or not self.s3:
            return TableReference(location=location)
        return TableReference(location=location, catalog=self.catalogs[0], db_name=DATABASE, table_name=name)

    def lance_options(self, location: str) -> dict[str, str]:
        return lance_options(self.storage, location)


def open_lake(storage: str, home: Path, parts: ExitStack) -> Lake:
    if storage not in STORAGES:
        raise Invalid(f"--storage {storage}: the demo has {', '.join(STORAGES)}")
    if storage == "disk":
        folder = home / "lake"
        folder.mkdir()
        return Lake(root=str(folder), home=home)
    server = S3Server(home / "s3")
    parts.callback(server.stop)
    server.make_bucket(BUCKET)
    keys = {"access_key_id": "demo", "secret_access_key": "demo"}  # the server takes any
    # Paimon wants a folder for its warehouse, not a whole bucket.
    return Lake(root=f"s3://{BUCKET}/demo", home=home, s3={"endpoint": server.endpoint, "region": "us-east-1", **keys})


class S3Server:
    """moto, in a process of its own. It keeps objects in memory."""

    def __init__(self, home: Path) -> None:
        if missing := [name for name in ("moto", "flask", "flask_cors") if find_spec(name) is None]:
            raise DemoFailed(
                f"an S3 server is needed, and {missing[0]} is not installed: pip install 'moto[s3]' flask flask-cors"
            )
        home.mkdir()
        self.log = home / "s3.log"
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "lakehand.demo.s3_server", "-H", "127.0.0.1", "-p", str(port)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=home, start_new_session=True
            )

    def make_bucket(self, name: str) -> None:
        """As soon as it answers."""
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                httpx.put(f"{self.endpoint}/{name}").raise_for_status()
            except httpx.TransportError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise DemoFailed(f"the S3 server does not answer; see {self.log}") from error
                time.sleep(0.1)
            else:
                return

    def stop(self) -> None:
        self.process.terminate()
        wait_or_kill(self.process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
