# SPDX-License-Identifier: Apache-2.0
"""Requests about operations through each interface, with the fields of the API by their names."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar, Protocol, cast
from urllib.parse import urlencode

import grpc
import httpx
from typer.testing import CliRunner

from lakehand.cli import app
from lakehand.client import LakehandClient, RequestFailed
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from tests.rest.parts import serving
from tests.rpc.parts import BY_NAME, STUBS, failure_of, rpc_context, rpc_serving
from tests.web.conftest import pages_over

OPERATION = "/api/v1/operations"


class Refused(Exception):
    """What a request was refused with. The command prints no code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Sender(Protocol):
    def submit(self, **fields: Any) -> None: ...
    def change(self, operation: int, **fields: Any) -> None: ...
    def change_table(self, table: int, *, action_types: list[str]) -> None: ...


class RestSender:
    def __init__(self, url: str, token: str) -> None:
        self.http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"} if token else {})

    def close(self) -> None:
        self.http.close()

    def send(self, method: str, path: str, body: Any) -> None:
        answer = self.http.request(method, path, json=body)
        if answer.is_error:
            error = answer.json()["error"]
            raise Refused(error["code"], error["message"])

    def submit(self, **fields: Any) -> None:
        self.send("POST", OPERATION, fields)

    def change(self, operation: int, **fields: Any) -> None:
        self.send("PATCH", f"{OPERATION}/{operation}", fields)

    def change_table(self, table: int, **fields: Any) -> None:
        self.send("PATCH", f"/api/v1/tables/{table}", fields)

    def add_table(self, **fields: Any) -> None:
        self.send("POST", "/api/v1/tables", fields)


class RfcSender(RestSender):
    """The JSON of RFC-43, with its own words."""

    EXAMPLE: ClassVar = {
        "owner": "default", "queue": "default", "resource": "4g:4g", "parallelism": "1000", "execution_engine": "Spark",
        "extra_params": "",
    }  # fmt: skip

    def __init__(self, url: str) -> None:
        super().__init__(url, "")

    def submit(self, service: str, **fields: Any) -> None:  # type: ignore[override]
        self.send("POST", f"/v1/hoodie/service/{service}/submit", self.EXAMPLE | fields)

    def remove(self, service: str, **fields: Any) -> None:
        self.send("POST", f"/v1/hoodie/service/{service}/remove", fields)

    def register(self, **fields: Any) -> None:
        self.send("POST", "/v1/hoodie/service/register", fields)


class WireSender:
    """Hudi's client: everything is in the query, and every answer is 200."""

    DEFAULTS: ClassVar = {
        "execution_engine": "spark", "extra_params": "", "db_name": "", "resource": "spark:4g,4g", "basepath": "",
        "parallelism": "100", "action": "REQUEST", "table_name": "", "queue": "default", "instant": "",
        "username": "default",
    }  # fmt: skip

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url)

    def close(self) -> None:
        self.http.close()

    def submit(self, service: str, **query: str) -> None:
        answer = self.http.get(f"/v1/hoodie/service/{service}?{urlencode(self.DEFAULTS | query)}")
        assert answer.status_code == 200, answer.text


class ClientSender:
    def __init__(self, url: str, token: str) -> None:
        self.client = LakehandClient(url, token or None)

    def close(self) -> None:
        self.client.close()

    def call(self, do: Callable[..., object], *words: Any, **fields: Any) -> None:
        try:
            do(*words, **fields)
        except RequestFailed as error:
            raise Refused(error.code or "", str(error)) from error

    def submit(self, *, table: int, action: str, **fields: Any) -> None:
        self.call(self.client.operations.submit, table, action, **fields)

    def change(self, operation: int, **fields: Any) -> None:
        self.call(self.client.operations.change, operation, **fields)

    def change_table(self, table: int, **fields: Any) -> None:
        self.call(self.client.tables.change, table, **fields)


class CommandSender:
    def __init__(self, url: str, token: str) -> None:
        self.where = ["--url", url, *(["--token", token] if token else [])]

    def close(self) -> None: ...

    def type_in(self, *words: object) -> None:
        ended = CliRunner().invoke(app, [*map(str, words), *self.where], env={"COLUMNS": "1000", "TERM": "dumb"})
        if ended.exit_code != 0:
            raise Refused("", ended.output)

    def submit(self, *, table: int, action: str, **fields: Any) -> None:
        self.type_in("operations", "submit", table, action, *flags(fields))

    def change(self, operation: int, **fields: Any) -> None:
        self.type_in("operations", "change", operation, *flags(fields))

    def change_table(self, table: int, *, action_types: list[str]) -> None:
        self.type_in("tables", "change", table, f"--actions={','.join(action_types)}")


class RpcSender:
    def __init__(self, address: str, token: str) -> None:
        self.channel = grpc.insecure_channel(address)
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()

    def close(self) -> None:
        self.channel.close()

    def call(self, rpc: str, **fields: Any) -> None:
        method = BY_NAME[rpc]
        stub = STUBS[rpc.partition(".")[0]](self.channel)
        try:
            getattr(stub, rpc.partition(".")[2])(method.request(**fields), metadata=self.metadata, timeout=30)
        except grpc.RpcError as error:
            raise Refused(failure_of(error)[1], str(error.details())) from error

    def submit(self, **fields: Any) -> None:
        self.call("Operations.SubmitOperation", **fields)

    def change(self, operation: int, **fields: Any) -> None:
        self.call("Operations.ChangeOperation", id=operation, **fields)

    def change_table(self, table: int, **fields: Any) -> None:
        self.call("Tables.ChangeTable", id=table, **fields)

    def add_table(self, **fields: Any) -> None:
        self.call("Tables.AddTable", **fields)


class FormSender:
    """The form of the page that runs an action. Moving an operation and changing actions have no form of this kind."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
        self.http = httpx.Client(base_url=url, headers=headers, follow_redirects=False)

    def close(self) -> None:
        self.http.close()

    def submit(self, *, table: int, action: str, **fields: Any) -> None:
        page = self.http.get(f"/tables/{table}/run/{action}").text
        for name in fields:
            assert f'name="{name}"' in page, f"the page has no field for {name}"
        typed = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        answer = self.http.post(f"/tables/{table}/run", data={"action": action, **typed})
        if answer.is_error:
            raise Refused("", answer.text)


SENDERS: dict[str, Any] = {"rest": RestSender, "grpc": RpcSender, "client": ClientSender, "command": CommandSender}
WITH_FORM: dict[str, Any] = {**SENDERS, "dashboard": FormSender}


def flags(fields: dict[str, Any]) -> Iterator[str]:
    """As the command has them: --queue vip, --no-retry."""
    for name, value in fields.items():
        if name == "options":
            yield from (word for key, one in value.items() for word in ("--option", f"{key}={one}"))
        elif name == "retry_on_error":
            yield "--retry" if value else "--no-retry"
        elif value is True:
            yield f"--{name.replace('_', '-')}"
        else:
            yield from (f"--{name.replace('_', '-')}", str(value))


@contextmanager
def sending(context: ApiContext, interface: str, token: str = "") -> Iterator[Any]:
    """A service with this interface, and a sender to it."""
    with ExitStack() as stack:
        if interface == "grpc":
            address = stack.enter_context(rpc_serving(rpc_context(context))).server.address
        else:
            pages = (
                pages_over(context, cast(SqlStore, context.services.access.store)) if interface == "dashboard" else None
            )
            address = str(stack.enter_context(serving(context, pages=pages)).base_url).rstrip("/")
            if pages is not None:
                stack.callback(pages.live.feed.close, timeout=10)
        sender = WITH_FORM[interface](address, token)
        stack.callback(sender.close)
        yield sender
