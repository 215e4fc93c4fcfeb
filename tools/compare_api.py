# SPDX-License-Identifier: Apache-2.0
"""Sends the same requests to two versions of Lakehand and shows where they differ: in answers, audit trail or events.

    python -m tools.compare_api COMMIT

Every verb by REST and gRPC, by each role, good and bad. Both services are real, each on an empty database. They are
drained first, so that nothing but the requests changes anything.
"""

import difflib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx
from google.protobuf.json_format import MessageToDict, ParseDict
from grpc_status import rpc_status

from lakehand.rpc.methods import METHODS
from tests.kit.polling import wait_for
from tests.kit.service import RunningService
from tests.rolling.previous_version import unpack_commit
from tools.protos import generate

ROLES = ("none", "viewer", "owner", "operator", "root")  # owner: an operator of one owner's tables
HERE = Path(__file__).parents[1] / "src"
MASKS = {
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC)?": "TIME",
    r"\b\d{14}(\d{3})?\b": "INSTANT",
    r"lakehand_[\w-]{30,}": "SECRET",
    r"127\.0\.0\.1:\d+": "ADDRESS",
    rf"\b{re.escape(os.uname().nodename)}-[0-9a-f]{{8}}\b": "INSTANCE",
    r"\b\d+(\.\d+)? (ms|seconds?|minutes?|s|min)\b": "SPAN",
}
UNSTABLE = {"instance", "host", "uptime", "memory", "seen_at", "etag"}
NO_ID = 999
RPC_FOLDER = "lakehand/rpc"
# Words that the API has changed since, so that an older version is asked by its own and compared by those of now.
OLD_PATHS = {"/evaluate": "/look"}
NEW_WORDS = {
    "looked_at": "probed_at", "last_look": "evaluated_at", "next_look": "next_evaluation",
    "table.look": "table.evaluate",
}  # fmt: skip

# REST: method, path below /api/v1, body. {t}: a table, {u}: another one, {b}: one that is broken, {o}: an operation.
REST: list[tuple[str, str, Any]] = [
    ("GET", "/version", None),
    ("GET", "/caller", None),
    ("GET", "/plugins", None),
    ("GET", "/instances", None),
    ("GET", "/drain", None),
    ("GET", "/catalogs", None),
    ("GET", "/fleet", None),
    ("GET", "/fleet?hours=1&limit=1", None),
    ("GET", "/fleet?hours=0", None),
    ("GET", "/fleet?limit=1001", None),
    ("GET", "/tables", None),
    ("GET", "/tables?limit=1", None),
    ("GET", "/tables?limit=0", None),
    ("GET", "/tables?owner=sales", None),
    ("GET", "/tables?state=nonsense", None),
    ("GET", "/tables?paused=maybe", None),
    ("GET", "/tables?removed=true", None),
    ("GET", "/tables?search=ord", None),
    ("GET", "/tables?cursor=nonsense", None),
    ("GET", "/tables/find?name=orders", None),
    ("GET", "/tables/find?name=nothing", None),
    ("GET", "/tables/find", None),
    ("GET", "/tables/{t}", None),
    ("GET", "/tables/999", None),
    ("GET", "/tables/0", None),
    ("GET", "/tables/x", None),
    ("GET", "/tables/{t}/explain", None),
    ("GET", "/tables/{b}/explain", None),
    ("GET", "/tables/{t}/health", None),
    ("GET", "/tables/{b}/health", None),
    ("GET", "/tables/{t}/settings", None),
    ("GET", "/tables/999/explain", None),
    ("POST", "/tables", {"location": "LAKE/orders", "format": "delta"}),
    (
        "POST",
        "/tables",
        {
            "location": "LAKE/new",
            "owner": "sales",
            "queue": "q",
            "priority": 3,
            "properties": {"delta.rest-period": "5m"},
            "heartbeat_timeout": 60,
        },
    ),
    ("POST", "/tables", {"location": "/elsewhere/x"}),
    ("POST", "/tables", {"location": ""}),
    ("POST", "/tables", {"location": "LAKE/new", "format": "nonsense"}),
    ("POST", "/tables", {"nonsense": 1}),
    ("POST", "/tables", {"location": "LAKE/none"}),
    ("POST", "/tables", []),
    ("POST", "/tables", {}),
    ("POST", "/tables", {"location": "LAKE/orders/_delta_log"}),
    ("POST", "/tables", {"location": "LAKE/new", "properties": {"spark.master": "x"}}),
    ("POST", "/tables", {"location": "LAKE/new", "priority": 2_000_000}),
    ("PATCH", "/tables/{t}", {"priority": 7, "queue": "fast"}),
    ("PATCH", "/tables/{t}", {}),
    ("PATCH", "/tables/{t}", {"owner": None, "priority": None}),
    ("PATCH", "/tables/{t}", {"owner": "sales"}),
    ("PATCH", "/tables/{t}", {"owner": "default"}),
    ("PATCH", "/tables/{t}", {"priority": "high"}),
    ("PATCH", "/tables/{t}", {"action_types": ["vacuum", "compaction"]}),
    ("PATCH", "/tables/{t}", {"action_types": ["x"]}),
    ("PATCH", "/tables/{t}", {"properties": {"delta.rest-period": "1m"}}),
    ("PATCH", "/tables/{t}", {"properties": {}}),
    ("PATCH", "/tables/{t}", {"properties": {"secret.key": "x"}}),
    ("PATCH", "/tables/{t}", {"heartbeat_timeout": 0}),
    ("PATCH", "/tables/{t}", {"heartbeat_timeout": 90.5}),
    ("PATCH", "/tables/{t}", {"extra": 1}),
    ("PATCH", "/tables/{u}", {"priority": 1}),
    ("PATCH", "/tables/999", {"priority": 1}),
    ("POST", "/tables/{t}/pause", None),
    ("POST", "/tables/{t}/resume", None),
    ("POST", "/tables/{u}/pause", None),
    ("POST", "/tables/{u}/resume", None),
    ("POST", "/tables/999/pause", None),
    ("POST", "/tables/{t}/evaluate", None),
    ("POST", "/tables/{u}/evaluate", None),
    ("POST", "/tables/{t}/evaluate", {"x": 1}),
    ("POST", "/operations", {"table": "{t}", "action": "vacuum"}),
    ("POST", "/operations", {"table": "{t}", "action": "vacuum", "dry_run": True}),
    ("POST", "/operations", {"table": "{t}", "action": "vacuum", "dry_run": True, "confirm": True}),
    ("POST", "/operations", {"table": "{t}", "action": "compaction", "verify_rows": "checksum"}),
    ("POST", "/operations", {"table": "{t}", "action": "compaction", "verify_rows": "much"}),
    ("POST", "/operations", {"table": "{t}", "action": "compaction", "instant": "20261115191013982"}),
    ("POST", "/operations", {"table": "{t}", "action": "compaction", "instant": "20261115191013982", "confirm": True}),
    ("POST", "/operations", {"table": "{t}", "action": "compaction", "instant": "1"}),
    ("POST", "/operations", {"table": "{t}", "action": "compaction", "options": {"a.b": "c"}}),
    ("POST", "/operations", {"table": "{t}", "action": "compaction", "options": {"spark.x": "c"}}),
    ("POST", "/operations", {"location": "LAKE/other", "action": "vacuum"}),
    ("POST", "/operations", {"location": "LAKE/none", "action": "vacuum"}),
    ("POST", "/operations", {"table": "{t}", "location": "LAKE/other", "action": "vacuum"}),
    ("POST", "/operations", {"action": "vacuum"}),
    ("POST", "/operations", {"table": "{t}"}),
    ("POST", "/operations", {"table": "{t}", "action": "dance"}),
    ("POST", "/operations", {"table": 999, "action": "vacuum"}),
    ("POST", "/operations", {"table": -1, "action": "vacuum"}),
    ("POST", "/operations", {"table": "{t}", "action": 1}),
    ("GET", "/operations", None),
    ("GET", "/operations?limit=2", None),
    ("GET", "/operations?status=pending,failed", None),
    ("GET", "/operations?status=nonsense", None),
    ("GET", "/operations?status=pending&status=failed", None),
    ("GET", "/operations?table={t}&action=vacuum", None),
    ("GET", "/operations?location=LAKE/other/", None),
    ("GET", "/operations/{o}", None),
    ("GET", "/operations/999", None),
    ("GET", "/operations/{o}/logs", None),
    ("GET", "/operations/{o}/logs?attempt=0", None),
    ("GET", "/operations/{o}/logs?offset=-1", None),
    ("POST", "/operations/{o}/cancel", None),
    ("POST", "/operations/{o}/cancel", None),
    ("POST", "/operations/{o}/retry", None),
    ("POST", "/operations/{o}/retry", None),
    ("POST", "/operations/999/cancel", None),
    ("DELETE", "/operations/{o}", None),
    ("DELETE", "/operations/999", None),
    ("POST", "/tables/{t}/clear", None),
    ("POST", "/tables/{u}/clear", None),
    ("GET", "/alerts", None),
    ("GET", "/alerts?state=all&limit=1", None),
    ("GET", "/alerts?state=x", None),
    ("POST", "/alerts/{a}/silence", {"duration": 600}),
    ("POST", "/alerts/{a}/silence", {"duration": 0}),
    ("POST", "/alerts/{a}/silence", {}),
    ("POST", "/alerts/999/silence", {"duration": 600}),
    ("POST", "/alerts/test", None),
    ("POST", "/alerts/test", {"receiver": "nobody"}),
    ("POST", "/alerts/test", {"x": 1}),
    ("POST", "/catalogs/nothing/sync", {}),
    ("POST", "/catalogs/nothing/sync", {"dry_run": "maybe"}),
    ("GET", "/tokens", None),
    ("POST", "/tokens", {"name": "by-{role}", "role": "viewer", "life": 3600}),
    ("POST", "/tokens", {"name": "", "role": "viewer"}),
    ("POST", "/tokens", {"name": "a", "role": "king"}),
    ("POST", "/tokens", {"name": "a", "role": "admin", "owner": "x"}),
    ("POST", "/tokens", {"name": "a"}),
    ("POST", "/tokens", {"name": "a", "role": "viewer", "life": 0}),
    ("DELETE", "/tokens/999", None),
    ("GET", "/events?limit=3&table={t}", None),
    ("GET", "/events?kind=operation.", None),
    ("GET", "/events?table=x", None),
    ("GET", "/audit?action=table.", None),
    ("GET", "/audit?limit=2", None),
    ("GET", "/audit?table=0", None),
    ("POST", "/drain", {"timeout": -1}),
    ("POST", "/drain", {"timeout": 5}),
    ("POST", "/drain", None),
    ("DELETE", "/tables/{new}", None),
    ("DELETE", "/tables/999", None),
    ("DELETE", "/tables/{u}", None),
    ("POST", "/tables", {"location": "LAKE/other", "format": "delta"}),
]
# gRPC: the rpc, and its request as JSON.
RPC: list[tuple[str, dict[str, Any]]] = [
    ("Service.GetVersion", {}),
    ("Access.GetCaller", {}),
    ("Service.ListPlugins", {}),
    ("Service.ListInstances", {}),
    ("Service.GetDrain", {}),
    ("Catalogs.ListCatalogs", {}),
    ("Fleet.GetFleet", {}),
    ("Fleet.GetFleet", {"hours": -1}),
    ("Tables.ListTables", {}),
    ("Tables.ListTables", {"page_size": 1}),
    ("Tables.ListTables", {"page_size": -1}),
    ("Tables.ListTables", {"paused": True}),
    ("Tables.ListTables", {"state": "TABLE_STATE_HEALTHY"}),
    ("Tables.ListTables", {"state": 77}),
    ("Tables.ListTables", {"page_token": "x"}),
    ("Tables.FindTable", {"name": "orders"}),
    ("Tables.FindTable", {}),
    ("Tables.GetTable", {"id": "{t}"}),
    ("Tables.GetTable", {"id": 999}),
    ("Tables.GetTable", {}),
    ("Tables.ExplainTable", {"id": "{t}"}),
    ("Tables.GetTableHealth", {"id": "{t}"}),
    ("Tables.ListTableSettings", {"id": "{t}"}),
    ("Tables.ExplainTable", {"id": "{b}"}),
    ("Tables.ExplainTable", {}),
    ("Tables.AddTable", {"location": "LAKE/orders"}),
    ("Tables.AddTable", {"location": "/elsewhere/x"}),
    ("Tables.AddTable", {}),
    (
        "Tables.AddTable",
        {
            "location": "LAKE/rpc",
            "priority": 5,
            "heartbeat_timeout": "60s",
            "scheduling": "SCHEDULING_SERVICE",
            "properties": {"delta.rest-period": "5m"},
        },
    ),
    ("Tables.AddTable", {"location": "LAKE/rpc", "heartbeat_timeout": "0.5s"}),
    ("Tables.AddTable", {"location": "LAKE/rpc", "scheduling": 9}),
    ("Tables.ChangeTable", {"id": "{t}", "priority": 9}),
    ("Tables.ChangeTable", {"id": "{t}"}),
    ("Tables.ChangeTable", {"id": "{t}", "action_types": ["vacuum"]}),
    ("Tables.ChangeTable", {"id": "{t}", "owner": "sales"}),
    ("Tables.ChangeTable", {"id": "{t}", "owner": "default"}),
    ("Tables.ChangeTable", {"id": "{t}", "priority": 2_000_000}),
    ("Tables.ChangeTable", {"id": "{t}", "properties": {"entries": {"spark.x": "y"}}}),
    ("Tables.ChangeTable", {"id": "{t}", "properties": {"entries": {}}}),
    ("Tables.PauseTable", {"id": "{t}"}),
    ("Tables.ResumeTable", {"id": "{t}"}),
    ("Tables.PauseTable", {"id": "{u}"}),
    ("Tables.ResumeTable", {"id": "{u}"}),
    ("Tables.PauseTable", {}),
    ("Tables.EvaluateTable", {"id": "{t}"}),
    ("Operations.SubmitOperation", {"table": "{t}", "action": "vacuum"}),
    ("Operations.SubmitOperation", {"table": "{t}", "action": "vacuum", "dry_run": True, "verify_rows": "count"}),
    ("Operations.SubmitOperation", {"table": "{t}", "action": "vacuum", "verify_rows": "much"}),
    ("Operations.SubmitOperation", {"location": "LAKE/orders", "action": "vacuum", "instant": "20261115191013983"}),
    ("Operations.SubmitOperation", {"action": "vacuum"}),
    ("Operations.SubmitOperation", {"table": "{t}"}),
    ("Operations.SubmitOperation", {"table": 999, "action": "vacuum"}),
    ("Operations.SubmitOperation", {"table": "{t}", "action": "vacuum", "options": {"x": "y"}}),
    ("Operations.ListOperations", {}),
    ("Operations.ListOperations", {"statuses": ["OPERATION_STATUS_PENDING", "OPERATION_STATUS_FAILED"]}),
    ("Operations.ListOperations", {"statuses": [99]}),
    ("Operations.ListOperations", {"table": "{t}", "page_size": 1}),
    ("Operations.GetOperation", {"id": "{o}"}),
    ("Operations.GetOperation", {}),
    ("Operations.ReadLogs", {"id": "{o}"}),
    ("Operations.ReadLogs", {"id": "{o}", "attempt": -1}),
    ("Operations.CancelOperation", {"id": "{o}"}),
    ("Operations.RetryOperation", {"id": "{o}"}),
    ("Operations.RetryOperation", {"id": "{o}"}),
    ("Operations.RemoveOperation", {"id": "{o}"}),
    ("Operations.RemoveOperation", {"id": 999}),
    ("Tables.ClearTable", {"id": "{t}"}),
    ("Alerts.ListAlerts", {"all": True}),
    ("Alerts.SilenceAlert", {"id": "{a}", "duration": "60s"}),
    ("Alerts.SilenceAlert", {"id": "{a}"}),
    ("Alerts.TestAlerts", {}),
    ("Alerts.TestAlerts", {"receiver": "nobody"}),
    ("Catalogs.SyncCatalog", {"name": "nothing"}),
    ("Access.ListTokens", {}),
    ("Access.CreateToken", {"name": "rpc-{role}", "role": "ROLE_VIEWER", "life": "3600s"}),
    ("Access.CreateToken", {"name": "a"}),
    ("Access.RevokeToken", {"id": 999}),
    ("Access.ListAudit", {"page_size": 3}),
    ("Access.ListAudit", {"action": "operation."}),
    ("Events.ListEvents", {"kind": "table.", "page_size": 5}),
    ("Events.ListEvents", {"table": -1}),
    ("Service.BeginDrain", {}),
    ("Service.BeginDrain", {"timeout": "-1s"}),
    ("Tables.RemoveTable", {"id": 999}),
]


@dataclass
class Asked:
    """One version under test, and what it answered."""

    service: RunningService
    lake: Path
    tokens: dict[str, str] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)  # what {t} and the others stand for
    lines: list[str] = field(default_factory=list)
    http: httpx.Client = field(default_factory=partial(httpx.Client, timeout=60))

    def begin(self) -> None:
        """Three tables, one of them torn; a token for each role. Then nothing runs any more, and no alert is raised."""
        for role, owner in (("viewer", ""), ("operator", ""), ("owner", "sales")):
            body = {"name": role, "role": "viewer" if role == "viewer" else "operator", "owner": owner}
            self.tokens[role] = self.rest("root", "POST", "/tokens", body).json()["secret"]
        for letter, name, owner in (("t", "orders", "default"), ("u", "other", "default"), ("b", "torn", "default")):
            location = write_delta(self.lake / name, torn=letter == "b")
            added = self.rest("root", "POST", "/tables", {"location": location, "format": "delta", "owner": owner})
            self.names[letter] = added.json()["id"]
        for name in ("new", "rpc"):
            write_delta(self.lake / name)
        wait_for(self.has_settled, "every table to be evaluated")
        self.names |= {"a": NO_ID, "o": NO_ID, "new": NO_ID}
        self.rest("root", "POST", "/drain", {})
        wait_for(lambda: self.rest("root", "GET", "/drain").json()["state"] == "drained", "the service to be drained")

    def has_settled(self) -> bool:
        """Every action of every table has a reason, or the table its problem."""
        found = [self.rest("root", "GET", f"/tables/{self.names[one]}/explain").json() for one in "tu"]
        return all(action["last_decision"] for one in found for action in one["actions"])

    def run(self) -> None:
        self.begin()
        for role in ROLES:
            for method, path, body in REST:
                self.note(role, f"{method} {path} {json.dumps(body)}", self.answer(role, method, path, body))
        with grpc.insecure_channel(self.rpc_address) as channel:
            for role in ROLES:
                for name, request in RPC:
                    self.note(role, f"{name} {json.dumps(request)}", self.rpc(channel, role, name, request))
        for path in ("/audit?limit=1000", "/events?limit=1000"):
            for item in self.rest("root", "GET", path).json()["items"]:
                self.note("root", path, item)

    @property
    def rpc_address(self) -> str:
        found = json.loads((self.service.home / "address.json").read_text())
        return re.sub("^[a-z]+://", "", found["grpc"])

    def rest(self, role: str, method: str, path: str, body: Any = None) -> httpx.Response:
        secret = self.tokens.get(role, "")
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        text = None if body is None else json.dumps(body)
        send = partial(self.http.request, method, content=text, headers=headers)
        answer = send(f"{self.service.url}/api/v1{path}")
        old = next((path.replace(now, then) for now, then in OLD_PATHS.items() if path.endswith(now)), None)
        return send(f"{self.service.url}/api/v1{old}") if answer.status_code == 404 and old else answer

    def filled(self, value: Any, role: str) -> Any:
        """The numbers of this version's tables in place of their letters."""
        text = json.dumps(value).replace("LAKE", str(self.lake)).replace("{role}", role)
        for letter, number in self.names.items():
            text = text.replace(f'"{{{letter}}}"', str(number)).replace(f"{{{letter}}}", str(number))
        return json.loads(text)

    def answer(self, role: str, method: str, path: str, body: Any) -> Any:
        response = self.rest(role, method, self.filled(path, role), None if body is None else self.filled(body, role))
        try:
            found = response.json() if response.content else None
        except ValueError:
            found = response.text
        self.remember(method, path, body, found)
        return [response.status_code, found]

    def remember(self, method: str, path: str, body: Any, found: Any) -> None:
        """The newest operation and table are those that later requests are about."""
        if isinstance(found, dict) and "id" in found and method == "POST":
            if path == "/operations":
                self.names["o"] = found["id"]
            elif path == "/tables" and body.get("location") == "LAKE/new":
                self.names["new"] = found["id"]

    def rpc(self, channel: grpc.Channel, role: str, name: str, request: dict[str, Any]) -> Any:
        method = next(one for one in METHODS.values() if one.name == name)
        call = channel.unary_unary(
            method.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer_class(method.path).FromString,
        )
        secret = self.tokens.get(role, "")
        message = ParseDict(self.filled(request, role), method.request())
        try:
            found = call(message, metadata=(("authorization", f"Bearer {secret}"),) if secret else (), timeout=60)
        except grpc.RpcError as error:
            status: Any = rpc_status.from_call(error)
            return [str(error.code()), error.details(), MessageToDict(status)["details"] if status else None]
        document = MessageToDict(found, preserving_proto_field_name=True)
        if name == "Operations.SubmitOperation":
            self.names["o"] = document["operation"]["id"]
        return ["OK", document]

    def note(self, role: str, request: str, found: Any) -> None:
        text = json.dumps(stable(found), sort_keys=True, ensure_ascii=False)
        text = text.replace(str(self.lake), "LAKE").replace(str(self.service.home), "HOME")
        for pattern, word in MASKS.items():
            text = re.sub(pattern, word, text)
        self.lines.append(f"{role}: {request} -> {text}")


def answer_class(path: str) -> Any:
    from google.protobuf import descriptor_pool
    from google.protobuf.message_factory import GetMessageClass

    service, method = path.lstrip("/").split("/")
    descriptor = descriptor_pool.Default().FindServiceByName(service).methods_by_name[method]
    return GetMessageClass(descriptor.output_type)


def stable(value: Any) -> Any:
    """Without what differs between two runs of one version."""
    if isinstance(value, dict):
        if "kind" in value and "message" in value:
            value = {key: one for key, one in value.items() if key != "id"}  # of an event
        return {NEW_WORDS.get(key, key): stable(one) for key, one in value.items() if key not in UNSTABLE}
    if isinstance(value, str):
        return NEW_WORDS.get(value, value)
    return [stable(one) for one in value] if isinstance(value, list) else value


def write_delta(folder: Path, *, torn: bool = False) -> str:
    """The log of a Delta table without rows."""
    schema = json.dumps(
        {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    )
    actions: list[Mapping[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": folder.name, "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
                      "partitionColumns": [], "configuration": {}, "createdTime": 0}},
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, actions))
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "_delta_log" / f"{0:020}.json").write_text(text[: len(text) // 2] if torn else text)
    return str(folder)


@contextmanager
def serving(source: Path, folder: Path) -> Iterator[Asked]:
    lake = folder / "lake"
    lake.mkdir(parents=True)
    service = RunningService(
        folder / "home", lake, grpc_port="0", tokens=json.dumps({"root": "root-secret-of-the-comparison"})
    )
    service.settings["PYTHONPATH"] = os.fspath(source)
    service.settings["LAKEHAND_PLUGINS"] = json.dumps({"engines": {"spark": {"enabled": False}}})
    try:
        yield Asked(service.start(), lake, {"root": "root-secret-of-the-comparison"})
    finally:
        service.end()


def transcript(source: Path, folder: Path) -> list[str]:
    with serving(source, folder) as asked:
        asked.run()
        return asked.lines


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "source").mkdir()
        source = unpack_commit(sys.argv[1], folder / "source")
        generate(source / RPC_FOLDER / "generated", source / RPC_FOLDER / "proto")
        old = transcript(source, folder / "old")
        new = transcript(HERE, folder / "new")
    differences = [line for line in difflib.unified_diff(old, new, "old", "new", n=0, lineterm="") if line[0] in "+-"]
    print("\n".join(differences))
    print(f"{len(old)} lines of answers, audit trail and events; {max(len(differences) - 2, 0)} differ")
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
