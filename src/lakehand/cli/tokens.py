# SPDX-License-Identifier: Apache-2.0
"""lakehand tokens ...: who may do what. List, create and revoke tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from lakehand.api.fields import iso, values_of
from lakehand.cli.alerts import seconds_of
from lakehand.cli.options import CommandFailed, Config, Database, Home, Session, add_command, load_settings
from lakehand.cli.views import coloured, grid
from lakehand.client import Document
from lakehand.output import join, parse_time, when

if TYPE_CHECKING:
    from lakehand.api.access import NewTokenAnswer
    from lakehand.core.services.access import AccessService
    from lakehand.domain.access import Caller, Token

ROLES = ("viewer", "operator", "admin")
app = typer.Typer(
    no_args_is_help=True,
    help="List, create and revoke tokens. A viewer sees everything; an operator also changes tables and operations; "
    "an admin also makes tokens.",
)
Local: TypeAlias = Annotated[
    bool, typer.Option("--local", help="Work on the database itself, without a service: for the first token.")
]


@dataclass(frozen=True, kw_only=True)
class LocalDatabase:
    """Where --local finds the database."""

    local: Local = False
    home: Home = None
    database: Database = None
    config: Config = None

    @contextmanager
    def opened(self) -> Iterator["tuple[AccessService, Caller]"]:
        from lakehand.app.access import local_tokens

        with local_tokens(load_settings(self.home, self.database, None, self.config)) as opened:
            yield opened


@add_command(app, "list", epilog="lakehand tokens list --json")
def list_tokens(*, local_database: LocalDatabase, session: Session) -> None:
    """List all tokens, also revoked and expired ones. Secrets are not stored and cannot be shown."""
    if local_database.local:
        with local_database.opened() as (access, caller):
            document: Document = {"items": [document_of(token) for token in access.list_tokens(caller)]}
    else:
        document = {"items": [one.raw for one in session.client.tokens.list()]}
    session.show(document, tokens_view)


@add_command(
    app,
    epilog="lakehand tokens create airflow --role operator --owner sales --expires 90d  ·  "
    "lakehand tokens create admin --role admin --local --home /var/lib/lakehand",
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who uses it; several tokens may have one name.")],
    *,
    role: Annotated[str, typer.Option("--role", help="viewer, operator or admin.")] = "viewer",
    owner: Annotated[str, typer.Option("--owner", help="Let it touch only the tables of this owner.")] = "",
    expires: Annotated[str | None, typer.Option("--expires", help="For how long it is valid: 8h, 90d.")] = None,
    local_database: LocalDatabase,
    session: Session,
) -> None:
    """Make a token and print its secret, which is shown only now."""
    from lakehand.api.access import TokenRequest
    from lakehand.domain.access import Role

    if role not in ROLES:
        raise CommandFailed(f"--role {role!r} is not a role: use one of {', '.join(ROLES)}")
    life = seconds_of(expires) if expires else None
    if local_database.local:
        with local_database.opened() as (access, caller):
            made = access.create_token(caller, TokenRequest(name=name, role=Role(role), owner=owner, life=life))
        document = document_of(made)
    else:
        document = session.client.tokens.create(name, role, owner=owner, life=life).raw
    session.show(document, created_view)


@add_command(app, epilog="lakehand tokens revoke 7")
def revoke(
    id: Annotated[int, typer.Argument(metavar="ID", help="Id of a token, from lakehand tokens list.")],
    *,
    local_database: LocalDatabase,
    session: Session,
) -> None:
    """Revoke a token. Every instance refuses it within seconds; a service never becomes open by it."""
    from lakehand.domain.access import TokenId

    if local_database.local:
        with local_database.opened() as (access, caller):
            document = document_of(access.revoke_token(caller, TokenId(id)))
    else:
        document = session.client.tokens.revoke(id).raw
    session.show(document, lambda one: join(f"token {one['id']} of {one['name']} is revoked"))


def document_of(token: "Token | NewTokenAnswer") -> Document:
    """As the API writes it."""
    return {name: iso(value) if isinstance(value, datetime) else value for name, value in values_of(token).items()}


def created_view(one: Document) -> RenderableType:
    scope = f" for the tables of {one['owner']}" if one["owner"] else ""
    return Group(
        join(f"token {one['id']}: {one['name']}, {one['role']}{scope}; keep the secret, it is not shown again:"),
        Text(one["secret"], no_wrap=True, overflow="ignore"),
    )


def tokens_view(document: Document) -> RenderableType:
    if not document["items"]:
        return Text("no tokens: lakehand tokens create NAME --role admin; until then everybody on this machine is one")
    rows = grid("ID", "NAME", "ROLE", "OWNER", "STATE", "CREATED", "BY", "EXPIRES", "LAST USED")
    for one in document["items"]:
        rows.add_row(
            str(one["id"]), one["name"], one["role"], one["owner"] or "all", coloured(state_of(one)),
            when(one["created_at"]), one["created_by"], when(one["expires_at"]), when(one["used_at"]),
        )  # fmt: skip
    return rows


def state_of(one: Document) -> str:
    if one["revoked_at"]:
        return "revoked"
    ends = parse_time(one["expires_at"])
    return "expired" if ends is not None and ends <= datetime.now(timezone.utc) else "valid"
