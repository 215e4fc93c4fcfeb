# SPDX-License-Identifier: Apache-2.0
"""Sessions of the dashboard in SQL: hashes of cookies, never the cookies."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, insert, select

from lakehand.domain.access import Role
from lakehand.domain.tokens import WebSession
from lakehand.store.clock import to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.schema import web_session

c = web_session.c


@dataclass(frozen=True, slots=True)
class SqlSessions:
    database: Database

    def add(self, hash: str, session: WebSession, *, now: datetime) -> None:
        row = {
            "hash": hash, "name": session.name, "role": str(session.role), "owner": session.owner,
            "seal": session.seal, "token_id": session.token, "create_time": to_millis(now),
            "end_time": to_millis(session.ends_at),
        }  # fmt: skip
        self.database.write(lambda tx: tx.execute(insert(web_session).values(row)))

    def find(self, hash: str) -> WebSession | None:
        query = select(web_session).where(c.hash == hash)
        row = self.database.read(lambda tx: tx.execute(query).one_or_none())
        return None if row is None else to_session(row)

    def end(self, hash: str) -> None:
        self.database.write(lambda tx: tx.execute(delete(web_session).where(c.hash == hash)))

    def remove_before(self, before: datetime) -> int:
        old = delete(web_session).where(c.end_time < to_millis(before))
        return self.database.write(lambda tx: int(tx.execute(old).rowcount))


def to_session(row: Row[Any]) -> WebSession:
    return WebSession(
        name=row.name, role=Role(row.role), owner=row.owner, token=row.token_id, seal=row.seal,
        ends_at=to_time(row.end_time),
    )  # fmt: skip
