# SPDX-License-Identifier: Apache-2.0
"""Actions of tables in the care of a service: what it did for each of them, why, and by which driver."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tests.e2e.every_action import Need
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

ON_REQUEST = frozenset({("hudi", "find-duplicates")})  # never decided upon: see tests/jobs/hudi/test_find_duplicates.py


def every_action() -> Iterator[tuple[str, str]]:
    """Format and action of all factories that come with Lakehand, as far as they decide upon it."""
    ours = (one for one in entry_points(group="lakehand.process_factories") if one.module.startswith("lakehand."))
    for entry in ours:
        supported: Mapping[str, Iterable[str]] = entry.load()().supported_actions()
        found = {(name, str(action)) for name, actions in supported.items() for action in actions}
        yield from found - ON_REQUEST


class Driver:
    """What is seen of the service's driver: how often it was started, and the most memory that it had."""

    def __init__(self, service: RunningService) -> None:
        self.service = service
        self.boots: set[str] = set()
        self.peak = 0

    def session(self) -> int | None:
        return int(self.service.driver_facts().get("jvm") or 0) or None

    def is_watched(self) -> bool:
        facts = self.service.driver_facts()
        self.peak = max(self.peak, int(facts.get("rss_mb") or 0))  # Python and JVM together
        self.boots |= {facts["boot"]} if "boot" in facts else set()
        return True


@dataclass(frozen=True, kw_only=True)
class Served:
    """One action of a table in the care of a service."""

    service: RunningService
    table: int
    format: str
    action: str

    def __str__(self) -> str:
        return f"{self.format} {self.action}"

    def explained(self) -> Any:
        actions = self.service.get(f"/api/v1/tables/{self.table}/explain")["actions"]
        return next(one for one in actions if one["action"] == self.action)

    def is_at_rest(self) -> bool:
        """It was done, and evaluated since."""
        now = self.explained()
        last = now["last_finished"]
        return last is not None and not now["unfinished"] and now["evaluated_at"] > last["finished_at"]

    def look_again(self) -> None:
        """Somebody asks for another decision, and waits until it was made."""
        last = self.explained()["evaluated_at"]
        self.service.post(f"/api/v1/tables/{self.table}/evaluate")
        wait_for(lambda: self.explained()["evaluated_at"] > last and self.is_at_rest(), f"another evaluation of {self}")

    def story(self) -> list[str]:
        """Why it was done, what was done, and why it is not done again: once, at the first attempt, with an effect."""
        found = self.service.operations(table=self.table, action=self.action)
        # What an unfinished rewrite of the same table began with goes after it.
        assert len(found) == 1 or (self.action == "expire-snapshots" and len(found) == 2), found
        assert {(one["status"], one["attempts"]) for one in found} == {("succeeded", 1)}, found
        done = self.service.get(f"/api/v1/operations/{found[-1]['id']}")
        assert done["result"].get("changed", True) is True, done  # Hudi says which instants
        rows = done["result"]["verified_rows"]
        assert rows["outcome"] == "equal" or "by intent" in rows["reason"], rows
        [why] = [event["message"] for event in done["events"] if event["kind"] == "operation.stored"]
        return [why, done["reason"], self.explained()["now"]]


def register(service: RunningService, need: Need, location: Path | str, **more: str) -> list[Served]:
    """Every action has its rows compared, too."""
    table = service.add_table(
        location, *need.actions, **{**need.values, **more, "format": need.format, "properties": properties_of(need)}
    )
    return [Served(service=service, table=table, format=need.format, action=action) for action in need.actions]


def properties_of(need: Need) -> dict[str, str]:
    return {**need.values.get("properties", {}), "verify-rows": "checksum"}
