# SPDX-License-Identifier: Apache-2.0
"""What a table's pending plans, markers and properties name: Hudi deletes, reads and loads whatever stands there.

A plan of the timeline is a file that anybody with access to the table can write, and Hudi believes it: a clean deletes
the paths in its plan, a clustering reads them, a rollback deletes what markers name, a strategy's class is loaded.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.hudi import timelines
from lakehand.jobs.job import Job

PENDING = re.compile(r"\d+\.[a-z]+\.(requested|inflight)|\d+\.inflight")
ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
PATHS = frozenset(
    {"dataFilePath", "deltaFilePaths", "bootstrapFilePath", "filePath", "filesToBeDeleted", "path", "baseFile"}
    | {"partitionPath", "partitionsToBeDeleted", "logBlocksToBeDeleted"}
)
BY_PARTITION = frozenset({"filesToBeDeletedPerPartition", "filePathsToBeDeletedPerPartition", "partitionToWriteStats"})
CLASSES = frozenset({"strategyClassName", "compactorClassName"})
TRUSTED = "org.apache.hudi."  # a class name is code: only Hudi's own is loaded
FREE_TEXT = frozenset({"extraMetadata", "schema"})
PLACES = ("hoodie.timeline.path", "hoodie.timeline.history.path", "hoodie.archivelog.folder")
FOREIGN = "hoodie.bootstrap.base.path"
MARKER_FILES = "MARKERS"


def refuse_outside(job: Job) -> None:
    """Look at everything that is pending, not only at what is asked for: an execution rolls back what others left."""
    client = timelines.meta_client(job.session, job.boundary.real)
    properties = {str(key): str(value) for key, value in dict(client.getTableConfig().getProps()).items()}
    refuse_places(job, properties)
    for path, document in pending_documents(job, str(client.getTimelinePath().toString())):
        job.boundary.refuse_outside(named_in(document), doing=f"delete or rewrite for {path}")
        refuse_classes(path, document)
    for path, line in marker_lines(job):
        job.boundary.refuse_outside([line.partition(".marker.")[0]], doing=f"roll back for {path}")


def refuse_places(job: Job, properties: dict[str, str]) -> None:
    """The table's own folders are relative to .hoodie; a bootstrapped table has its data somewhere else."""
    for key in PLACES:
        value = properties.get(key) or "."
        if not job.boundary.holds(value if ABSOLUTE.match(value) else f".hoodie/{value}"):
            raise OutsideTable(f"the table's {key} is {value!r}, which is no folder of the table")
    if base := properties.get(FOREIGN):
        job.boundary.refuse_outside([base], doing="rewrite (it is a bootstrapped table)")


def refuse_classes(path: str, document: Any) -> None:
    for key, value in pairs(document):
        if key in CLASSES and isinstance(value, str) and value and not value.startswith(TRUSTED):
            raise OutsideTable(f"{path} names the class {value!r}, which is none of Hudi's own and is not loaded")


def named_in(document: Any) -> Iterator[str]:
    """Every path of a plan, as it is or relative to the table."""
    for key, value in pairs(document):
        if key in BY_PARTITION and isinstance(value, dict):
            yield from value
            names = ((folder, name) for folder, found in value.items() for name in found or () if isinstance(name, str))
            yield from (name if ABSOLUTE.match(name) else f"{folder}/{name}".lstrip("/") for folder, name in names)
        elif key in PATHS:
            yield from (one for one in texts(value) if one)
        elif isinstance(value, str) and (ABSOLUTE.match(value) or ".." in value.split("/")):
            yield value


def pairs(document: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with the name that it has, at any depth; free text is not looked into."""
    if key in FREE_TEXT:
        return
    if key:
        yield key, document
    if isinstance(document, dict):
        for name, value in document.items():
            yield from pairs(value, name)
    elif isinstance(document, list):
        for value in document:
            yield from pairs(value, "" if isinstance(value, (dict, list)) else key)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        yield from (one for one in value if isinstance(one, str))


def pending_documents(job: Job, folder: str) -> Iterator[tuple[str, Any]]:
    for status in listed(job, folder):
        name = str(status.getPath().getName())
        if PENDING.fullmatch(name) and status.getLen():
            yield name, read_document(job, status.getPath())


def read_document(job: Job, path: Any) -> Any:
    """Avro by its own schema, or JSON."""
    content = read_bytes(job, path)
    try:
        if content[:4] != b"Obj\x01":
            return json.loads(content)
        avro = java(job).org.apache.avro
        records = avro.file.DataFileStream(file_system(job).open(path), avro.generic.GenericDatumReader())
        try:
            return json.loads(str(records.next().toString())) if records.hasNext() else {}
        finally:
            records.close()
    except ValueError as error:
        raise OutsideTable(f"{path} cannot be read, so nobody knows what it names: {error}") from error


def marker_lines(job: Job) -> Iterator[tuple[str, str]]:
    for folder in listed(job, f"{job.boundary.real}/.hoodie/.temp"):
        for status in listed(job, str(folder.getPath().toString())) if folder.isDirectory() else ():
            name = str(status.getPath().getName())
            if name.startswith(MARKER_FILES) and status.isFile() and not name.endswith(".type"):
                text = read_bytes(job, status.getPath()).decode(errors="surrogateescape")
                yield from ((name, line) for line in text.splitlines() if line)


def listed(job: Job, folder: str) -> list[Any]:
    path = java(job).org.apache.hadoop.fs.Path(folder)
    files = file_system(job)
    return list(files.listStatus(path)) if files.exists(path) else []


def read_bytes(job: Job, path: Any) -> bytes:
    stream = file_system(job).open(path)
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()


def file_system(job: Job) -> Any:
    root = java(job).org.apache.hadoop.fs.Path(job.boundary.real)
    return root.getFileSystem(job.session._jsparkSession.sessionState().newHadoopConf())


def java(job: Job) -> Any:
    return job.session.sparkContext._jvm
