# SPDX-License-Identifier: Apache-2.0
"""Speaks REST to a Lakehand, and finds a table by what people call it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit
from weakref import finalize

from lakehand.cli.problems import CommandFailed
from lakehand.domain.numbers import read_id

if TYPE_CHECKING:  # a fifth of a second, which commands that ask no service need not wait
    import httpx

Document: TypeAlias = dict[str, Any]
Parameters: TypeAlias = Mapping[str, Any]

DEFAULT_URL = "http://127.0.0.1:9091"
PATIENCE, PATIENCE_TO_CONNECT = 30.0, 5.0  # seconds
PAGE = 200
CREATED = 201


class Client:
    """One service, one token. Problems become one sentence each."""

    def __init__(self, url: str, token: str | None = None, *, transport: "httpx.BaseTransport | None" = None) -> None:
        import httpx

        if urlsplit(url).scheme not in ("http", "https"):
            raise CommandFailed(f"{url!r} is no address of a service: say --url {DEFAULT_URL}")
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(PATIENCE, connect=PATIENCE_TO_CONNECT)
        self.http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, transport=transport)
        finalize(self, self.http.close)  # with the command that made it

    def get(self, path: str, parameters: Parameters | None = None) -> Any:
        return self.ask("GET", path, params=given(parameters or {}))

    def post(self, path: str, body: Parameters | None = None) -> Any:
        return self.ask("POST", path, json=dict(body or {}))

    def put(self, path: str, body: Parameters) -> tuple[Any, bool]:
        """Post something that may be there already: what it is, and whether it is new."""
        answer = self.answered("POST", path, json=dict(body))
        return answer.json(), answer.status_code == CREATED

    def patch(self, path: str, body: Parameters) -> Any:
        return self.ask("PATCH", path, json=dict(body))

    def delete(self, path: str) -> Any:
        return self.ask("DELETE", path)

    def ask(self, method: str, path: str, **arguments: Any) -> Any:
        answer = self.answered(method, path, **arguments)
        return answer.json() if answer.content else {}

    def answered(self, method: str, path: str, **arguments: Any) -> "httpx.Response":
        import httpx

        try:
            answer = self.http.request(method, path, **arguments)
        except httpx.TimeoutException:
            raise CommandFailed(
                f"the service at {self.url} did not answer in time: try again, or see its log"
            ) from None
        except httpx.TransportError as error:
            raise CommandFailed(unreachable(self.url, error)) from None
        if answer.is_success:
            return answer
        raise CommandFailed(explained(answer, self.url))

    def pages(self, path: str, parameters: Parameters, *, limit: int) -> Iterator[Document]:
        """The first ``limit`` items of a list, over as many pages as it takes."""
        cursor: str | None = None
        left = limit
        while left > 0:
            page = self.get(path, {**parameters, "limit": min(left, PAGE), "cursor": cursor})
            yield from page["items"]
            left -= len(page["items"])
            cursor = page["next"]
            if cursor is None:
                return

    def table(self, text: str) -> Document:
        """A table by its id, name, db.name, catalog:db.name or location."""
        number = read_id(text)
        if number is not None:
            return dict(self.get(f"/api/v1/tables/{number}"))
        if "/" in text:
            return self.only({"location": whole_location(text)}, text)
        if ":" in text:
            return one_of([dict(self.get("/api/v1/tables/find", {"name": text}))], text)
        db_name, dot, table_name = text.rpartition(".")
        found = self.named({"db_name": db_name, "table_name": table_name}) if dot else []
        return one_of(found or self.named({"table_name": text}), text)

    def only(self, filters: Parameters, text: str) -> Document:
        return one_of(self.named(filters), text)

    def named(self, filters: Parameters) -> list[Document]:
        return list(self.get("/api/v1/tables", {**filters, "limit": 10})["items"])


def given(parameters: Parameters) -> dict[str, Any]:
    return {key: value for key, value in parameters.items() if value is not None}


def one_of(found: list[Document], text: str) -> Document:
    if not found:
        raise CommandFailed(
            f"no table is registered as {text}: see lakehand tables list, or lakehand tables add LOCATION"
        )
    if len(found) > 1:
        ids = ", ".join(str(table["id"]) for table in found)
        raise CommandFailed(f"{len(found)} tables are called {text}: name it by its id ({ids}) or location")
    return found[0]


def whole_location(text: str) -> str:
    """A path as one types it in a shell, made absolute; anything with a scheme stays as it is."""
    if urlsplit(text).scheme or text.startswith("/"):
        return text
    return str(Path(text).expanduser().absolute())


def unreachable(url: str, error: Exception) -> str:
    return (
        f"no service answers at {url} ({error}): start one with lakehand serve --warehouse DIR, "
        "or name another with --url or LAKEHAND_URL"
    )


def explained(answer: "httpx.Response", url: str) -> str:
    message = message_of(answer)
    if answer.status_code == 401:
        return f"{url} wants a token: give it with --token or LAKEHAND_TOKEN ({message})"
    if answer.status_code >= 500:
        return f"{url} answered {answer.status_code}: {message}; its log says more"
    return message


def message_of(answer: "httpx.Response") -> str:
    try:
        body = answer.json()
    except ValueError:
        return f"{answer.status_code} {answer.reason_phrase}"
    error = body.get("error", body) if isinstance(body, dict) else {}
    return str(error.get("message") or error.get("detail") or body) if isinstance(error, dict) else str(error)
