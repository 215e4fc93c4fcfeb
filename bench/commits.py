# SPDX-License-Identifier: Apache-2.0
"""How many single rows a database commits in a second, one after the other, on one connection with our settings."""

import time

from sqlalchemy import Connection, text

from lakehand.store.database import Database

MAKE = text("CREATE TABLE bench_commit (n BIGINT PRIMARY KEY, note VARCHAR(250) NOT NULL)")
DROP = text("DROP TABLE bench_commit")
ADD = text("INSERT INTO bench_commit (n, note) VALUES (:n, 'a row of about the size of a small notification')")


def commit_rate(url: str, seconds: float) -> float:
    """Each row in a transaction of its own, durable before the next one begins."""
    database = Database(url)
    database.write(lambda tx: tx.execute(MAKE))
    try:
        with database.writer.connect() as connection:
            return count(connection, seconds)
    finally:
        database.write(lambda tx: tx.execute(DROP))
        database.close()


def count(connection: Connection, seconds: float) -> float:
    began, n = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        connection.execute(ADD, {"n": n})
        connection.commit()
        n += 1
    return n / (time.perf_counter() - began)
