# SPDX-License-Identifier: Apache-2.0
"""A real Hive metastore for tests: the one among Spark's own jars (2.3.9), with a Derby database in a folder."""

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table

from lakehand.engines.spark.jars import spark_home
from lakehand.engines.spark.java import java_home
from lakehand.spi import Catalog, Format
from lakehand.storage.hive_metastore import connected
from tests.kit.polling import wait_for
from tests.kit.ports import quiet_port

PROGRAM = Path(__file__).parent / "MetastoreWithLocks.java"  # Java compiles it when it starts it


@dataclass(frozen=True, kw_only=True)
class Metastore:
    port: int
    warehouse: Path

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"


@contextmanager
def hive_metastore(
    folder: Path, site: Mapping[str, str] | None = None, jars: Sequence[Path] = ()
) -> Iterator[Metastore]:
    """``site``: Hadoop's settings, and ``jars`` of file systems, for databases and tables elsewhere than on disk."""
    server = Metastore(port=quiet_port(), warehouse=folder / "hive")
    server.warehouse.mkdir()
    options = [f"-D{key}={value}" for key, value in properties(folder, server).items()]
    path = os.pathsep.join(map(str, [site_folder(folder, site or {}), f"{spark_home()}/jars/*", *jars]))
    command = [str(java_home().program), "-Xmx400m", *options, "-cp", path, str(PROGRAM)]
    with (folder / "metastore.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-p", str(server.port)], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder
        )
    try:
        wait_for(lambda: answers(server, process), f"the metastore to answer: {folder / 'metastore.log'}")
        yield server
    finally:
        process.kill()
        process.wait()


def site_folder(folder: Path, site: Mapping[str, str]) -> Path:
    root = Element("configuration")
    for key, value in site.items():
        one = SubElement(root, "property")
        SubElement(one, "name").text, SubElement(one, "value").text = key, value
    at = folder / "hadoop-settings"
    at.mkdir()
    (at / "core-site.xml").write_bytes(tostring(root))
    return at


def properties(folder: Path, server: Metastore) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore_db'};create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(server.warehouse),
        "hive.metastore.server.min.threads": "4",
        "hive.async.log.enabled": "false",  # needs a library that Spark does not have
        "hive.log.dir": str(folder),
        "derby.system.home": str(folder / "derby"),
    }


def answers(server: Metastore, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, "the metastore ended at its start"
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
    except OSError:
        return False
    return True


def note_table(server: Metastore, provider: str, location: Path) -> None:
    """Create a table in the metastore in the shape in which Spark notes one of ``provider``, external, by its path."""
    table = Table(
        dbName="shop", tableName=location.name, owner="tests", createTime=0, lastAccessTime=0, retention=0,
        tableType="EXTERNAL_TABLE", partitionKeys=[], privileges=None, viewOriginalText=None, viewExpandedText=None,
        parameters={"spark.sql.sources.provider": provider, "EXTERNAL": "TRUE"},
        sd=StorageDescriptor(
            cols=[FieldSchema("col", "array<string>", "")], location=f"{location}-__PLACEHOLDER__",
            inputFormat="org.apache.hadoop.mapred.SequenceFileInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat", bucketCols=[], sortCols=[],
            parameters={}, numBuckets=-1, serdeInfo=SerDeInfo(
                "", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", {"path": f"file:{location}"}
            ),
        ),
    )  # fmt: skip
    catalog = Catalog(name="tests", format=Format(provider), type="hive", properties={"uri": server.uri})
    with connected(catalog) as client:
        client.create_table(table)
