# SPDX-License-Identifier: Apache-2.0
"""Runs the service in this process, until a signal stops it: database, loops, and the HTTP and gRPC servers.

The HTTP server has its bounds and its certificate, and announces its address. The gRPC library is loaded only where its
port is set: it takes time and memory.
"""

import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from lakehand.app import wiring
from lakehand.app.access import check_access, warn_if_open
from lakehand.app.bounded_http import Bounds, Connections, bounded_http, fitting
from lakehand.app.home import owner_only_files
from lakehand.app.settings import Settings
from lakehand.app.tls import HSTS, Certificates, bounded_https
from lakehand.app.wiring import Service
from lakehand.domain.errors import Unavailable
from lakehand.observe import logs
from lakehand.rest import ApiContext, Security, build_app
from lakehand.rest.refusals import Hosts, Refusals
from lakehand.web import LivePages, NoDiscovery, PageContext, TableDiscovery, build_pages

if TYPE_CHECKING:
    from lakehand.rpc import RpcContext, RpcServer

log = logging.getLogger(__name__)
# Seconds that a busy thread keeps others waiting. The intake waits for it at each call into the database.
SWITCH_INTERVAL = 0.001
# Bytes of an answer that the system takes for a client. By itself it takes megabytes, also if the client reads nothing.
SEND_BUFFER = 128 * 1024
BACKLOG = 2048
GRACE = 5  # seconds for requests in flight when the service ends

Discovery = Callable[[Service], TableDiscovery]  # how tables are found for the dashboard's first page


def no_discovery(_service: Service) -> TableDiscovery:
    return NoDiscovery()


def serve(settings: Settings, discovery: Discovery | None = None) -> None:
    """Serve until SIGTERM or SIGINT. The Spark driver keeps running, unless ``stop_driver`` is set."""
    logs.set_up(settings.log_level, settings.log_format, masks=settings.masks())
    report_config(settings)
    sys.setswitchinterval(SWITCH_INTERVAL)
    certificates = open_certificates(settings)
    signals = Signals()
    with (
        owner_only_files() as umask,
        listen(settings) as listener,
        certificates or nullcontext(),
        listen_for_rpc(settings, certificates) as rpc,
    ):
        service = wiring.build(settings, wiring.migrated(settings), umask=umask)
        run(service, Listeners(listener, certificates, rpc), signals, discovery)


@dataclass(frozen=True, slots=True)
class Listeners:
    """The ports that were taken, and the certificate that is used on them."""

    http: socket.socket
    certificates: Certificates | None = None
    rpc: "RpcServer | None" = None


def run(service: Service, listeners: Listeners, signals: "Signals", discovery: Discovery | None) -> None:
    certificates, rpc = listeners.certificates, listeners.rpc
    settings = service.settings
    try:
        check_access(service)
        warn_if_open(service)
        service.start()
        context = api_context(service)
        pages = page_context(service, discovery) if settings.dashboard else None
        if rpc:
            rpc.start(rpc_context(service))
        config = http_config(context, settings, pages, certificates)
        server = AnnouncedServer(
            config, settings.home, pages, scheme="https" if certificates else "http", rpc=rpc,
            finish_work=service.finish_work,
        )  # fmt: skip
        with signals:
            server.run(sockets=[listeners.http])
    finally:
        (settings.home / "address.json").unlink(missing_ok=True)
        if rpc:
            rpc.stop()
        service.stop()


def report_config(settings: Settings) -> None:
    for warning in settings.config.warnings:
        log.warning(warning)
    log.info(settings.config.sentence)


def listen(settings: Settings) -> socket.socket:
    """Take the port first, so that a second start fails at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise Unavailable(f"cannot listen on {where}: {error.strerror}; choose another --port or --host") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # of its connections, too
    return listener


def api_context(service: Service) -> ApiContext:
    settings, metrics, name = service.settings, service.metrics, socket.gethostname()
    metrics.plugins(service.plugins.listing())
    return ApiContext(
        services=service.services,
        intake=service.intake,
        commits=service.commits,
        metrics_text=metrics.text,
        security=Security(
            wire_token=settings.secret("wire_token"),
            callback_key=settings.secret("callback_key"),
            max_body=settings.max_body,
            max_commits_body=settings.max_commits_body,
            max_callback_body=settings.max_callback_body,
            hosts=Hosts.of(settings.host, [name, name.partition(".")[0]], settings.allowed_hosts),
        ),
        on_request=metrics.request,
        on_notifications=metrics.notifications,
        refusals=Refusals(metrics.refusal),
    )


def page_context(service: Service, discovery: Discovery | None) -> PageContext:
    found, warehouses = (discovery or no_discovery)(service), service.tables.warehouses.prefixes
    live = LivePages(feed=service.feed)
    return PageContext(services=service.services, discovery=found, warehouses=warehouses, live=live)


class Signals:
    """Exits with clean-up on a signal; as a context, leaves signals to the HTTP server."""

    def __init__(self) -> None:
        self._is_handled = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        if not self._is_handled:
            raise SystemExit(0)

    def __enter__(self) -> None:
        self._is_handled = True

    def __exit__(self, *_error: object) -> None:
        self._is_handled = False


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
            self.pages.live.feed.close()
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


@contextmanager
def listen_for_rpc(settings: Settings, certificates: Certificates | None = None) -> "Iterator[RpcServer | None]":
    """Take the port first, so that a second start fails at once."""
    if settings.grpc_port is None:
        yield None
        return
    from lakehand.rpc import RpcBounds, RpcServer

    bounds = RpcBounds(max_message=settings.max_body, max_connections=settings.max_connections)
    server = RpcServer(settings.host, settings.grpc_port, bounds, certificates)
    try:
        yield server
    finally:
        server.stop()


def rpc_context(service: Service) -> "RpcContext":
    from lakehand.rpc import RpcContext

    return RpcContext(
        services=service.services, store=service.store, commits=service.commits, feed=service.feed,
        metrics=service.metrics.rpc,
    )  # fmt: skip
