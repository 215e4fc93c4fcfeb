# SPDX-License-Identifier: Apache-2.0
"""The lock that the options of a job name: where its file is, and whether its classes are in the driver."""

from collections.abc import Iterator
from pathlib import Path

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.classes import require_class
from lakehand.jobs.job import Job
from lakehand.jobs.paths import is_below

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
