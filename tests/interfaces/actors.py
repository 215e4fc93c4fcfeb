# SPDX-License-Identifier: Apache-2.0
"""The same requests, made through each interface as its users make them."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import grpc
import httpx
from google.protobuf.duration_pb2 import Duration
from typer.testing import CliRunner

from lakehand.cli import app
from lakehand.client import LakehandClient, RequestFailed
from tests.rpc.parts import BY_NAME, STUBS


class Actor(Protocol):
    """Somebody with an operator's token. Tables, operations and alerts are named by their ids."""

    def add_table(self, location: str) -> None: ...
    def change(self, table: int, priority: int, actions: list[str]) -> None: ...
    def pause(self, table: int) -> None: ...
    def resume(self, table: int) -> None: ...
    def evaluate(self, table: int) -> None: ...
    def submit(self, table: int, action: str, *, dry_run: bool = False, verify_rows: bool = False) -> None: ...
    def cancel(self, operation: int) -> None: ...
    def retry(self, operation: int) -> None: ...
    def silence(self, alert: int, hours: int) -> None: ...
    def sync(self, catalog: str) -> None: ...


MakeActor = Callable[[str, str], Actor]  # from the address of the service and a token


class ByRest:
    """Requests as they are in the API's description."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.http = httpx.Client(base_url=f"{url}/api/v1", headers=headers)

    def close(self) -> None:
        self.http.close()

    def send(self, method: str, path: str, body: Any = None) -> None:
        self.http.request(method, path, json=body)

    def add_table(self, location: str) -> None:
        self.send("POST", "/tables", {"location": location, "format": "hudi"})

    def change(self, table: int, priority: int, actions: list[str]) -> None:
        self.send("PATCH", f"/tables/{table}", {"priority": priority, "action_types": actions})

    def pause(self, table: int) -> None:
        self.send("POST", f"/tables/{table}/pause")

    def resume(self, table: int) -> None:
        self.send("POST", f"/tables/{table}/resume")

    def evaluate(self, table: int) -> None:
        self.send("POST", f"/tables/{table}/evaluate")

    def submit(self, table: int, action: str, *, dry_run: bool = False, verify_rows: bool = False) -> None:
        body = {"table": table, "action": action, "dry_run": dry_run}
        self.send("POST", "/operations", body | ({"verify_rows": "checksum"} if verify_rows else {}))

    def cancel(self, operation: int) -> None:
        self.send("POST", f"/operations/{operation}/cancel")

    def retry(self, operation: int) -> None:
        self.send("POST", f"/operations/{operation}/retry")

    def silence(self, alert: int, hours: int) -> None:
        self.send("POST", f"/alerts/{alert}/silence", {"duration": hours * 3600})

    def sync(self, catalog: str) -> None:
        self.send("POST", f"/catalogs/{catalog}/sync", {})


class ByCommand:
    """Commands as they are typed."""

    def __init__(self, url: str, token: str) -> None:
        self.where = ["--url", url, "--token", token]

    def close(self) -> None: ...

    def type_in(self, *words: object) -> None:
        CliRunner().invoke(app, [*map(str, words), *self.where])

    def add_table(self, location: str) -> None:
        self.type_in("tables", "add", location, "--format", "hudi")

    def change(self, table: int, priority: int, actions: list[str]) -> None:
        self.type_in("tables", "change", table, "--priority", priority, "--actions", ",".join(actions))

    def pause(self, table: int) -> None:
        self.type_in("tables", "pause", table)

    def resume(self, table: int) -> None:
        self.type_in("tables", "resume", table)

    def evaluate(self, table: int) -> None:
        self.type_in("tables", "evaluate", table)

    def submit(self, table: int, action: str, *, dry_run: bool = False, verify_rows: bool = False) -> None:
        flags = [*(["--dry-run"] if dry_run else []), *(["--verify-rows", "checksum"] if verify_rows else [])]
        self.type_in("operations", "submit", table, action, *flags)

    def cancel(self, operation: int) -> None:
        self.type_in("operations", "cancel", operation)

    def retry(self, operation: int) -> None:
        self.type_in("operations", "retry", operation)

    def silence(self, alert: int, hours: int) -> None:
        self.type_in("alerts", "silence", alert, f"{hours}h")

    def sync(self, catalog: str) -> None:
        self.type_in("catalogs", "sync", catalog)


class ByDashboard:
    """Forms as the pages send them."""

    def __init__(self, url: str, token: str) -> None:
        kind = "application/x-www-form-urlencoded"
        headers = {"Origin": url, "Sec-Fetch-Site": "same-origin", "Content-Type": kind}
        self.http = httpx.Client(base_url=url, headers=headers)
        self.send("/sign-in", token=token)

    def close(self) -> None:
        self.http.close()

    def send(self, path: str, **fields: Any) -> None:
        self.http.post(path, data=fields)

    def add_table(self, location: str) -> None:
        self.send("/start", table=location)

    def change(self, table: int, priority: int, actions: list[str]) -> None:
        """The form sends all of its fields."""
        self.send(f"/tables/{table}/change", owner="default", queue="default", priority=priority, action_types=actions)

    def pause(self, table: int) -> None:
        self.send(f"/tables/{table}/pause")

    def resume(self, table: int) -> None:
        self.send(f"/tables/{table}/resume")

    def evaluate(self, table: int) -> None:
        self.send(f"/tables/{table}/evaluate")

    def submit(self, table: int, action: str, *, dry_run: bool = False, verify_rows: bool = False) -> None:
        ticks = {"dry_run": "1" if dry_run else "", "verify_rows": "checksum" if verify_rows else ""}
        self.send(f"/tables/{table}/run", action=action, **{name: tick for name, tick in ticks.items() if tick})

    def cancel(self, operation: int) -> None:
        self.send(f"/operations/{operation}/cancel")

    def retry(self, operation: int) -> None:
        self.send(f"/operations/{operation}/retry")

    def silence(self, alert: int, hours: int) -> None:
        self.send(f"/alerts/{alert}/silence", hours=hours)

    def sync(self, catalog: str) -> None:
        self.send(f"/catalogs/{catalog}/sync")


class ByClient:
    """Calls of the typed client."""

    def __init__(self, url: str, token: str) -> None:
        self.client = LakehandClient(url, token)

    def close(self) -> None:
        self.client.close()

    def add_table(self, location: str) -> None:
        with suppress(RequestFailed):
            self.client.tables.add(location, format="hudi")

    def change(self, table: int, priority: int, actions: list[str]) -> None:
        with suppress(RequestFailed):
            self.client.tables.change(table, priority=priority, action_types=actions)

    def pause(self, table: int) -> None:
        with suppress(RequestFailed):
            self.client.tables.pause(table)

    def resume(self, table: int) -> None:
        with suppress(RequestFailed):
            self.client.tables.resume(table)

    def evaluate(self, table: int) -> None:
        with suppress(RequestFailed):
            self.client.tables.evaluate(table)

    def submit(self, table: int, action: str, *, dry_run: bool = False, verify_rows: bool = False) -> None:
        with suppress(RequestFailed):
            how = "checksum" if verify_rows else None
            self.client.operations.submit(table, action, dry_run=dry_run, verify_rows=how)

    def cancel(self, operation: int) -> None:
        with suppress(RequestFailed):
            self.client.operations.cancel(operation)

    def retry(self, operation: int) -> None:
        with suppress(RequestFailed):
            self.client.operations.retry(operation)

    def silence(self, alert: int, hours: int) -> None:
        with suppress(RequestFailed):
            self.client.alerts.silence(alert, hours * 3600)

    def sync(self, catalog: str) -> None:
        with suppress(RequestFailed):
            self.client.catalogs.sync(catalog)


class ByRpc:
    """Calls of the generated gRPC client."""

    def __init__(self, address: str, token: str) -> None:
        self.channel, self.metadata = grpc.insecure_channel(address), (("authorization", f"Bearer {token}"),)

    def close(self) -> None:
        self.channel.close()

    def call(self, rpc: str, **fields: Any) -> None:
        method = BY_NAME[rpc]
        stub = STUBS[rpc.partition(".")[0]](self.channel)
        with suppress(grpc.RpcError):
            getattr(stub, rpc.partition(".")[2])(method.request(**fields), metadata=self.metadata, timeout=30)

    def add_table(self, location: str) -> None:
        self.call("Tables.AddTable", location=location, format="hudi")

    def change(self, table: int, priority: int, actions: list[str]) -> None:
        self.call("Tables.ChangeTable", id=table, priority=priority, action_types=actions)

    def pause(self, table: int) -> None:
        self.call("Tables.PauseTable", id=table)

    def resume(self, table: int) -> None:
        self.call("Tables.ResumeTable", id=table)

    def evaluate(self, table: int) -> None:
        self.call("Tables.EvaluateTable", id=table)

    def submit(self, table: int, action: str, *, dry_run: bool = False, verify_rows: bool = False) -> None:
        more = {"verify_rows": "checksum"} if verify_rows else {}
        self.call("Operations.SubmitOperation", table=table, action=action, dry_run=dry_run, **more)

    def cancel(self, operation: int) -> None:
        self.call("Operations.CancelOperation", id=operation)

    def retry(self, operation: int) -> None:
        self.call("Operations.RetryOperation", id=operation)

    def silence(self, alert: int, hours: int) -> None:
        self.call("Alerts.SilenceAlert", id=alert, duration=Duration(seconds=hours * 3600))

    def sync(self, catalog: str) -> None:
        self.call("Catalogs.SyncCatalog", name=catalog)
