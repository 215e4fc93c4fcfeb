# SPDX-License-Identifier: Apache-2.0
"""Which ``hoodie.write.lock.*`` options are passed on, per provider: a property must not open any folder or address."""

from collections.abc import Mapping
from dataclasses import dataclass

from lakehand.spi import TableConfig

PREFIX = "hoodie.write.lock."
SETTINGS = "[plugins.process-factories.hudi] of lakehand.toml"

# Of every provider: how long and how often to wait.
WAITING = frozenset(
    {
        "client.num_retries",
        "client.wait_time_ms_between_retry",
        "heartbeat_interval_ms",
        "max_wait_time_ms_between_retry",
        "num_retries",
        "provider",
        "wait_time_ms",
        "wait_time_ms_between_retry",
    }
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()  # where the driver would connect to: for the operator of the service to say

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
        optional=("storage.validity.timeout.secs", "storage.renew.interval.secs", "storage.heartbeat.poll.secs"),
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


def why_refused(known: Provider, name: str, config: TableConfig) -> str | None:
    """The first option that this provider does not have, or that only the operator of the service may set."""
    for key in sorted(config.starting_with(PREFIX)):
        short = key.removeprefix(PREFIX)
        if short not in known.keys:
            return (
                f"{key} is no option of {name} that is passed on: remove it from the {config.origin(key)}'s properties"
            )
        if short in known.addresses and config.origin(key) != "plugin":
            return (
                f"{key} is an address that the service's driver connects to, which a table cannot name: "
                f"set it for all tables in {SETTINGS}"
            )
    return why_bad_value(config)


def why_bad_value(config: TableConfig) -> str | None:
    strategy = config.text(PREFIX + STRATEGY)
    if strategy and strategy not in STRATEGIES:
        return f"{PREFIX}{STRATEGY} is {strategy!r}: only Hudi's own strategies are loaded"
    path = config.text(f"{PREFIX}filesystem.path")
    if ".." in path.split("/"):
        return f"{PREFIX}filesystem.path is {path!r}: a path without '..' is needed"
    return None
