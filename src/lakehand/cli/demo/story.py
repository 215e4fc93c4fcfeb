# SPDX-License-Identifier: Apache-2.0
"""What happens in the demo, in order: write, measure, let Lakehand work, go on writing, measure again."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from typing import Any, TypeVar

from lakehand.cli.client import Client, Document
from lakehand.cli.demo.feed import Feed
from lakehand.cli.demo.picture import Picture, picture
from lakehand.cli.demo.result import Outcome
from lakehand.cli.demo.stage import NAME, Stage
from lakehand.cli.demo.tables import Commit, DemoTable
from lakehand.cli.demo.writing import Writer
from lakehand.cli.problems import CommandFailed
from lakehand.cli.times import parsed, span
from lakehand.cli.views import FINAL
from lakehand.spi import TableFormat

PATIENCE = 300.0  # seconds for Lakehand to do its work
PACE = 0.4  # seconds between two looks at what Lakehand does
T = TypeVar("T")


class Story:
    def __init__(
        self, *, client: Client, writer: Writer, tables: Sequence[DemoTable], formats: Mapping[str, TableFormat],
        stage: Stage,
    ) -> None:  # fmt: skip
        self.client = client
        self.writer = writer
        self.tables = tables
        self.told = [table for table in tables if table.is_told]
        self.untold = [table for table in tables if not table.is_told]
        self.formats = formats
        self.stage = stage
        self.ids: dict[str, int] = {}
        self.titles: dict[int, str] = {}
        self.feed = Feed(client, stage, self.titles)
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="writer")

    def announce(self) -> None:
        """Tables whose writers report to Lakehand: paused, so that the first pictures show them as without it."""
        for table in self.told:
            self.register(table)
            self.client.post(f"/api/v1/tables/{self.ids[table.name]}/pause")
        if self.told:
            told = f"{len(self.told)} tables are registered, for their writers report to Lakehand"
            self.stage.line("demo", f"{told}; it is held back until the first pictures")

    def register(self, table: DemoTable) -> None:
        body = {"location": str(table.location), "table_name": table.name, **table.registration}
        known = self.client.post("/api/v1/tables", body)
        self.ids[table.name] = known["id"]
        self.titles[known["id"]] = table.title

    def damage(self) -> None:
        for table in self.tables:
            self.stage.heading(table.title, table.damage)
            self.write(table, table.history, "commit")
        self.stage.show("")

    def go_on(self) -> None:
        for table in self.tables:
            self.write(table, table.later, "later commit")

    def write(self, table: DemoTable, commits: Sequence[Commit], title: str) -> None:
        for number, commit in enumerate(commits, 1):
            with self.stage.waiting(f"{table.title}: {title} {number} of {len(commits)}"):
                done = self.asked(table, do="write", commit=asdict(commit))
            told = f"{title} {number} of {len(commits)}: {commit}, {span(done['seconds'])}"
            self.stage.line("writer", f"{table.title:<{NAME}} {told}")

    def pictures(self, moment: str) -> dict[str, Picture]:
        taken = {}
        for table in self.tables:
            with self.stage.waiting(f"{table.title}: reading it, for the picture {moment}"):
                seen = self.asked(table, do="read")
            taken[table.name] = shot = picture(self.formats[table.format], table.location, seen)
            told = f"{shot.rows} rows, a query opens {shot.opened} files and takes {span(shot.seconds)}"
            self.stage.line("writer", f"{table.title:<{NAME}} {moment}: {told}")
        return taken

    def let_work(self) -> None:
        """Go on with the tables that it was told of, and register the others: these it looks at by itself."""
        told, untold = ", ".join(t.name for t in self.told), ", ".join(t.name for t in self.untold)
        how = [
            f"it was told of {told} by callback" if told else "",
            f"nobody told it of {untold}: it looks" if untold else "",
        ]
        self.stage.heading("Now Lakehand may work", "; ".join(part for part in how if part))
        for table in self.told:
            self.client.post(f"/api/v1/tables/{self.ids[table.name]}/resume")
        for table in self.untold:
            self.register(table)

    def wait_for_first(self) -> None:
        self.until_settled(lambda table: table.first)

    def wait_for_all(self) -> None:
        self.until_settled(lambda table: table.expected)
        for table in self.tables:
            for one in self.explained(table):
                self.stage.line("lakehand", f"{table.title:<{NAME}} {one['action']}, looked at again: {one['now']}")

    def until_settled(self, wanted: Callable[[DemoTable], frozenset[str]]) -> None:
        deadline = time.monotonic() + PATIENCE
        with self.stage.waiting("waiting for Lakehand"):
            while left := [table for table in self.tables if not self.is_settled(table, wanted(table))]:
                if time.monotonic() > deadline:
                    raise CommandFailed(f"after {PATIENCE:.0f} s there is still work: {self.state_of(left)}")
                self.feed.tell()
                self.stage.assure(f"still at work: {self.state_of(left)}")
                time.sleep(PACE)
            self.feed.tell()

    def is_settled(self, table: DemoTable, expected: frozenset[str]) -> bool:
        """Everything expected was done, the table was looked at again, and nothing is left to do."""
        operations = self.operations(table)
        if bad := [one for one in operations if one["status"] in FINAL - {"succeeded"}]:
            raise CommandFailed(f"operation {bad[0]['id']} of {table.name} is {bad[0]['status']}: {bad[0]['reason']}")
        done = {one["action"] for one in operations if one["status"] == "succeeded"}
        return expected <= done and is_quiet(self.explained(table), self.told_at(table))

    def state_of(self, tables: Sequence[DemoTable]) -> str:
        """Those with an operation by their names, the others with what they wait for."""
        said = []
        for table in tables:
            idle = [f"{one['action']}: {one['now']}" for one in self.explained(table) if not one["unfinished"]]
            is_busy = len(idle) < len(table.registration["action_types"])
            said.append(table.title if is_busy else f"{table.title}, {', '.join(idle)}")
        return "; ".join(said)

    def explained(self, table: DemoTable) -> list[Document]:
        """What is to be said now of each action that the table is registered for."""
        found = self.client.get(f"/api/v1/tables/{self.ids[table.name]}/explain")
        return [one for one in found["actions"] if one["wanted"]]

    def operations(self, table: DemoTable) -> list[Document]:
        return list(self.client.get("/api/v1/operations", {"table": self.ids[table.name], "limit": 100})["items"])

    def told_at(self, table: DemoTable) -> str | None:
        told: str | None = self.client.get(f"/api/v1/tables/{self.ids[table.name]}")["notified_at"]
        return told

    def outcomes(self, before: Mapping[str, Picture], after: Mapping[str, Picture]) -> list[Outcome]:
        return [
            Outcome(
                name=table.name,
                format=table.format,
                before=before[table.name],
                after=after[table.name],
                operations=[(one["action"], one["status"]) for one in reversed(self.operations(table))],
                was_told=self.told_at(table) is not None,
                should_be_told=table.is_told,
            )
            for table in self.tables
        ]

    def asked(self, table: DemoTable, **command: Any) -> dict[str, Any]:
        """Let the writer do something, and tell meanwhile what Lakehand does."""
        about = {"format": table.format, "location": str(table.location), "options": dict(table.options)}
        return self.meanwhile(self.pool.submit(self.writer.ask, **about, **command))

    def meanwhile(self, future: "Future[T]") -> T:
        while not wait([future], timeout=PACE).done:
            self.feed.tell()
        self.feed.tell()
        return future.result()


def is_quiet(actions: Sequence[Document], told: str | None) -> bool:
    return all(not one["unfinished"] and is_looked_at(one, told) for one in actions)


def is_looked_at(action: Document, told: str | None) -> bool:
    """Since its last commit was told, and since its last operation ended."""
    ended = action["last_finished"]["finished_at"] if action["last_finished"] else None
    look, moments = parsed(action["last_look"]), [parsed(told), parsed(ended)]
    return look is not None and all(moment is None or look >= moment for moment in moments)
