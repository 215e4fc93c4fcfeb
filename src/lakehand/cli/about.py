# SPDX-License-Identifier: Apache-2.0
"""lakehand explain, plugins and version: what the service knows about a table, and about itself."""

import json

from lakehand import __version__
from lakehand.cli.client import Client
from lakehand.cli.options import URL, AsJson, TableName, Token, Url
from lakehand.cli.plugin_views import plugins_view
from lakehand.cli.problems import CommandFailed
from lakehand.cli.screen import say, show
from lakehand.cli.views import explanation_view


def explain(table: TableName, url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """Why something runs on a table, why not, and when it is looked at next."""
    client = Client(url, token)
    show(client.get(f"/api/v1/tables/{client.table(table)['id']}/explain"), explanation_view, as_json=as_json)


def plugins(url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """List formats, factories and engines: what each does and when it is asked, how it is and why."""
    show(Client(url, token).get("/api/v1/plugins"), plugins_view, as_json=as_json)


def version(url: Url = URL, token: Token = None, as_json: AsJson = False) -> None:
    """The version of this command, and of the service if it answers."""
    try:
        service = Client(url, token).get("/api/v1/version")
    except CommandFailed as problem:
        service = {"problem": str(problem)}
    if as_json:
        print(json.dumps({"command": __version__, "url": url, "service": service}, indent=2))
    else:
        say(f"lakehand {__version__}")
        say(f"service  {service.get('version') or 'not reachable'} at {url}")
