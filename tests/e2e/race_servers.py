# SPDX-License-Identifier: Apache-2.0
"""The servers that races need beside the store: catalogs and locks, all of them real."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.databases import mariadb
from tests.hive_metastore import hive_metastore
from tests.jars import local_jars
from tests.nessie_server import nessie
from tests.s3_server import Server
from tests.zookeeper_server import zookeeper


@contextmanager
def race_servers(store: Server, folder: Path) -> Iterator[Mapping[str, str]]:
    """Their addresses by name, for ``contests``."""
    s3 = {**store.hadoop_settings(), "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    with (
        mariadb() as server,
        server.fresh_database() as database,
        hive_metastore(folder, s3, local_jars(["s3"])) as metastore,
        zookeeper(folder) as port,
        nessie(store, folder) as rest,
    ):
        yield {"mariadb": database, "hive": metastore.uri, "zookeeper": f"127.0.0.1:{port}", "nessie": rest.uri}
