# SPDX-License-Identifier: Apache-2.0
"""Every rpc × every kind of caller, from the descriptors; what each needs is what its route of the REST API needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from lakehand.core.ports import AuditFilter
from lakehand.domain.access import Role
from lakehand.rest import ApiContext
from lakehand.rpc.generated import access_pb2, tables_pb2, writers_pb2
from lakehand.rpc.methods import METHODS
from lakehand.store import SqlStore
from tests.rest.parts import Listed, context_over, made_token, open_alert, with_security
from tests.rest.test_roles import ALLOWED, CALLERS, INSTANT, NEEDS, VIEWER, routes
from tests.rpc.parts import BY_NAME, Metadata, RpcClient, bearer, failure_of, rpc_context, rpc_serving
from tests.rpc.routes import RPC_OF, STREAMS

NUMBERS = count(1)
NEEDED = {rpc: NEEDS[route] for route, rpc in RPC_OF.items()} | dict.fromkeys(STREAMS, VIEWER)


@dataclass(frozen=True)
class Guarded:
    """A service with a token for each kind of caller."""

    client: RpcClient
    api: ApiContext
    store: SqlStore
    secrets: dict[str, str]

    def metadata(self, caller: str) -> Metadata:
        return bearer(self.secrets[caller]) if caller in self.secrets else ()

    def send(self, caller: str, rpc: str, **fields: Any) -> Any:
        method = BY_NAME[rpc]
        return self.client.call(method, method.request(**fields), self.metadata(caller))


@pytest.fixture
def guarded(store: SqlStore) -> Iterator[Guarded]:
    api = with_security(context_over(store, listed=Listed([])))
    secrets = {name: made_token(api, name, kind[0], owner=kind[1]).secret for name, kind in CALLERS.items() if kind}
    with rpc_serving(rpc_context(api)) as client:
        yield Guarded(client, api, store, secrets)


def fields_of(guarded: Guarded, rpc: str) -> dict[str, Any]:
    """A request with something real to act upon, made for this request."""
    number = next(NUMBERS)
    location = f"/data/t{number}"
    names = {"location": location, "owner": "ann", "table_name": f"t{number}", "action_types": ["compaction"]}
    table = guarded.send("admin", "Tables.AddTable", **names).table
    submit = {"table": table.id, "action": "compaction", "instant": INSTANT}
    operation = guarded.send("admin", "Operations.SubmitOperation", **submit).operation
    if rpc == "Operations.RetryOperation":
        guarded.send("admin", "Operations.CancelOperation", id=operation.id)
    own: dict[str, dict[str, Any]] = {
        "Tables.AddTable": {"location": f"{location}-new", "owner": "ann", "action_types": ["compaction"]},
        "Tables.FindTable": {"name": f"t{number}"},
        "Tables.ChangeTable": {"id": table.id, "priority": 3},
        "Operations.SubmitOperation": {"location": location, "action": "compaction"},
        "Operations.ChangeOperation": {"id": operation.id, "queue": "vip"},
        "Writers.ReportCommits": {"commits": [writers_pb2.Commit(location=location)]},
        "Writers.SubmitPlans": {"location": location, "action": "compaction", "instants": [INSTANT]},
        "Writers.RemovePlan": {"location": location, "action": "compaction", "instant": INSTANT},
        "Catalogs.SyncCatalog": {"name": "lake"},
        "Alerts.SilenceAlert": {"duration": Duration(seconds=60)},
        "Access.CreateToken": {"name": f"made{number}", "role": access_pb2.ROLE_VIEWER},
    }
    ids = {"Tables": table.id, "Operations": operation.id}
    found = own.get(rpc, {})
    if rpc == "Alerts.SilenceAlert":
        found["id"] = open_alert(guarded.store, f"failed:{number}")
    elif rpc == "Access.RevokeToken":
        found["id"] = made_token(guarded.api, f"n{number}", Role.VIEWER).id
    elif not found and "id" in BY_NAME[rpc].request.DESCRIPTOR.fields_by_name:
        found["id"] = ids[rpc.partition(".")[0]]
    return found


def test_each_route_of_the_api_has_one_rpc_and_each_rpc_a_route() -> None:
    of_rest = {route for route in routes() if route[1].startswith("/api/v1")}

    assert of_rest == set(RPC_OF)
    assert sorted([*RPC_OF.values(), *STREAMS]) == sorted(method.name for method in METHODS.values())


@pytest.mark.parametrize("rpc", sorted(method.name for method in METHODS.values()))
def test_a_caller_may_do_what_its_role_and_owner_allow(guarded: Guarded, rpc: str) -> None:
    answers = {caller: answer_to(guarded, caller, rpc) for caller in CALLERS}

    # No attempt was made yet: whoever is let in finds no log.
    let_in = (grpc.StatusCode.NOT_FOUND, "not-found") if rpc == "Operations.ReadLogs" else None
    refused = dict.fromkeys(CALLERS, (grpc.StatusCode.PERMISSION_DENIED, "forbidden"))
    refused["nobody"] = (grpc.StatusCode.UNAUTHENTICATED, "unauthorized")
    assert answers == refused | dict.fromkeys(ALLOWED[NEEDED[rpc]], let_in)


def answer_to(guarded: Guarded, caller: str, rpc: str) -> tuple[grpc.StatusCode, str] | None:
    """How it failed."""
    fields = fields_of(guarded, rpc)
    before = seen(guarded)
    try:
        guarded.send(caller, rpc, **fields)
    except grpc.RpcError as error:
        assert seen(guarded) == before, f"what {caller} was refused has changed something"
        return failure_of(error)
    return None


def seen(guarded: Guarded) -> Any:
    """Everything that a call could have changed."""
    store = guarded.store

    def rows(*tables: str) -> Any:
        return store.database.read(lambda tx: [tx.exec_driver_sql(f"SELECT * FROM {name}").all() for name in tables])

    return rows("tbl", "operation", "alert"), [token.revoked_at for _, token in store.tokens.list()]


def test_a_refusal_is_in_the_audit_trail_with_the_address_and_the_interface(guarded: Guarded) -> None:
    fields = fields_of(guarded, "Tables.PauseTable")

    with pytest.raises(grpc.RpcError):
        guarded.send("viewer", "Tables.PauseTable", **fields)

    [entry] = guarded.store.audit.list(AuditFilter(caller="viewer", action="table.pause"), limit=1, cursor=None).items
    assert entry.answer is not None
    assert entry.answer.code == "forbidden"
    assert (entry.request.caller.address, entry.request.caller.via) == ("127.0.0.1", "grpc")


def test_the_caller_is_who_the_token_says(guarded: Guarded) -> None:
    caller = guarded.send("own", "Access.GetCaller").caller

    assert (caller.name, caller.role, caller.owner, caller.address) == (
        "own", access_pb2.ROLE_OPERATOR, "ann", "127.0.0.1",
    )  # fmt: skip


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Basic x", "Bearer guess-guess-guess"])
def test_metadata_without_a_valid_token_is_refused(guarded: Guarded, value: str) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        guarded.client.tables.ListTables(tables_pb2.ListTablesRequest(), metadata=(("authorization", value),))

    assert failure_of(failed.value) == (grpc.StatusCode.UNAUTHENTICATED, "unauthorized")
