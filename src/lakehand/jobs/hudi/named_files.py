# SPDX-License-Identifier: Apache-2.0
"""What a table's pending plans, markers and properties name: Hudi deletes, reads and loads whatever stands there.

A plan of the timeline is a file that anybody with access to the table can write, and Hudi believes it: a clean deletes
the paths in its plan, a clustering reads them, a rollback deletes what markers name, a strategy's class is loaded.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.hudi import files
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


def refuse_outside(job: Job, client: Any) -> None:
    """Look at everything that is pending, not only at what is asked for: an execution rolls back what others left."""
    refuse_places(job, client.getTableConfig().getProps())
    for path, document in pending_documents(job, str(client.getTimelinePath().toString())):
        job.boundary.refuse_outside(named_in(document), doing=f"delete or rewrite for {path}")
        refuse_classes(path, document)
    for path, line in marker_lines(job):
        job.boundary.refuse_outside([line.partition(".marker.")[0]], doing=f"roll back for {path}")


def refuse_places(job: Job, properties: Any) -> None:
    """The table's own folders are relative to .hoodie; a bootstrapped table has its data somewhere else."""
    for key in PLACES:
        value = str(properties.getProperty(key) or ".")
        if not job.boundary.holds(value if ABSOLUTE.match(value) else f".hoodie/{value}"):
            raise OutsideTable(f"the table's {key} is {value!r}, which is no folder of the table")
    if base := properties.getProperty(FOREIGN):
        job.boundary.refuse_outside([str(base)], doing="rewrite (it is a bootstrapped table)")


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
    for file in files.list_folder(job, folder):
        if PENDING.fullmatch(file.name) and file.size:
            with suppress(FileNotFoundError):  # its writer has completed or rolled it back meanwhile
                yield file.name, read_document(job, file.path)


def read_document(job: Job, path: str) -> Any:
    """Avro by its own schema, or JSON."""
    content = files.read_file(job, path)
    try:
        return json.loads(content if content[:4] != b"Obj\x01" else avro_as_json(job, content))
    except ValueError as error:
        raise OutsideTable(f"{path} cannot be read, so nobody knows what it names: {error}") from error


def avro_as_json(job: Job, content: bytes) -> str:
    java = files.java(job)
    avro = java.org.apache.avro
    stream = java.java.io.ByteArrayInputStream(content)
    records = avro.file.DataFileStream(stream, avro.generic.GenericDatumReader())
    return str(records.next().toString()) if records.hasNext() else "{}"


def marker_lines(job: Job) -> Iterator[tuple[str, str]]:
    for folder in files.list_folder(job, f"{job.boundary.real}/.hoodie/.temp"):
        for file in files.list_folder(job, folder.path) if folder.is_folder else ():
            if file.name.startswith(MARKER_FILES) and not file.is_folder and not file.name.endswith(".type"):
                text = files.read_file(job, file.path).decode(errors="surrogateescape")
                yield from ((file.name, line) for line in text.splitlines() if line)
