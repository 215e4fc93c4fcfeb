# SPDX-License-Identifier: Apache-2.0
"""Tells what happens in the service while it happens: new events and the phases of running operations."""

from collections.abc import Mapping

from lakehand.cli.client import Client, Document
from lakehand.cli.demo.stage import NAME, Stage
from lakehand.cli.views import FINAL

UNTOLD = ("operation.waits", "table.changed")


class Feed:
    def __init__(self, client: Client, stage: Stage, names: Mapping[int, str]) -> None:
        self.client = client
        self.stage = stage
        self.names = names
        self.last_event = 0
        self.phases: dict[int, str] = {}

    def tell(self) -> None:
        """Say what is new since the last time."""
        events = self.client.get("/api/v1/events", {"limit": 100})["items"]
        for event in sorted(events, key=lambda one: int(one["id"])):
            if event["id"] > self.last_event:
                self.last_event = event["id"]
                self.tell_event(event)
        self.tell_progress()

    def tell_event(self, event: Document) -> None:
        if event["kind"] not in UNTOLD and event["table"] in self.names:
            word = event["kind"].partition(".")[2]
            number = f" {event['operation']}" if event["operation"] else ""
            self.stage.line("lakehand", f"{self.names[event['table']]:<{NAME}} {word}{number}: {event['message']}")

    def tell_progress(self) -> None:
        for operation in self.client.get("/api/v1/operations", {"limit": 50})["items"]:
            progress = operation["progress"]
            phase = str(progress.get("phase") or "")
            if operation["status"] in FINAL or not phase:
                continue
            name = self.names.get(operation["table"]["id"], "")
            tasks = f", {progress.get('tasks_done', 0)} of {progress.get('tasks_total')} tasks"
            self.stage.progress(f"{name}: {operation['action']}, {phase}{tasks if progress.get('tasks_total') else ''}")
            if self.phases.get(operation["id"]) != phase:
                self.phases[operation["id"]] = phase
                self.stage.line("lakehand", f"{name:<{NAME}} {operation['action']} {operation['id']}: {phase}")
