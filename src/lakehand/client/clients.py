# SPDX-License-Identifier: Apache-2.0
"""The two clients: where the service is, who asks, and how patiently."""

import os
import ssl
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from typing_extensions import Self

from lakehand.client import DEFAULT_URL, event_calls, operation_calls, service_calls, table_calls, writer_calls
from lakehand.client.errors import RequestFailed
from lakehand.client.groups import Call, Group, R
from lakehand.client.outcomes import Retries
from lakehand.client.runners import AsyncRunner, Runner, Sending

if TYPE_CHECKING:
    import httpx

TIMEOUT = 30.0  # seconds
Verify: TypeAlias = bool | str | Path | ssl.SSLContext  # a path: a file of the certificate authorities to trust


class Groups(Group[R]):
    """What a client offers."""

    fleet = Call(service_calls.show_fleet)
    plugins = Call(service_calls.list_plugins)
    instances = Call(service_calls.list_instances)
    version = Call(service_calls.show_version)
    caller = Call(service_calls.show_caller)
    request = Call(service_calls.request)

    def __init__(self, runner: R) -> None:
        super().__init__(runner)
        self.tables = table_calls.Tables(runner)
        self.operations = operation_calls.Operations(runner)
        self.writers = writer_calls.Writers(runner)
        self.events = event_calls.Events(runner)
        self.alerts = service_calls.Alerts(runner)
        self.catalogs = service_calls.Catalogs(runner)
        self.drains = service_calls.Drains(runner)
        self.tokens = service_calls.Tokens(runner)
        self.audit = service_calls.Audit(runner)


class LakehandClient(Groups[Runner]):
    """A client of one service. Every failure of a request is a RequestFailed.

    Without a URL, LAKEHAND_URL and LAKEHAND_TOKEN say where and who. ``timeout``: seconds for each attempt.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout: float = TIMEOUT,
        retries: Retries | None = None, verify: Verify = True, transport: "httpx.BaseTransport | None" = None,
    ) -> None:  # fmt: skip
        import httpx

        url, token = address_and_token(url, token)
        http = httpx.Client(**http_arguments(url, token, verify), transport=transport)
        super().__init__(Runner(http, Sending(url=url, retries=retries or Retries(), timeout=timeout)))

    @property
    def url(self) -> str:
        return self.runner.sending.url

    def with_options(self, *, timeout: float | None = None, retries: Retries | None = None) -> "LakehandClient":
        """The same connections with another timeout or other retries, for instance for one call."""
        other = object.__new__(LakehandClient)
        sending = changed(self.runner.sending, timeout, retries)
        Groups.__init__(other, replace(self.runner, sending=sending, owner=self.runner))
        return other

    def close(self) -> None:
        self.runner.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class AsyncLakehandClient(Groups[AsyncRunner]):
    """As LakehandClient, for asyncio: calls are awaited, lists and streams are async iterators."""

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout: float = TIMEOUT,
        retries: Retries | None = None, verify: Verify = True, transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:  # fmt: skip
        import httpx

        url, token = address_and_token(url, token)
        http = httpx.AsyncClient(**http_arguments(url, token, verify), transport=transport)
        super().__init__(AsyncRunner(http, Sending(url=url, retries=retries or Retries(), timeout=timeout)))

    @property
    def url(self) -> str:
        return self.runner.sending.url

    def with_options(self, *, timeout: float | None = None, retries: Retries | None = None) -> "AsyncLakehandClient":
        """The same connections with another timeout or other retries, for instance for one call."""
        other = object.__new__(AsyncLakehandClient)
        sending = changed(self.runner.sending, timeout, retries)
        Groups.__init__(other, replace(self.runner, sending=sending, owner=self.runner))
        return other

    async def close(self) -> None:
        await self.runner.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()


def changed(sending: Sending, timeout: float | None, retries: Retries | None) -> Sending:
    return replace(sending, timeout=sending.timeout if timeout is None else timeout, retries=retries or sending.retries)


def address_and_token(url: str | None, token: str | None) -> tuple[str, str | None]:
    """A token of the environment is only for the service of the environment."""
    if url is None:
        url = os.environ.get("LAKEHAND_URL") or DEFAULT_URL
        token = token or os.environ.get("LAKEHAND_TOKEN")
    if urlsplit(url).scheme not in ("http", "https"):
        raise RequestFailed(f"{url!r} is not the address of a service: use --url {DEFAULT_URL}")
    return url.rstrip("/"), token


def http_arguments(url: str, token: str | None, verify: Verify) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if isinstance(verify, str | Path):
        verify = ssl.create_default_context(cafile=str(verify))
    if verify is True and urlsplit(url).scheme == "http":
        # Reading the certificate authorities of the machine takes longer than a request, and nobody asks them here.
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody
    return {"base_url": url, "headers": headers, "verify": verify}
