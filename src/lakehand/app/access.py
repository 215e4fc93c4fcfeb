# SPDX-License-Identifier: Apache-2.0
"""Who may ask a service: no open port without a token, and tokens made directly in the database.

The latter are for the first one, and for whoever lost the last one.
"""

import getpass
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from lakehand.app import wiring
from lakehand.app.home import owner_only_files
from lakehand.app.settings import Settings
from lakehand.app.wiring import Service
from lakehand.core.services.access import AccessService
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.domain.access import Caller, Role
from lakehand.domain.errors import Invalid
from lakehand.store import migrate, open_store

log = logging.getLogger(__name__)


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


@contextmanager
def local_tokens(settings: Settings) -> Iterator[tuple[AccessService, Caller]]:
    """Whoever can write the database is an admin anyway. Works beside a running service."""
    with owner_only_files():
        if not is_current(settings):
            wiring.migrated(settings).release()
        store = open_store(settings.database_url)
        try:
            access = AccessService(store=store, audit=AuditTrail(store=store), tokens=settings.token_secrets())
            caller = Caller(name=getpass.getuser(), role=Role.ADMIN, address=socket.gethostname(), via="local")
            yield access, caller
        finally:
            store.close()


def is_current(settings: Settings) -> bool:
    if settings.database is None and not (settings.home / "lakehand.db").exists():
        return False
    return migrate.current(settings.database_url) == migrate.head()
