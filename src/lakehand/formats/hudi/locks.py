# SPDX-License-Identifier: Apache-2.0
"""Locks: the second line of defence behind our lease, and the condition for planning beside a live writer.

Which ``hoodie.write.lock.*`` options are passed on depends on the provider: a property must not open any folder or
address.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lakehand.domain.errors import LocationRefused
from lakehand.domain.locations import is_under, normalise, same_scheme, storage_scheme
from lakehand.formats.hudi.context import LOCK_FOLDERS, ONLY_WRITER
from lakehand.formats.hudi.properties import FOLDER
from lakehand.spi import TableConfig
from lakehand.spi.kit.settings import read

PREFIX = "hoodie.write.lock."
SETTINGS = "[plugins.process-factories.hudi] of lakehand.toml"

# Of every provider: how long and how often to wait.
WAITING = (
    "client.num_retries", "client.wait_time_ms_between_retry", "heartbeat_interval_ms",
    "max_wait_time_ms_between_retry", "num_retries", "provider", "wait_time_ms", "wait_time_ms_between_retry",
)  # fmt: skip
STRATEGY = "conflict.resolution.strategy"
_TRANSACTION = "org.apache.hudi.client.transaction."
PREFER_WRITER = f"{_TRANSACTION}PreferWriterConflictResolutionStrategy"
STRATEGIES = frozenset(
    {
        PREFER_WRITER,
        f"{_TRANSACTION}SimpleConcurrentFileWritesConflictResolutionStrategy",
        f"{_TRANSACTION}BucketIndexConcurrentFileWritesConflictResolutionStrategy",
    }
)
PROVIDER = f"{PREFIX}provider"
PATH = f"{PREFIX}filesystem.path"
MODE = "hoodie.write.concurrency.mode"
FAILED_WRITES = "hoodie.clean.failed.writes.policy"
FAILED_WRITES_IN_0_15 = "hoodie.cleaner.policy.failed.writes"

_PACKAGE = "org.apache.hudi.client.transaction.lock."
FILE_LOCK = f"{_PACKAGE}FileSystemBasedLockProvider"
IN_PROCESS = f"{_PACKAGE}InProcessLockProvider"
STORAGE_PROVIDER = f"{_PACKAGE}StorageBasedLockProvider"
S3_CLIENT = "org.apache.hudi.aws.transaction.lock.S3StorageLockClient"  # in hudi-aws, not in Hudi's bundle
TRUSTED = "org.apache.hudi."  # a class name is code: only Hudi's own is loaded
ALONE = {
    "InProcessLockProvider": "the in-process lock of Hudi does not reach from a writer's process to ours",
    "NoopLockProvider": "Hudi's NoopLockProvider locks nothing",
}

# A lock is held for moments; one that is older than this was left by a killed job. In minutes, as Hudi has it.
EXPIRES = "3"
ATOMIC_CREATE = ("/", "file:", "hdfs:", "viewfs:")
NO_FILE_LOCK = "Hudi's file lock protects nobody on an object store, which overwrites a file that is there"
FOREIGN = (
    "which is neither in the table nor in a folder that the operator of the service names for locks: use "
    f"TABLE/{FOLDER}/locks, with all writers of the table; or let the operator set {LOCK_FOLDERS.key} in {SETTINGS}"
)
WAY_OUT = (
    f"set {PROVIDER} to one that works across processes (StorageBasedLockProvider, ZooKeeper, Hive metastore, "
    f"DynamoDB), as the table's writers have it; or {ONLY_WRITER.key}=true if nobody but Lakehand writes to the table"
)

UNCONFIGURED = (
    f"no lock is configured for the table: set {PROVIDER} and its keys as its writers have them; or "
    f"{ONLY_WRITER.key}=true if nobody but Lakehand writes to the table"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()  # what the driver connects to: only the operator may set them

    @property
    def keys(self) -> frozenset[str]:
        return frozenset({*self.needed, *self.optional, *self.addresses, *WAITING, STRATEGY})


_TIMEOUTS = ("zookeeper.session_timeout_ms", "zookeeper.connection_timeout_ms", "zookeeper.port")
_DYNAMO = Provider(
    needed=("dynamodb.table", "dynamodb.region"),
    optional=(
        "dynamodb.partition_key", "dynamodb.billing_mode", "dynamodb.read_capacity", "dynamodb.write_capacity",
        "dynamodb.table_creation_timeout",
    ),
    addresses=("dynamodb.endpoint_url",),
)  # fmt: skip
PROVIDERS: Mapping[str, Provider] = {
    "FileSystemBasedLockProvider": Provider(optional=("filesystem.path", "filesystem.expire")),
    "StorageBasedLockProvider": Provider(
        optional=("storage.validity.timeout.secs", "storage.renew.interval.secs", "storage.heartbeat.poll.secs")
    ),
    "ZookeeperBasedLockProvider": Provider(
        needed=("zookeeper.url", "zookeeper.base_path"),
        optional=("zookeeper.lock_key", *_TIMEOUTS),
        addresses=("zookeeper.url",),
    ),
    "ZookeeperBasedImplicitBasePathLockProvider": Provider(
        needed=("zookeeper.url",), optional=_TIMEOUTS, addresses=("zookeeper.url",)
    ),
    "HiveMetastoreBasedLockProvider": Provider(
        needed=("hivemetastore.database", "hivemetastore.table"), addresses=("hivemetastore.uris",)
    ),
    "DynamoDBBasedLockProvider": _DYNAMO,
    "DynamoDBBasedImplicitPartitionKeyLockProvider": _DYNAMO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLock:
    """Why there is no lock to be had, and what to do about it."""

    reason: str


def shared_lock(config: TableConfig) -> dict[str, str] | NoLock:
    """The lock that the table's writers use too, as its properties describe it; empty where there are no writers."""
    provider = config.text(PROVIDER).strip()
    if not provider:
        return {} if is_only_writer(config) else NoLock(reason=UNCONFIGURED)
    name = provider.rpartition(".")[2]
    if not provider.startswith(TRUSTED):
        return NoLock(reason=f"the lock provider {provider!r} is none of Hudi's own, and is not loaded")
    if name in ALONE:
        return NoLock(reason=ALONE[name])
    known = PROVIDERS.get(name)
    if known is None:
        return NoLock(reason=f"the lock provider {name!r} is not known here: {', '.join(sorted(PROVIDERS))}")
    return provider_options(known, name, config)


def provider_options(known: Provider, name: str, config: TableConfig) -> dict[str, str] | NoLock:
    """Only keys that this provider has, each from where it may come."""
    options = dict(config.starting_with(PREFIX))
    if why := next((why for key in sorted(options) if (why := why_refused(known, name, key, config))), None):
        return NoLock(reason=why)
    if missing := [f"{PREFIX}{key}" for key in known.needed if not config.text(f"{PREFIX}{key}")]:
        return NoLock(reason=f"{name} needs {', '.join(missing)} in the table's properties")
    return options


def why_refused(known: Provider, name: str, key: str, config: TableConfig) -> str | None:
    """Why an option is not passed on: the provider has none such, or only the operator of the service may set it."""
    short, value, origin = key.removeprefix(PREFIX), config.text(key), config.origin(key)
    if short not in known.keys:
        return f"{key} is not an option of {name} that is passed on: remove it from the {origin}'s properties"
    if short in known.addresses and origin != "plugin":
        return (
            f"{key} is an address that the service's driver connects to, which a table cannot name: "
            f"set it for all tables in {SETTINGS}"
        )
    if short == STRATEGY and value and value not in STRATEGIES:
        return f"{key} is {value!r}: only Hudi's own strategies are loaded"
    if key == PATH and ".." in value.split("/"):
        return f"{key} is {value!r}: a path without '..' is needed"
    return None


def own_lock(location: str, config: TableConfig) -> dict[str, str] | NoLock:
    """A lock among our own executions, in a folder that every instance of the service sees and no writer uses."""
    if location.startswith(ATOMIC_CREATE):
        return {
            PROVIDER: FILE_LOCK,
            PATH: f"{location}/.hoodie/.aux/lakehand",
            f"{PREFIX}filesystem.expire": EXPIRES,
            f"{PREFIX}wait_time_ms": "2000",
            f"{PREFIX}client.num_retries": "30",
            f"{PREFIX}client.wait_time_ms_between_retry": "200",
        }
    if is_only_writer(config):
        return {PROVIDER: IN_PROCESS}
    return NoLock(reason=f"{NO_FILE_LOCK}: {WAY_OUT}")


def is_only_writer(config: TableConfig) -> bool:
    return read(config, ONLY_WRITER) or False


def lock_options(location: str, config: TableConfig) -> dict[str, str] | NoLock:
    """The table's own lock where it has one, ours where not. A half-configured lock is an error, never replaced."""
    chosen = shared_lock(config) if config.text(PROVIDER).strip() else own_lock(location, config)
    if isinstance(chosen, NoLock):
        return chosen
    if is_file_lock_on_objects(location, chosen):
        return NoLock(reason=f"{NO_FILE_LOCK}: {WAY_OUT}")
    if PATH in chosen and not may_lock_in(chosen[PATH], location, config):
        return NoLock(reason=f"{PATH} is {chosen[PATH]!r}, {FOREIGN}")
    mode = config.text(MODE, "optimistic_concurrency_control")
    return {**chosen, "hoodie.auto.adjust.lock.configs": "false", MODE: mode, FAILED_WRITES: "LAZY"}


def storage_client(location: str) -> str | None:
    """The class that the storage-based lock needs beside itself, where we know it. The job looks for it again."""
    return S3_CLIENT if storage_scheme(location) == "s3" else None


def is_file_lock_on_objects(location: str, options: Mapping[str, str]) -> bool:
    folder = options.get(PATH) or location
    return options[PROVIDER].endswith(FILE_LOCK.rpartition(".")[2]) and not folder.startswith(ATOMIC_CREATE)


def may_lock_in(folder: str, location: str, config: TableConfig) -> bool:
    """Hudi deletes the file of its lock at the end, whoever holds it: a property must not name another table's lock.

    The job follows links and looks for tables around the folder.
    """
    if folder == operators_path(config):
        return True
    try:
        path = same_scheme(normalise(folder))
    except LocationRefused:
        return False
    if is_under(path, same_scheme(location)):
        return True
    return FOLDER not in path.split("/") and any(is_under(path, one) for one in operators_folders(config))


def operators_folders(config: TableConfig) -> list[str]:
    """Where the operator of the service allows locks outside of their tables."""
    named = config.text(LOCK_FOLDERS.key) if config.origin(LOCK_FOLDERS.key) == "plugin" else ""
    return [same_scheme(normalise(part.strip())) for part in named.split(",") if part.strip()]


def operators_path(config: TableConfig) -> str | None:
    """The lock's folder if the operator of the service named it: it may lie outside of the warehouses."""
    return config.text(PATH) if config.origin(PATH) == "plugin" else None


def is_lazy(config: TableConfig) -> bool:
    """Whether the table says that its writers leave failed writes to be rolled back later, and send heartbeats."""
    return (config.text(FAILED_WRITES) or config.text(FAILED_WRITES_IN_0_15)).upper() == "LAZY"
