# SPDX-License-Identifier: Apache-2.0
"""What every Hudi job checks before it touches a table, and again before it executes a plan.

A plan of the timeline is a file that anybody with access to the table can write, and Hudi trusts it: a clean deletes
the paths in its plan, a clustering reads them, a rollback deletes what markers name, a strategy's class is loaded.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.classes import require_class
from lakehand.jobs.hudi import timelines
from lakehand.jobs.job import Job
from lakehand.jobs.paths import is_below
from lakehand.jobs.spark import jvm, list_folder, read_file

METADATA_TABLE = ".hoodie/metadata"
IDENTITY = ("hoodie.database.name", "hoodie.table.name", "hoodie.table.type")
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
FOLDERS = ("hoodie.timeline.path", "hoodie.timeline.history.path", "hoodie.archivelog.folder")
BOOTSTRAP = "hoodie.bootstrap.base.path"
MARKER_FILES = "MARKERS"
LOCK_PATH = "hoodie.write.lock.filesystem.path"
PROVIDER = "hoodie.write.lock.provider"
TABLE_FOLDERS = (".hoodie", "_delta_log", "_versions")
IN_FILE = ".FileSystemBasedLockProvider"
ON_STORAGE = ".StorageBasedLockProvider"
# What the storage-based lock loads by the scheme of the table. Hudi has each in a jar of its own, such as hudi-aws.
STORAGE_CLIENTS = {
    **dict.fromkeys(("s3", "s3a"), "org.apache.hudi.aws.transaction.lock.S3StorageLockClient"),
    **dict.fromkeys(("abfs", "abfss"), "org.apache.hudi.azure.transaction.lock.AzureStorageLockClient"),
    **dict.fromkeys(("wasb", "wasbs"), "org.apache.hudi.azure.transaction.lock.AzureStorageLockClient"),
    "gs": "org.apache.hudi.gcp.transaction.lock.GCSStorageLockClient",
}


def enter(job: Job) -> str:
    """The location to work on. Hudi plans by listing folders, so that no other table may lie below this one."""
    job.boundary.check_path()
    job.boundary.refuse_tables_below("hudi", job.boundary.files(job.session), also_own=is_own)
    check_table(job)
    refuse_foreign_lock(job)
    refuse_missing_lock(job)
    announce_lock(job)
    return job.boundary.real


def check_again(job: Job) -> None:
    """Before a plan is executed: it may have been made since, by us or by somebody else."""
    job.boundary.check()
    check_table(job)


def check_under_lock(job: Job) -> None:
    """The quick part of it: writers wait for the lock meanwhile, and a large table takes long to list."""
    job.boundary.check_path()
    check_table(job)


def is_own(folder: str) -> bool:
    return folder == METADATA_TABLE or folder.startswith(f"{METADATA_TABLE}/")


def check_table(job: Job) -> None:
    """It is the table that was admitted, and names no file outside of it.

    Hudi gives its tables no identifier: names and type must do. On local disks the folder's inode counts, too.
    """
    client = timelines.meta_client(job.session, job.boundary.real)
    properties = client.getTableConfig().getProps()
    found = " ".join(str(properties.getProperty(key) or "-") for key in IDENTITY)
    job.boundary.refuse_other_table(found, job.parameters.get("identity"))
    refuse_foreign_folders(job, properties)
    refuse_outside(job, str(client.getTimelinePath().toString()))


def refuse_foreign_folders(job: Job, properties: Any) -> None:
    """The table's own folders are relative to .hoodie; a bootstrapped table has its data somewhere else."""
    for key in FOLDERS:
        value = str(properties.getProperty(key) or ".")
        if not job.boundary.holds(value if ABSOLUTE.match(value) else f".hoodie/{value}"):
            raise OutsideTable(f"the table's {key} is {value!r}, which is not a folder of the table")
    if base := properties.getProperty(BOOTSTRAP):
        job.boundary.refuse_outside([str(base)], doing="rewrite (it is a bootstrapped table)")


def refuse_outside(job: Job, timeline: str) -> None:
    """Check everything that is pending, not only what is asked for: an execution rolls back what others left."""
    for path, document in pending_documents(job, timeline):
        job.boundary.refuse_outside(named_in(document), doing=f"delete or rewrite for {path}")
        refuse_classes(path, document)
    for path, line in marker_lines(job):
        job.boundary.refuse_outside([line.partition(".marker.")[0]], doing=f"roll back for {path}")


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
            found = value if isinstance(value, (dict, list)) else [value]
            yield from (one for one in found if isinstance(one, str) and one)
        elif isinstance(value, str) and (ABSOLUTE.match(value) or ".." in value.split("/")):
            yield value


def pairs(document: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its name, at any depth; free text is skipped."""
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


def pending_documents(job: Job, folder: str) -> Iterator[tuple[str, Any]]:
    for file in list_folder(job.session, folder):
        if PENDING.fullmatch(file.name) and file.size:
            with suppress(FileNotFoundError):  # its writer has completed or rolled it back meanwhile
                yield file.name, read_document(job, file.path)


def read_document(job: Job, path: str) -> Any:
    """Avro by its own schema, or JSON."""
    content = read_file(job.session, path)
    try:
        return json.loads(content if content[:4] != b"Obj\x01" else avro_as_json(job, content))
    except ValueError as error:
        raise OutsideTable(f"{path} cannot be read, so nobody knows what it names: {error}") from error


def avro_as_json(job: Job, content: bytes) -> str:
    java = jvm(job.session)
    avro, stream = java.org.apache.avro, java.java.io.ByteArrayInputStream(content)
    records = avro.file.DataFileStream(stream, avro.generic.GenericDatumReader())
    return str(records.next().toString()) if records.hasNext() else "{}"


def marker_lines(job: Job) -> Iterator[tuple[str, str]]:
    for folder in list_folder(job.session, f"{job.boundary.real}/.hoodie/.temp"):
        for file in list_folder(job.session, folder.path) if folder.is_folder else ():
            if file.name.startswith(MARKER_FILES) and not file.is_folder and not file.name.endswith(".type"):
                text = read_file(job.session, file.path).decode(errors="surrogateescape")
                yield from ((file.name, line) for line in text.splitlines() if line)


def refuse_foreign_lock(job: Job) -> None:
    """Hudi creates the folder of its file lock, and deletes the file in it at the end, whoever holds the lock."""
    path = job.parameters["options"].get(LOCK_PATH, "")
    if not path or path == job.parameters.get("operators_lock_path"):
        return
    real = job.boundary.real_path(path)
    if real is not None and is_below(real, job.boundary.real):
        return
    folders = [job.boundary.real_path(str(one)) for one in job.parameters.get("operators_lock_folders") or ()]
    if real is None or not any(folder and is_below(real, folder) for folder in folders):
        raise OutsideTable(
            f"{LOCK_PATH} is {path}, which is neither in the table nor in a folder that the operator of the service "
            "names for locks (hudi.lock-folders)"
        )
    if table := table_around(real):
        raise OutsideTable(f"{LOCK_PATH} is {path}, which is in another table, {table}")


def table_around(path: str) -> str | None:
    """The table that a folder is in, by the folders that tables have; on this machine also by what is there."""
    parts = path.split("/")
    for depth, name in enumerate(parts):
        if name in TABLE_FOLDERS:
            return "/".join(parts[:depth])
    above = ["/".join(parts[:depth]) for depth in range(len(parts), 1, -1)] if path.startswith("/") else []
    return next((one for one in above if any(Path(one, name).is_dir() for name in TABLE_FOLDERS)), None)


def refuse_missing_lock(job: Job) -> None:
    """Hudi's bundle has only some of the locks that Hudi knows."""
    provider = str(job.parameters["options"].get(PROVIDER, ""))
    for name in classes_of(provider, job.boundary.real):
        require_class(job, name, f"{PROVIDER}={provider}")


def classes_of(provider: str, location: str) -> Iterator[str]:
    if provider:
        yield provider
    client = STORAGE_CLIENTS.get(location.partition("://")[0])
    if client and provider.endswith(ON_STORAGE):
        yield client


def announce_lock(job: Job) -> None:
    """Let the next driver release the lock's file if this one dies with it: Hudi's own expiry takes minutes."""
    options = job.parameters["options"]
    folder = job.boundary.real_path(options.get(LOCK_PATH) or f"{job.boundary.real}/.hoodie")
    if str(options.get(PROVIDER, "")).endswith(IN_FILE) and folder and folder.startswith("/"):
        job.record.use_lock(f"{folder}/lock")
