# SPDX-License-Identifier: Apache-2.0
"""Runs the service in this process: database, loops and the HTTP server, until a signal stops it."""

import logging
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from lakehand.app import wiring
from lakehand.app.certificates import Certificates
from lakehand.app.home import owner_only_files
from lakehand.app.http_server import BACKLOG, AnnouncedServer, http_config, open_certificates
from lakehand.app.rpc_server import listen_for_rpc, rpc_context
from lakehand.app.settings import Settings
from lakehand.app.wiring import Service
from lakehand.domain.errors import Invalid, Unavailable
from lakehand.observe import logs
from lakehand.rest import ApiContext, Security
from lakehand.rest.hosts import Hosts
from lakehand.rest.refusals import Refusals
from lakehand.web import LiveFeed, NoDiscovery, PageContext, TableDiscovery

if TYPE_CHECKING:
    from lakehand.rpc import RpcServer

log = logging.getLogger(__name__)
# Seconds that a busy thread keeps others waiting. The intake waits for it at each call into the database.
SWITCH_INTERVAL = 0.001
# Bytes of an answer that the system takes for a client. By itself it takes megabytes, also if the client reads nothing.
SEND_BUFFER = 128 * 1024

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


def is_local(settings: Settings) -> bool:
    return settings.host in ("127.0.0.1", "localhost", "::1")


def check_access(service: Service) -> None:
    """Refuse to be reachable from outside without any token, unless that is wanted."""
    settings = service.settings
    if is_local(settings) or settings.insecure or not service.access.is_open:
        return
    raise Invalid(
        f"without a token, everybody who reaches {settings.host} would be an admin: make one with "
        f"lakehand tokens create NAME --role admin --local --home {settings.home}, configure [oidc], "
        "or start with --insecure"
    )


def warn_if_open(service: Service) -> None:
    """Log which interfaces have no token when the port is reachable from outside."""
    settings = service.settings
    if is_local(settings):
        return
    secrets = {
        "the API (tokens)": not service.access.is_open,
        "the Hudi wire (wire_token)": settings.wire_token,
        "the commit callback (callback_key)": settings.callback_key,
    }
    if unprotected := [name for name, secret in secrets.items() if not secret]:
        log.warning("reachable from outside without a token", extra={"host": settings.host, "open": unprotected})


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
    store, found = service.store, (discovery or no_discovery)(service)
    return PageContext(
        services=service.services, discovery=found, warehouses=service.tables.warehouses.prefixes,
        feed=LiveFeed(events=store.events, operations=store.operations, tables=store.tables),
    )  # fmt: skip


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
