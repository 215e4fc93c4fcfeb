# SPDX-License-Identifier: Apache-2.0
"""Tokens in SQL: hashes of secrets, never the secrets."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from lakehand.domain.access import Role
from lakehand.domain.errors import NotFound
from lakehand.domain.tokens import NewToken, Token, TokenId
from lakehand.store.clock import to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.schema import api_token

c = api_token.c


@dataclass(frozen=True, slots=True)
class SqlTokens:
    database: Database

    def add(self, new: NewToken, *, by: str, now: datetime) -> Token:
        row = {
            "name": new.name, "role": str(new.role), "owner": new.owner, "hash": new.hash, "create_by": by,
            "create_time": to_millis(now), "expire_time": None if new.expires_at is None else to_millis(new.expires_at),
        }  # fmt: skip

        def write(tx: Connection) -> Token:
            tx.execute(insert(api_token).values(row))
            return to_token(tx.execute(select(api_token).where(c.hash == new.hash)).one())

        return self.database.write(write)

    def list(self) -> Sequence[tuple[str, Token]]:
        rows = self.database.read(lambda tx: tx.execute(select(api_token).order_by(c.token_id)).all())
        return [(row.hash, to_token(row)) for row in rows]

    def get(self, id: TokenId) -> Token:
        return self.database.read(lambda tx: token_of(tx, id))

    def revoke(self, id: TokenId, *, now: datetime) -> Token:
        def write(tx: Connection) -> Token:
            is_valid = c.revoke_time.is_(None)
            tx.execute(update(api_token).where(c.token_id == id, is_valid).values(revoke_time=to_millis(now)))
            return token_of(tx, id)

        return self.database.write(write)

    def note_use(self, ids: Collection[TokenId], *, now: datetime) -> None:
        used = update(api_token).where(c.token_id.in_(sorted(ids))).values(use_time=to_millis(now))
        self.database.write(lambda tx: tx.execute(used))


def token_of(tx: Connection, id: TokenId) -> Token:
    row = tx.execute(select(api_token).where(c.token_id == id)).one_or_none()
    if row is None:
        raise NotFound(f"there is no token {id}: see lakehand tokens list")
    return to_token(row)


def to_token(row: Row[Any]) -> Token:
    times = {
        name: None if value is None else to_time(value)
        for name, value in (
            ("expires_at", row.expire_time), ("revoked_at", row.revoke_time), ("used_at", row.use_time)
        )
    }  # fmt: skip
    return Token(
        id=TokenId(row.token_id), name=row.name, role=Role(row.role), owner=row.owner, created_by=row.create_by,
        created_at=to_time(row.create_time), **times,
    )  # fmt: skip
