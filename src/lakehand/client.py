# SPDX-License-Identifier: Apache-2.0
"""A client of the REST API, for the commands and the demo; also finds a table by name, id or location."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit
from weakref import finalize

from lakehand.domain.errors import LakehandError
from lakehand.domain.numbers import read_id

if TYPE_CHECKING:  # importing it takes a fifth of a second
    import ssl

    import httpx

Document: TypeAlias = dict[str, Any]
Parameters: TypeAlias = Mapping[str, Any]

DEFAULT_URL = "http://127.0.0.1:9091"
TIMEOUT, CONNECT_TIMEOUT = 30.0, 5.0  # seconds
PAGE = 200
FINAL = frozenset({"succeeded", "failed", "canceled", "dropped"})  # statuses of an operation that is over
CREATED = 201


class RequestFailed(LakehandError):
    """The service refused a request, or did not answer."""

    code = "request-failed"


class Client:
    """One service, one token. Every failure is a RequestFailed with one sentence."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        verify: "ssl.SSLContext | bool" = True,
        transport: "httpx.BaseTransport | None" = None,
    ) -> None:
        import httpx

        if urlsplit(url).scheme not in ("http", "https"):
            raise RequestFailed(f"{url!r} is not the address of a service: use --url {DEFAULT_URL}")
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(TIMEOUT, connect=CONNECT_TIMEOUT)
        self.http = httpx.Client(
            base_url=self.url, headers=headers, timeout=timeout, verify=verify, transport=transport
        )
        finalize(self, self.http.close)  # closed together with this object

    def get(self, path: str, parameters: Parameters | None = None) -> Any:
        return self.call("GET", path, params=given(parameters or {}))

    def post(self, path: str, body: Parameters | None = None) -> Any:
        return self.call("POST", path, json=dict(body or {}))

    def put(self, path: str, body: Parameters) -> tuple[Any, bool]:
        """Post something that may exist already: the document, and whether it is new."""
        answer = self.send("POST", path, json=dict(body))
        return answer.json(), answer.status_code == CREATED

    def patch(self, path: str, body: Parameters) -> Any:
        return self.call("PATCH", path, json=dict(body))

    def delete(self, path: str) -> Any:
        return self.call("DELETE", path)

    def call(self, method: str, path: str, **arguments: Any) -> Any:
        answer = self.send(method, path, **arguments)
        return answer.json() if answer.content else {}

    def send(self, method: str, path: str, **arguments: Any) -> "httpx.Response":
        import httpx

        try:
            answer = self.http.request(method, path, **arguments)
        except httpx.TimeoutException:
            raise RequestFailed(
                f"the service at {self.url} did not answer in time: try again, or see its log"
            ) from None
        except httpx.TransportError as error:
            raise RequestFailed(unreachable(self.url, error)) from None
        if answer.is_success:
            return answer
        raise RequestFailed(error_text(answer, self.url))

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
            return one_of(self.named({"location": absolute_location(text)}), text)
        if ":" in text:
            return one_of([dict(self.get("/api/v1/tables/find", {"name": text}))], text)
        db_name, dot, table_name = text.rpartition(".")
        found = self.named({"db_name": db_name, "table_name": table_name}) if dot else []
        return one_of(found or self.named({"table_name": text}), text)

    def named(self, filters: Parameters) -> list[Document]:
        return list(self.get("/api/v1/tables", {**filters, "limit": 10})["items"])


def given(parameters: Parameters) -> dict[str, Any]:
    return {key: value for key, value in parameters.items() if value is not None}


def one_of(found: list[Document], text: str) -> Document:
    if not found:
        raise RequestFailed(
            f"no table is registered as {text}: see lakehand tables list, or lakehand tables add LOCATION"
        )
    if len(found) > 1:
        ids = ", ".join(str(table["id"]) for table in found)
        raise RequestFailed(f"{len(found)} tables are called {text}: name it by its id ({ids}) or location")
    return found[0]


def absolute_location(text: str) -> str:
    """A path as one types it in a shell, made absolute; anything with a scheme stays as it is."""
    if urlsplit(text).scheme or text.startswith("/"):
        return text
    return str(Path(text).expanduser().absolute())


def unreachable(url: str, error: Exception) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return f"the certificate of {url} is not trusted ({error}): name its CA with --ca-file or LAKEHAND_CA_FILE"
    return (
        f"no service answers at {url} ({error}): start one with lakehand serve --warehouse DIR, "
        "or name another with --url or LAKEHAND_URL"
    )


def error_text(answer: "httpx.Response", url: str) -> str:
    message = message_of(answer)
    if answer.status_code == 401:
        return f"{url} requires a token: give it with --token or LAKEHAND_TOKEN ({message})"
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
