# SPDX-License-Identifier: Apache-2.0
"""What jobs of all formats need of Spark: its JVM, names and values quoted for SQL, and files through Hadoop.

Small files are listed and read by Python where they are on local disks: calls into a busy JVM are slow.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaMember
from py4j.protocol import STATIC_PREFIX

from lakehand.jobs.paths import canonical, path_part
from lakehand.jobs.safety import UnsafeRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm(session: "SparkSession") -> Any:
    return session.sparkContext._jvm


def static_method(session: "SparkSession", owner: str, name: str) -> Any:
    """A static method that has the name of another one of instances: an attribute of the class may be either of them.

    Py4J takes the first that Java lists, in an order that differs from one JVM to the next. A call compares arguments.
    """
    gateway: Any = session.sparkContext._gateway
    return JavaMember(name, None, f"{STATIC_PREFIX}{owner}", gateway._gateway_client)


def activate(session: "SparkSession") -> None:
    """Spark and the formats look up catalogs and settings in the session that is active in the thread."""
    jvm(session).SparkSession.setActiveSession(session._jsparkSession)


def hadoop_configuration(session: "SparkSession") -> Any:
    return session._jsparkSession.sessionState().newHadoopConf()


def java_array(session: "SparkSession", kind: Any, items: Sequence[Any]) -> Any:
    array = session.sparkContext._gateway.new_array(kind, len(items))  # type: ignore[union-attr]
    for index, item in enumerate(items):
        array[index] = item
    return array


def identifier(name: Any) -> str:
    """A name as Spark SQL quotes it."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise UnsafeRequest(f"{name!r} cannot be quoted: it is empty or has a control character")
    return "`" + name.replace("`", "``") + "`"


def literal(value: Any) -> str:
    """A value as Spark SQL reads it back unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str) or not value.isprintable() or "\\" in value:
        raise UnsafeRequest(f"{value!r} cannot be quoted: it has a backslash or a control character")
    return "'" + value.replace("'", "\\'") + "'"


@dataclass(frozen=True)
class ListedFile:
    path: str
    is_folder: bool
    size: int
    modified: float  # seconds since the epoch

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def list_folder(session: "SparkSession", folder: str) -> list[ListedFile]:
    """Its files and folders; nothing if there is no such folder."""
    local = canonical(folder)
    return list_local(local) if local.startswith("/") else list_stored(session, folder)


def list_local(folder: str) -> list[ListedFile]:
    found: list[ListedFile] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                is_folder = entry.is_dir(follow_symlinks=False)
                found.append(ListedFile(entry.path, is_folder, status.st_size, status.st_mtime))
    except FileNotFoundError:  # the folder, or a file that a writer has just removed
        return found if not os.path.isdir(folder) else list_local(folder)  # noqa: PTH112
    return found


def list_stored(session: "SparkSession", folder: str) -> list[ListedFile]:
    files, path = hadoop(session, folder)
    return [
        ListedFile(
            str(one.getPath().toString()), bool(one.isDirectory()), int(one.getLen()), one.getModificationTime() / 1000
        )
        for one in (files.listStatus(path) if files.exists(path) else ())
    ]


def files_below(session: "SparkSession", location: str) -> Iterator[str]:
    """Every file below, relative to the location: one flat listing where the store has one."""
    files, path = hadoop(session, location)
    found, start = files.listFiles(path, True), len(path_part(location)) + 1
    while found.hasNext():
        yield str(found.next().getPath().toUri().getPath())[start:]


def read_file(session: "SparkSession", path: str) -> bytes:
    if path.startswith("/"):
        return Path(path).read_bytes()
    files, stored = hadoop(session, path)
    return read_stream(files.open(stored))


def read_stream(stream: Any) -> bytes:
    """All bytes of a Java stream."""
    with closing(stream):
        return bytes(stream.readAllBytes())


def hadoop(session: "SparkSession", location: str) -> tuple[Any, Any]:
    """The file system of a location, and its path there."""
    path = jvm(session).org.apache.hadoop.fs.Path(location)
    return path.getFileSystem(hadoop_configuration(session)), path
