# SPDX-License-Identifier: Apache-2.0
"""Makes tokens directly in the database: for the first one, and for whoever lost the last one."""

import getpass
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from lakehand.app import wiring
from lakehand.app.home import owner_only_files
from lakehand.app.settings import Settings
from lakehand.core.services.access import AccessService
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.domain.access import Caller, Role
from lakehand.store import migrate, open_store


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
