# SPDX-License-Identifier: Apache-2.0
"""Which lock options of a table reach Hudi: those of its provider, no address, and no class."""

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.locks import NoLock, lock_options, operators_path, shared_lock
from lakehand.formats.hudi.snapshot import COMPACTION
from lakehand.spi import Skip, TableConfig
from lakehand.spi.config import layered
from tests.formats.hudi.runtime import TABLES, MemoryRuntime

PREFIX = "hoodie.write.lock."
HUDIS = "org.apache.hudi.client.transaction.lock."
PATH = f"{PREFIX}filesystem.path"


def config(
    provider: str, keys: dict[str, str] | None = None, *, operators: dict[str, str] | None = None
) -> TableConfig:
    own = {PREFIX + key: value for key, value in (keys or {}).items()}
    return layered(("plugin", operators or {}), ("table", {f"{PREFIX}provider": HUDIS + provider, **own}))


def test_the_options_of_a_file_lock_are_passed_on() -> None:
    wanted = config("FileSystemBasedLockProvider", {"filesystem.path": "/data/x/.hoodie/l", "filesystem.expire": "3"})

    found = lock_options("/data/x", wanted)

    assert not isinstance(found, NoLock)
    assert (found[PATH], found[f"{PREFIX}filesystem.expire"]) == ("/data/x/.hoodie/l", "3")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/data/x/.hoodie/locks", True), ("file:/data/x/locks", True), ("/data/locks/x", True),
        ("/data/victim/.hoodie", False), ("/data/x2", False), ("/data/x/../victim/.hoodie", False), ("/data", False),
        ("/data/locks/victim/.hoodie", False), ("/data/locks2/x", False), ("locks", False), ("s3://lake/locks", False),
    ],
)  # fmt: skip
def test_a_property_names_no_lock_in_another_table(path: str, allowed: bool) -> None:
    """Hudi deletes the file of its lock when a job ends, whoever holds it."""
    operators = {"hudi.lock-folders": "/data/locks, /srv/locks"}
    wanted = config("FileSystemBasedLockProvider", {"filesystem.path": path}, operators=operators)
    found = lock_options("/data/x", wanted)

    assert isinstance(found, NoLock) is not allowed


def test_a_table_allows_itself_no_folder_for_locks() -> None:
    provider = {f"{PREFIX}provider": f"{HUDIS}FileSystemBasedLockProvider"}
    own = {**provider, PATH: "/data/victim", "hudi.lock-folders": "/data"}

    assert isinstance(lock_options("/data/x", layered(("plugin", {}), ("table", own))), NoLock)


@pytest.mark.parametrize(
    ("provider", "key", "value"),
    [
        ("FileSystemBasedLockProvider", "zookeeper.url", "evil:2181"),
        ("FileSystemBasedLockProvider", "dynamodb.endpoint_url", "http://evil"),
        ("FileSystemBasedLockProvider", "anything.new", "x"),
        ("StorageBasedLockProvider", "filesystem.path", "/etc/x"),
        ("FileSystemBasedLockProvider", "conflict.resolution.strategy", "com.example.Evil"),
        ("FileSystemBasedLockProvider", "filesystem.path", "/data/../etc"),
    ],
)
def test_a_key_that_the_provider_does_not_have_is_refused_by_its_name(provider: str, key: str, value: str) -> None:
    found = shared_lock(layered(("table", {f"{PREFIX}provider": HUDIS + provider, f"{PREFIX}{key}": value})))

    assert isinstance(found, NoLock)
    assert f"{PREFIX}{key}" in found.reason


@pytest.mark.parametrize(
    ("provider", "key", "others"),
    [
        ("ZookeeperBasedLockProvider", "zookeeper.url", {"zookeeper.base_path": "/hudi"}),
        (
            "HiveMetastoreBasedLockProvider", "hivemetastore.uris",
            {"hivemetastore.database": "d", "hivemetastore.table": "t"},
        ),
        ("DynamoDBBasedLockProvider", "dynamodb.endpoint_url", {"dynamodb.table": "t", "dynamodb.region": "r"}),
    ],
)  # fmt: skip
def test_an_address_comes_from_the_operator_of_the_service_alone(
    provider: str, key: str, others: dict[str, str]
) -> None:
    from_table = shared_lock(config(provider, {**others, key: "evil:1"}))
    from_operator = shared_lock(config(provider, others, operators={PREFIX + key: "good:1"}))

    assert isinstance(from_table, NoLock)
    assert "[plugins.process-factories.hudi]" in from_table.reason
    assert not isinstance(from_operator, NoLock)
    assert from_operator[PREFIX + key] == "good:1"


@pytest.mark.parametrize("provider", ["NoopLockProvider", "InProcessLockProvider", "SomeNewLockProvider"])
def test_a_provider_that_does_not_lock_or_is_not_known_is_no_shared_lock(provider: str) -> None:
    assert isinstance(shared_lock(config(provider)), NoLock)


def test_only_a_folder_that_the_operator_named_may_be_anywhere() -> None:
    of_table = config("FileSystemBasedLockProvider", {"filesystem.path": "/data/locks"})
    of_operator = config("FileSystemBasedLockProvider", operators={PATH: "/locks"})

    assert operators_path(of_table) is None
    assert operators_path(of_operator) == "/locks"


@pytest.mark.parametrize(("value", "is_only"), [("true", True), ("True", True), ("false", False)])
def test_the_only_writer_needs_no_lock(value: str, is_only: bool) -> None:
    assert (shared_lock(layered(("table", {"hudi.only-writer": value}))) == {}) is is_only


def test_a_value_of_only_writer_that_says_neither_is_refused_and_not_taken_for_no() -> None:
    runtime = MemoryRuntime(TABLES / "orders_v9", properties={"hudi.only-writer": "yes"})
    decision = HudiProcessFactory().trigger(runtime, COMPACTION)

    assert isinstance(decision, Skip)
    assert "hudi.only-writer" in decision.reason
    assert "true or false" in decision.reason
