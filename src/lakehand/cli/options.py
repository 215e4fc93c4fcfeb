# SPDX-License-Identifier: Apache-2.0
"""What commands share: options, alone or in groups, and how an error becomes one line and exit code 1."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from lakehand.client import DEFAULT_URL
from lakehand.domain.cached_property import cached_property
from lakehand.domain.errors import LakehandError
from lakehand.output import Fetch, View, follow, print_document, print_error

if TYPE_CHECKING:
    import ssl

    from lakehand.app.settings import Settings
    from lakehand.client import LakehandClient

URL = DEFAULT_URL
Url: TypeAlias = Annotated[str, typer.Option("--url", envvar="LAKEHAND_URL", help="Address of the service.")]
Token: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="LAKEHAND_TOKEN", help="API token, if the service requires one.", show_default=False
    ),
]
TokenFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--token-file", envvar="LAKEHAND_TOKEN_FILE", help="File with the API token: nobody sees it in a list of "
        "processes.", show_default=False,
    ),
]  # fmt: skip
CaFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        envvar="LAKEHAND_CA_FILE",
        help="Certificate of the CA that the service's certificate is signed by.",
        show_default=False,
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Watch: TypeAlias = Annotated[bool, typer.Option("--watch", "-w", help="Keep watching and show changes, until Ctrl-C.")]
Limit: TypeAlias = Annotated[int, typer.Option("--limit", min=1, help="Show at most this many.")]
VerifyRows: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--verify-rows",
        metavar="count|checksum",
        help="Compare rows before and after; unequal ones pause the table.",
        show_default=False,
    ),
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
TableName: TypeAlias = Annotated[
    str, typer.Argument(metavar="TABLE", help="Id, name, db.name, catalog:db.name or location of a table.")
]
Id: TypeAlias = Annotated[int, typer.Argument(metavar="ID", help="Id of an operation.")]
Ids: TypeAlias = Annotated[list[int], typer.Argument(metavar="ID...", help="Ids of operations.")]
Config: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file; default: LAKEHAND_CONFIG, else lakehand.toml in home, then here."),
]
Home: TypeAlias = Annotated[
    Path | None, typer.Option("--home", help="Folder for database, spool and logs (LAKEHAND_HOME; ~/.lakehand).")
]
Database: TypeAlias = Annotated[
    str | None, typer.Option("--database", help="URL of the database (LAKEHAND_DATABASE; default: SQLite in home).")
]
Warehouse: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--warehouse", help="Serve tables under this folder or URI; repeatable (LAKEHAND_WAREHOUSES)."),
]

Command = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Session:
    """The service that a command talks to, and how the command prints."""

    url: Url = URL
    token: Token = None
    token_file: TokenFile = None
    ca_file: CaFile = None
    as_json: AsJson = False

    @cached_property
    def client(self) -> "LakehandClient":
        from lakehand.client import LakehandClient, Retries  # its types take a while to be made

        retries = Retries(attempts=3, first=0.1, longest=2.0)
        return LakehandClient(
            self.url, self.secret, retries=retries, verify=trust(self.ca_file) if self.ca_file else True
        )

    @property
    def secret(self) -> str | None:
        if self.token or self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise CommandFailed(f"--token-file {self.token_file} cannot be read: {error.strerror}") from None

    def show(self, document: Any, view: View) -> None:
        print_document(document, view, as_json=self.as_json)

    def follow(self, fetch: Fetch, view: View) -> Any:
        return follow(fetch, view, as_json=self.as_json)


def trust(ca_file: Path) -> "ssl.SSLContext":
    """Trusts what this CA has signed, and nothing else."""
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # also if there is no certificate in it
        raise CommandFailed(
            f"--ca-file {ca_file} cannot be used ({error.strerror or error}): it must hold certificates in PEM"
        ) from None


def grouped(function: Command) -> Command:
    """The function as Typer sees it: a parameter that is a dataclass becomes one option per field."""
    parameters = signature(function).parameters
    kinds: dict[str, Any] = {name: one.annotation for name, one in parameters.items()}
    groups = {name: kinds[name] for name in kinds if is_dataclass(kinds[name])}
    options = {name: signature(group).parameters for name, group in groups.items()}
    own = [one for name, one in parameters.items() if name not in groups]
    every = [*own, *(option for group in options.values() for option in group.values())]

    @wraps(function)
    def run(**given: Any) -> None:
        made = {name: group(**{key: given.pop(key) for key in options[name]}) for name, group in groups.items()}
        function(**given, **made)

    run.__signature__ = Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in every}
    return run


def add_command(app: typer.Typer, name: str | None = None, **options: Any) -> Callable[[Command], Command]:
    """Add a function with groups of options to the app."""
    return lambda function: app.command(name, **options)(grouped(function))


def load_settings(
    home: Path | None, database: str | None, warehouses: list[str] | None, config: Path | None, **more: object
) -> "Settings":
    from lakehand.app.settings import load

    given = [one if "://" in one else str(Path(one).expanduser().absolute()) for one in warehouses or []]
    return load({"home": home, "database": database, "warehouses": given or None, **more}, config)


def pairs(texts: Iterable[str] | None, option: str) -> Mapping[str, str]:
    """The values of a repeated KEY=VALUE option."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CommandFailed(f"{option} {text!r} is not KEY=VALUE")
        found[key.strip()] = value
    return found


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def absolute_reference(text: str) -> str:
    """A relative folder becomes absolute; a URI or CATALOG:db.table stays as it is."""
    if ":" in text:
        return text.rstrip("/")
    return os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111 - also resolves '..'


class CommandFailed(LakehandError):
    """The command cannot do what was asked."""

    code = "command-failed"


class Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (LakehandError, ValueError) as error:
            print_error(str(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
