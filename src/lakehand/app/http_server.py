# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of a service: its bounds, its certificate, and how it announces its address."""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from lakehand.app.bounded_http import Bounds, Connections, bounded_http, fitting
from lakehand.app.settings import Settings
from lakehand.app.tls import HSTS, Certificates, bounded_https
from lakehand.rest import ApiContext, build_app
from lakehand.web import PageContext, build_pages

if TYPE_CHECKING:
    from lakehand.rpc import RpcServer

BACKLOG = 2048
GRACE = 5  # seconds for requests in flight when the service ends


def open_certificates(settings: Settings) -> Certificates | None:
    """None for plain HTTP."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificates(settings.tls_certificate, settings.tls_key)


def http_config(
    context: ApiContext,
    settings: Settings,
    pages: PageContext | None = None,
    certificates: Certificates | None = None,
) -> uvicorn.Config:
    bounds = Bounds(total=settings.max_connections, per_client=settings.max_connections_per_client)
    http = bounded_http(Connections(fitting(bounds), context.refusals))
    return uvicorn.Config(
        build_app(context, build_pages(pages) if pages else None),
        host=settings.host,
        loop="uvloop",
        http=bounded_https(http, certificates) if certificates else http,
        headers=[HSTS] if certificates else [],
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=GRACE,
        backlog=BACKLOG,
    )


class AnnouncedServer(uvicorn.Server):
    """Announces its address when it is ready: a line for people, a file for programs."""

    def __init__(
        self, config: uvicorn.Config, home: Path, pages: PageContext | None = None, *, scheme: str = "http",
        rpc: "RpcServer | None" = None, finish_work: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(config)
        self.finish_work = finish_work
        self.home = home
        self.scheme = scheme
        self.pages = pages
        self.rpc = rpc

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first SIGTERM lets work finish while requests are answered. Any signal after it stops at once."""
        finish_work, self.finish_work = self.finish_work, None
        if sig == signal.SIGTERM and finish_work is not None and not self.should_exit:
            threading.Thread(target=self.exit_after, args=(finish_work,), name="finish-work", daemon=True).start()
        else:
            super().handle_exit(sig, frame)

    def exit_after(self, finish_work: Callable[[], None]) -> None:
        try:
            finish_work()
        finally:
            self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.pages:
            self.pages.feed.close()
        if self.rpc:
            self.rpc.begin_stop()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            url = f"{self.scheme}://{authority_of(sockets[0])}"
            announce(url, self.home, self.rpc.address if self.rpc else None)


def authority_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def announce(url: str, home: Path, grpc: str | None = None) -> None:
    fresh = home / "address.json.new"
    where = {"url": url, "pid": os.getpid()} | ({"grpc": grpc} if grpc else {})
    fresh.write_text(json.dumps(where) + "\n", encoding="utf-8")
    fresh.replace(home / "address.json")
    sys.stdout.write(f"lakehand is ready on {url}{f', gRPC on {grpc}' if grpc else ''}\n")
    sys.stdout.flush()
