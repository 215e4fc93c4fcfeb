# SPDX-License-Identifier: Apache-2.0
"""What happens in the demo, in order: write, measure, let Lakehand work, go on writing, measure again."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from lakehand.cli.client import Client, Document
from lakehand.cli.demo.feed import Feed
from lakehand.cli.demo.picture import Picture, picture
from lakehand.cli.demo.stage import Stage
from lakehand.cli.demo.tables import Commit, DemoTable
from lakehand.cli.demo.writing import Writer
from lakehand.cli.problems import CommandFailed
from lakehand.cli.times import parsed, span
from lakehand.cli.views import FINAL

PATIENCE = 240.0  # seconds for Lakehand to do its work
PACE = 0.4  # seconds between two looks at what Lakehand does
T = TypeVar("T")


class Story:
    def __init__(self, *, client: Client, writer: Writer, tables: Sequence[DemoTable], stage: Stage) -> None:
        self.client = client
        self.writer = writer
        self.tables = tables
        self.stage = stage
        self.ids: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.feed = Feed(client, stage, self.names)
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="writer")

    def register(self) -> None:
        """Paused, so that the first pictures show the tables as they would be without Lakehand."""
        for table in self.tables:
            body = {"location": str(table.location), "table_name": table.name, **table.registration}
            known = self.client.post("/api/v1/tables", body)
            self.ids[table.name] = known["id"]
            self.names[known["id"]] = table.name
            self.client.post(f"/api/v1/tables/{known['id']}/pause")
        self.stage.line("demo", "both tables are registered; Lakehand is held back until the first pictures are taken")

    def write(self, table: DemoTable, commits: Sequence[Commit], title: str) -> None:
        for number, commit in enumerate(commits, 1):
            with self.stage.waiting(f"{table.name}: {title} {number} of {len(commits)}"):
                done = self.asked(
                    do="write", location=str(table.location), options=dict(table.options), operation=commit.operation,
                    first=commit.first, rows=commit.rows, batch=commit.batch,
                )  # fmt: skip
            told = f"{commit.operation} of {commit.rows} rows, {span(done['seconds'])}"
            self.stage.line("writer", f"{table.name:<7} {title} {number} of {len(commits)}: {told}")

    def pictures(self, title: str) -> dict[str, Picture]:
        taken = {}
        for table in self.tables:
            with self.stage.waiting(f"{table.name}: reading it, for the picture {title}"):
                seen = self.asked(do="read", location=str(table.location))
            taken[table.name] = picture(table.location, seen)
            told = f"{seen['rows']} rows, a query takes {span(seen['seconds'])}"
            self.stage.line("writer", f"{table.name:<7} picture {title}: {told}")
        return taken

    def resume(self) -> None:
        for table in self.tables:
            self.client.post(f"/api/v1/tables/{self.ids[table.name]}/resume")
        self.stage.line("demo", "now Lakehand may work; it was told of every commit by callback")

    def wait_for_first(self) -> None:
        with self.stage.waiting("waiting for Lakehand"):
            self.until(lambda: all(self.is_settled(table, table.first) for table in self.tables))

    def wait_for_all(self) -> None:
        with self.stage.waiting("waiting for Lakehand"):
            self.until(lambda: all(self.is_settled(table, table.expected) for table in self.tables))

    def is_settled(self, table: DemoTable, expected: frozenset[str]) -> bool:
        """Everything expected was done, the last commit was looked at, and nothing is left to do."""
        operations = self.operations(table)
        if bad := [one for one in operations if one["status"] in FINAL - {"succeeded"}]:
            raise CommandFailed(f"operation {bad[0]['id']} of {table.name} is {bad[0]['status']}: {bad[0]['reason']}")
        done = {one["action"] for one in operations if one["status"] == "succeeded"}
        explained = self.client.get(f"/api/v1/tables/{self.ids[table.name]}/explain")
        return expected <= done and is_quiet(explained)

    def operations(self, table: DemoTable) -> list[Document]:
        return list(self.client.get("/api/v1/operations", {"table": self.ids[table.name], "limit": 100})["items"])

    def was_told(self, table: DemoTable) -> bool:
        return bool(self.client.get(f"/api/v1/tables/{self.ids[table.name]}")["notified_at"])

    def asked(self, **command: Any) -> dict[str, Any]:
        """Let the writer do something, and tell meanwhile what Lakehand does."""
        return self.meanwhile(self.pool.submit(self.writer.ask, **command))

    def meanwhile(self, future: "Future[T]") -> T:
        while not wait([future], timeout=PACE).done:
            self.feed.tell()
        self.feed.tell()
        return future.result()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise CommandFailed(f"Lakehand was not ready with the tables within {PATIENCE:.0f} s")
            self.feed.tell()
            time.sleep(PACE)
        self.feed.tell()


def is_quiet(explained: Document) -> bool:
    told = parsed(explained["table"]["notified_at"])
    wanted = [one for one in explained["actions"] if one["wanted"]]
    looks = [parsed(one["last_look"]) for one in wanted]
    looked = all(look is not None and (told is None or look >= told) for look in looks)
    return looked and not any(one["unfinished"] for one in wanted)
