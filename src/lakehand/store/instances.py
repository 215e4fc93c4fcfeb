# SPDX-License-Identifier: Apache-2.0
"""The instances of the service, by their heartbeats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from lakehand.core.ports import Instance
from lakehand.domain.operations import InstanceId
from lakehand.domain.processes import Json
from lakehand.store.clock import to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.documents import from_document, to_document
from lakehand.store.schema import instance


@dataclass(frozen=True, slots=True)
class SqlInstances:
    database: Database

    def heartbeat(self, id: InstanceId, *, host: str, version: str, detail: Mapping[str, Json], now: datetime) -> None:
        seen = {"host": host, "version": version, "detail": to_document(detail), "beat_time": to_millis(now)}

        def write(tx: Connection) -> None:
            known = tx.execute(update(instance).where(instance.c.instance_id == id).values(seen))
            if known.rowcount == 0:
                tx.execute(insert(instance).values(instance_id=id, start_time=to_millis(now), **seen))

        self.database.write(write)

    def list(self) -> Sequence[Instance]:
        query = select(instance).order_by(instance.c.start_time, instance.c.instance_id)
        return [
            Instance(
                id=InstanceId(row.instance_id),
                host=row.host,
                version=row.version,
                started_at=to_time(row.start_time),
                seen_at=to_time(row.beat_time),
                detail=from_document(row.detail),
            )
            for row in self.database.read(lambda tx: tx.execute(query).all())
        ]

    def remove_before(self, before: datetime) -> int:
        gone = delete(instance).where(instance.c.beat_time < to_millis(before))
        return self.database.write(lambda tx: tx.execute(gone).rowcount)
