# SPDX-License-Identifier: Apache-2.0
"""A table as Paimon's own classes see it: by its path, or through a catalog of the settings; every name is quoted."""

import atexit
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.job import Job

CATALOG = "lakehand_paimon"  # of this session only: knows no tables of its own, and finds them by path
BY_PATH = "paimon"
_CATALOG = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,120}")
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
        return self.session.sparkContext._jvm

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
        made = self.session.sparkContext._gateway.new_array(kind, len(items))  # type: ignore[union-attr]
        for place, item in enumerate(items):
            made[place] = item
        return made

    def texts(self, entries: Any, *calls: str) -> list[str]:
        """What a chain of calls answers for each entry of a Java list, as texts: one call from here for all of them.

        A list as an answer counts for its items. A text with a comma in it may come in two pieces.
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
        answers = self.jvm.java.util.ArrayList(entries)
        answers.replaceAll(methods.MethodHandleProxies.asInterfaceInstance(operator, chain))
        return [text for text in re.split(r", |[\[\]]", str(answers.toString())) if text]

    def compact(self, options: Mapping[str, str]) -> None:
        """Paimon's procedure, with options for this call alone."""
        table = literal(f"{quoted(self.namespace)}.{quoted(self.name)}")
        self.session.sql(
            f"CALL {self.catalog}.sys.compact(table => {table}, options => {literal(joined(options))})"
        ).collect()


def target_of(job: Job) -> Target:
    given = job.parameters
    # Spark looks for catalogs, and Paimon for settings, in the session that is active in this thread.
    job.session.sparkContext._jvm.SparkSession.setActiveSession(job.session._jsparkSession)  # type: ignore[union-attr]
    if given.get("catalog"):
        if not _CATALOG.fullmatch(str(given["catalog"])):
            raise ValueError(f"{given['catalog']!r} is no name of a catalog")
        return Target(job.session, str(given["catalog"]), str(given["db_name"]), str(given["table_name"]))
    location = job.boundary.real  # never the registered one: a link there may lead elsewhere by now
    job.session.conf.set(f"spark.sql.catalog.{CATALOG}", "org.apache.paimon.spark.SparkCatalog")
    # A catalog of Paimon's makes a database in its warehouse: not beside other people's tables.
    job.session.conf.set(f"spark.sql.catalog.{CATALOG}.warehouse", f"file:{scratch()}")
    return Target(job.session, CATALOG, BY_PATH, location)


@cache
def scratch() -> str:
    """A folder of this driver's own, gone when it ends."""
    folder = tempfile.mkdtemp(prefix="lakehand-paimon-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    if not text.isprintable() or "\\" in text:
        raise ValueError(f"{text!r} cannot be quoted: it has a backslash or a control character")
    return "'" + text.replace("'", "\\'") + "'"


def joined(options: Mapping[str, str]) -> str:
    if wrong := [key for key, value in options.items() if not (_OPTION.fullmatch(key) and _OPTION.fullmatch(value))]:
        raise ValueError(f"the value of {wrong[0]} cannot be passed on: {options[wrong[0]]!r}")
    return ",".join(f"{key}={value}" for key, value in options.items())


def user_of(tag: Any) -> str:
    """What the commit users of an operation begin with; Paimon adds more after a line."""
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise ValueError(f"{tag!r} is no operation tag")
    return f"lakehand-{tag}"


def committed(table: Any, user: str, after: int) -> list[int]:
    """The snapshots that an operation has committed so far."""
    manager = table.snapshotManager()
    latest, earliest = manager.latestSnapshotId(), manager.earliestSnapshotId()
    if latest is None or earliest is None:
        return []
    numbers = range(max(after + 1, earliest), latest + 1)
    return [n for n in numbers if manager.snapshot(n).commitUser().startswith(f"{user}_")]
