# SPDX-License-Identifier: Apache-2.0
"""What each process does in a race: take what it can until nothing is left."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import Any

from lakehand.domain.operations import InstanceId, Status
from lakehand.store import open_store
from lakehand.store.migrate import upgrade
from tests.store.given import NOON, inbox_row, queue_of, spec

HOUR = timedelta(hours=1)
TIMEOUT = 120  # seconds until the last racer stands at the line
_line: list[Barrier] = []


def get_ready(line: Any) -> None:
    _line.append(line)


def claim_operations(url: str, name: int) -> tuple[Sequence[int], int]:
    """The operations that this racer won, one claim each, and how many it lost to others."""
    store, won, lost = open_store(url), [], 0
    holder, chance = InstanceId(f"racer-{name}"), random.Random(name)
    _line[0].wait(TIMEOUT)
    while found := queue_of(store, now=NOON, limit=200).candidates:
        wanted = chance.sample(found, k=min(50, len(found)))
        claims = [store.operations.claim(one.operation, holder=holder, now=NOON, time_to_live=HOUR) for one in wanted]
        won += [int(claim.id) for claim in claims if claim]
        lost += claims.count(None)
    store.close()
    return won, lost


def claim_schedules(url: str, name: int) -> Sequence[tuple[int, str]]:
    """A claim of which rivals took all is empty though others are due: each racer tries until all must be gone."""
    store, won = open_store(url), []
    _line[0].wait(TIMEOUT)
    for _ in range(120):
        due = store.schedules.claim_due(
            holder=InstanceId(f"racer-{name}"), now=NOON, time_to_live=HOUR, limit=20
        ).schedules
        won += [(int(schedule.table), str(schedule.action)) for schedule in due]
    store.close()
    return won


def claim_probes(url: str, name: int) -> Sequence[int]:
    """As above."""
    store, won = open_store(url), []
    _line[0].wait(TIMEOUT)
    for _ in range(60):
        won += [int(probe.table) for probe in store.probes.claim_due(now=NOON + HOUR, time_to_live=HOUR, limit=10)]
    store.close()
    return won


def notify(url: str, name: int) -> Sequence[int]:
    """Bring the same notifications as everyone else, in an order of one's own; the tables' ids in one order."""
    store = open_store(url)
    found: dict[int, int] = {}
    order = list(range(60))
    random.Random(name).shuffle(order)
    _line[0].wait(TIMEOUT)
    for start in range(0, len(order), 10):
        part = order[start : start + 10]
        rows = [inbox_row(spec(f"/w/t{n}", table_name=f"t{n}"), "20260101000000", "20260101000001") for n in part]
        arrivals = [replace(row, partitions=(f"racer={name}",)) for row in rows]
        found.update(zip(part, store.inbox.store(arrivals, [], now=NOON), strict=True))
    store.close()
    return [int(found[n]) for n in sorted(found)]


def end_operations(url: str, name: int) -> int:
    """End the operations that this racer claimed before, as fast as it can; how many."""
    store = open_store(url)
    held = store.operations.held(InstanceId(f"racer-{name}"))
    _line[0].wait(TIMEOUT)
    for one in held:
        store.operations.save(one.moved_to(Status.DROPPED, at=NOON, reason="gone"), now=NOON, wake=True)
    store.close()
    return len(held)


def migrate(url: str, name: int) -> str:
    _line[0].wait(TIMEOUT)
    return upgrade(url)
