# SPDX-License-Identifier: Apache-2.0
"""A table as Paimon's own classes see it: by its path, or through a catalog of the settings; every name is quoted."""

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.job import Job
from lakehand.jobs.safety import operation_tag
from lakehand.jobs.spark import activate, identifier, java_array, jvm, literal

CATALOG = "lakehand_paimon"  # of this session only: has no tables of its own, and finds them by path
BY_PATH = "paimon"
MOUNTS = "lakehand-paimon"
_CATALOG = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_OPTION = re.compile(r"[A-Za-z0-9 ._:-]+")


@dataclass(frozen=True)
class Target:
    """Where a table is found: a Spark catalog, a namespace in it, a name in that."""

    session: SparkSession
    catalog: str
    namespace: str
    name: str

    @property
    def jvm(self) -> Any:
        return jvm(self.session)

    @property
    def spark_catalog(self) -> Any:
        return self.session._jsparkSession.sessionState().catalogManager().catalog(self.catalog)

    @property
    def identifier(self) -> Any:
        namespace = self.array(self.jvm.java.lang.String, [self.namespace])
        return self.jvm.org.apache.spark.sql.connector.catalog.Identifier.of(namespace, self.name)

    def spark_table(self) -> Any:
        return self.spark_catalog.loadTable(self.identifier)

    def load(self, **options: str) -> Any:
        """The table as it is now, with these options for us alone."""
        table = self.spark_table().getTable()
        return table.copy({key.replace("_", "-"): value for key, value in options.items()}) if options else table

    def array(self, kind: Any, items: list[Any]) -> Any:
        return java_array(self.session, kind, items)

    def partition_bytes(self, entry: Any) -> bytes:
        """The partition of a split, a file or an index, as a key; the same bytes are in manifests."""
        return bytes(self.jvm.org.apache.paimon.utils.SerializationUtils.serializeBinaryRow(entry.partition()))

    def call_hidden(self, instance: Any, name: str, *arguments: Any) -> Any:
        """A method that Paimon does not make public."""
        [method] = [one for one in instance.getClass().getDeclaredMethods() if one.getName() == name]
        method.setAccessible(True)
        return method.invoke(instance, self.array(self.jvm.java.lang.Object, list(arguments)))

    def hidden_field(self, instance: Any, name: str) -> Any:
        field = instance.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(instance)

    def texts(self, entries: Any, *calls: str) -> list[str]:
        """What a chain of calls returns for each entry of a Java list, as texts: one call from here for all of them.

        A list as a result counts for its items. A text with a comma in it may come in two pieces.
        """
        if entries.isEmpty():
            return []
        methods, handle, kind = self.jvm.java.lang.invoke, None, entries.get(0).getClass()
        for call in calls:
            method = kind.getMethod(call, self.array(self.jvm.java.lang.Class, []))
            step, kind = methods.MethodHandles.publicLookup().unreflect(method), method.getReturnType()
            handle = step if handle is None else methods.MethodHandles.filterReturnValue(handle, step)
        operator = self.jvm.java.lang.Class.forName("java.util.function.UnaryOperator")
        chain = handle.asType(methods.MethodType.genericMethodType(1))  # type: ignore[union-attr]
        results = self.jvm.java.util.ArrayList(entries)
        results.replaceAll(methods.MethodHandleProxies.asInterfaceInstance(operator, chain))
        return [text for text in re.split(r", |[\[\]]", str(results.toString())) if text]

    def compact(self, options: Mapping[str, str]) -> None:
        """Paimon's procedure, with options for this call alone."""
        table = literal(f"{identifier(self.namespace)}.{identifier(self.name)}")
        self.session.sql(
            f"CALL {self.catalog}.sys.compact(table => {table}, options => {literal(option_list(options))})"
        ).collect()


def target_of(job: Job) -> Target:
    given, session = job.parameters, job.session
    activate(session)
    if given.get("catalog"):
        if not _CATALOG.fullmatch(str(given["catalog"])):
            raise ValueError(f"{given['catalog']!r} is not the name of a catalog")
        # A catalog makes its default database where there is none, in other people's warehouse: this one is there.
        session.conf.set(f"spark.sql.catalog.{given['catalog']}.defaultDatabase", str(given["db_name"]))
        return Target(session, str(given["catalog"]), str(given["db_name"]), str(given["table_name"]))
    session.conf.set(f"spark.sql.catalog.{CATALOG}", "org.apache.paimon.spark.SparkCatalog")
    session.conf.set(f"spark.sql.catalog.{CATALOG}.warehouse", scratch_warehouse(job))
    # Never the registered location: a link there may lead elsewhere by now.
    return Target(session, CATALOG, BY_PATH, job.boundary.real)


def scratch_warehouse(job: Job) -> str:
    """A catalog of Paimon's makes a database in its warehouse: not beside other people's tables.

    It opens all tables with the files of its warehouse. Hadoop's mount table is a name for the folder on this disk
    which Paimon opens by Hadoop, and with it buckets, by the credentials that Hadoop has.
    """
    if job.boundary.is_local:
        return f"file:{scratch_folder()}"
    job.session.conf.set(f"fs.viewfs.mounttable.{MOUNTS}.link./warehouse", f"file:{scratch_folder()}")
    return f"viewfs://{MOUNTS}/warehouse"


@cache
def scratch_folder() -> str:
    """A folder of this driver's own, removed when it ends."""
    folder = tempfile.mkdtemp(prefix="lakehand-paimon-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def option_list(options: Mapping[str, str]) -> str:
    if wrong := [key for key, value in options.items() if not (_OPTION.fullmatch(key) and _OPTION.fullmatch(value))]:
        raise ValueError(f"the value of {wrong[0]} cannot be passed on: {options[wrong[0]]!r}")
    return ",".join(f"{key}={value}" for key, value in options.items())


def user_of(job: Job) -> str:
    """What the commit users of an operation begin with; Paimon adds more after an underscore."""
    return f"lakehand-{operation_tag(job.parameters)}"


def snapshots(manager: Any, after: int = 0) -> Iterator[Any]:
    """By their numbers and not by what is there: one that is missing in between is an error."""
    latest, earliest = manager.latestSnapshotId(), manager.earliestSnapshotId()
    if latest is not None and earliest is not None:
        yield from (manager.snapshot(number) for number in range(max(after + 1, earliest), latest + 1))


def own_commits(table: Any, user: str, after: int) -> list[int]:
    """The snapshots that an operation has committed so far."""
    return [one.id() for one in snapshots(table.snapshotManager(), after) if one.commitUser().startswith(f"{user}_")]
