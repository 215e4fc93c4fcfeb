# SPDX-License-Identifier: Apache-2.0
"""The same script through REST and through gRPC leaves the same rows, events and audit entries."""

import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import httpx
from google.protobuf.duration_pb2 import Duration

from lakehand.domain.access import Role
from lakehand.rest import ApiContext
from lakehand.rpc.generated import access_pb2
from lakehand.rpc.generated.table_pb2 import Properties
from lakehand.store import SqlStore, open_store
from tests.rest.parts import INSTANT, Listed, context_over, made_token, open_alert, serving, with_security
from tests.rpc.parts import BY_NAME, RpcClient, bearer, rpc_context, rpc_serving
from tests.rpc.routes import RPC_OF

TRIPS = {"location": "/data/trips", "owner": "ann", "action_types": ["compaction", "clean"], "queue": "slow"}
ORDERS = {"location": "/data/orders", "db_name": "sales", "table_name": "orders", "priority": 4, "owner": "ann"}
# Route, id in its path, REST body, fields of the request where they differ from the body. Some of it is refused.
Step = tuple[str, str, str | int | None, dict[str, Any], dict[str, Any] | None]
STEPS: list[Step] = [
    ("POST", "/api/v1/tables", None, TRIPS, None),
    ("POST", "/api/v1/tables", None, ORDERS | {"heartbeat_timeout": 90},
     ORDERS | {"heartbeat_timeout": Duration(seconds=90)}),
    ("POST", "/api/v1/tables", None, {"location": "/elsewhere"}, None),
    ("POST", "/api/v1/tables", None, {"location": "/data/other", "owner": "web"}, None),
    ("PATCH", "/api/v1/tables/{id}", 1, {"priority": 7, "action_types": ["+clustering", "-clean"]}, None),
    ("PATCH", "/api/v1/tables/{id}", 2, {"properties": {"hoodie.a": "1"}, "scheduling": "service"},
     {"properties": Properties(entries={"hoodie.a": "1"}), "scheduling": 2}),
    ("PATCH", "/api/v1/tables/{id}", 2, {"properties": {}}, {"properties": Properties()}),
    ("PATCH", "/api/v1/tables/{id}", 1, {"owner": "web"}, None),
    ("PATCH", "/api/v1/tables/{id}", 1, {"properties": {"spark.x": "1"}},
     {"properties": Properties(entries={"spark.x": "1"})}),
    ("POST", "/api/v1/tables/{id}/pause", 1, {}, None),
    ("POST", "/api/v1/tables/{id}/resume", 1, {}, None),
    ("POST", "/api/v1/tables/{id}/evaluate", 1, {}, None),
    ("POST", "/api/v1/operations", None, {"table": 1, "action": "compaction", "instant": INSTANT}, None),
    ("POST", "/api/v1/operations", None, {"table": 1, "action": "compaction", "instant": INSTANT}, None),
    ("POST", "/api/v1/operations", None, {"location": "/data/trips", "action": "clustering", "options": {"k": "v"}},
     None),
    ("POST", "/api/v1/operations", None, {"table": 1, "action": "clean", "dry_run": True}, None),
    ("POST", "/api/v1/plans", None,
     {"table": 1, "action": "compaction", "instants": [INSTANT, "20261114191014000"], "parallelism": 7}, None),
    ("POST", "/api/v1/plans", None, {"location": "/data/more", "action": "compaction", "instants": [INSTANT]}, None),
    ("POST", "/api/v1/plans", None, {"action": "compaction", "instants": [INSTANT]}, None),
    ("POST", "/api/v1/plans/remove", None,
     {"table": 1, "action": "compaction", "instant": "20261114191014000"}, None),
    ("POST", "/api/v1/plans/remove", None, {"table": 1, "action": "clean", "instant": INSTANT}, None),
    ("PATCH", "/api/v1/operations/{id}", 1, {"priority": 5, "owner": "ann"}, None),
    ("PATCH", "/api/v1/operations/{id}", 1, {}, None),
    ("POST", "/api/v1/operations/{id}/cancel", 1, {}, None),
    ("POST", "/api/v1/operations/{id}/retry", 1, {}, None),
    ("POST", "/api/v1/operations/{id}/retry", 1, {}, None),
    ("DELETE", "/api/v1/operations/{id}", 1, {}, None),
    ("POST", "/api/v1/tables/{id}/clear", 1, {}, None),
    ("POST", "/api/v1/catalogs/{name}/sync", "lake", {"dry_run": True}, {"name": "lake", "dry_run": True}),
    ("POST", "/api/v1/catalogs/{name}/sync", "lake", {}, {"name": "lake"}),
    ("POST", "/api/v1/alerts/{id}/silence", 1, {"duration": 600}, {"duration": Duration(seconds=600)}),
    ("POST", "/api/v1/alerts/test", None, {}, None),
    ("POST", "/api/v1/alerts/test", None, {"receiver": "nobody"}, None),
    ("POST", "/api/v1/tokens", None, {"name": "new", "role": "viewer", "life": 3600},
     {"name": "new", "role": access_pb2.ROLE_VIEWER, "life": Duration(seconds=3600)}),
    ("DELETE", "/api/v1/tokens/{id}", 3, {}, None),
    ("DELETE", "/api/v1/tables/{id}", 2, {}, None),
    ("DELETE", "/api/v1/tables/{id}", 99, {}, None),
]  # fmt: skip
ROWS = {
    "tbl": "id base_path db_name table_name owner queue priority action_types scheduling heartbeat_timeout properties "
    "paused removed format",
    "operation": "operation_id tbl_id action status owner queue priority origin parameters is_deleted",
    "event": "kind message tbl_id operation_id detail times",
    "audit_request": "audit_id caller role owner address action subject tbl_id operation_id detail before_state",
    "audit_answer": "audit_id code message after_state",
    "api_token": "token_id name role owner create_by",
    "alert": "alert_id title",
}


def through_rest(client: httpx.Client) -> Callable[[Step], None]:
    def send(step: Step) -> None:
        method, path, which, body, _ = step
        client.request(method, re.sub(r"\{\w+\}", str(which), path), json=body)

    return send


def through_rpc(client: RpcClient, secret: str) -> Callable[[Step], None]:
    def send(step: Step) -> None:
        method, path, which, body, fields = step
        rpc = BY_NAME[RPC_OF[method, path]]
        wanted = (body if fields is None else fields) | ({"id": which} if isinstance(which, int) else {})
        with suppress(grpc.RpcError):
            client.call(rpc, rpc.request(**wanted), bearer(secret))

    return send


def run_script(store: SqlStore, interface: str, api: ApiContext) -> None:
    secret = made_token(api, "ann", Role.OPERATOR, owner="ann").secret
    admin = made_token(api, "chief", Role.ADMIN).secret
    open_alert(store)
    if interface == "rest":
        with serving(api) as client:
            for token in (secret, admin):
                client.headers["Authorization"] = f"Bearer {token}"
                for step in STEPS:
                    through_rest(client)(step)
    else:
        with rpc_serving(rpc_context(api)) as rpc:
            for token in (secret, admin):
                for step in STEPS:
                    through_rpc(rpc, token)(step)


def rows(store: SqlStore) -> dict[str, list[str]]:
    """All that was stored, without times."""

    def read(table: str, columns: str) -> list[str]:
        query = f"SELECT {', '.join(columns.split())} FROM {table}"
        found = store.database.read(lambda tx: tx.exec_driver_sql(query).all())
        return [re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\dZ)?", "TIME", str(tuple(row))) for row in found]

    return {table: read(table, columns) for table, columns in ROWS.items()}


def test_a_script_does_the_same_through_rest_and_through_grpc(sqlite_template: Path, tmp_path: Path) -> None:
    found: dict[str, dict[str, list[str]]] = {}
    via: dict[str, set[str]] = {}
    for interface in ("rest", "grpc"):
        store = open_store(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / f'{interface}.db')}")
        run_script(store, interface, with_security(context_over(store, listed=Listed(["catalogued"]))))
        found[interface] = rows(store)
        asked = store.database.read(lambda tx: tx.exec_driver_sql("SELECT DISTINCT via FROM audit_request").all())
        via[interface] = {str(row[0]) for row in asked} - {""}
        store.close()

    assert via == {"rest": {"rest"}, "grpc": {"grpc"}}
    assert len(found["rest"]["audit_request"]) > 40
    for table in ROWS:
        assert found["grpc"][table] == found["rest"][table], table
