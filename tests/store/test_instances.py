# SPDX-License-Identifier: Apache-2.0
"""Instances: who is there, by their own word."""

from lakehand.core.ports import Instance, Store
from lakehand.domain.operations import InstanceId
from tests.store.given import HOUR, MINUTE, NOON, ONE, TWO


def heartbeat(store: Store, id: InstanceId, after: int, **detail: str) -> None:
    store.instances.heartbeat(id, host="h", version="1.0", detail=detail, now=NOON + after * MINUTE)


def test_an_instance_is_seen_from_its_first_heartbeat_to_its_last(store: Store) -> None:
    heartbeat(store, ONE, 0, port="1")
    heartbeat(store, ONE, 5, port="2")

    assert store.instances.list() == [
        Instance(
            id=ONE, host="h", version="1.0", started_at=NOON, seen_at=NOON + 5 * MINUTE, detail={"port": "2"}
        )
    ]  # fmt: skip


def test_instances_that_are_long_gone_are_removed(store: Store) -> None:
    heartbeat(store, ONE, 0)
    heartbeat(store, TWO, 60)

    assert store.instances.remove_before(NOON + HOUR) == 1
    assert [i.id for i in store.instances.list()] == [TWO]
