# SPDX-License-Identifier: Apache-2.0
"""Plugins as a person reads them: who is there and how they are, and when each of them is asked."""

from rich.console import Group, RenderableType

from lakehand.cli.client import Document
from lakehand.cli.times import span, when
from lakehand.cli.views import coloured, grid


def plugins_view(document: Document) -> RenderableType:
    """Every plugin, and below what each factory does and when it is asked."""
    rows = grid("KIND", "NAME", "STATE", "FROM", "PRIORITY", "ERRORS", "DOES", "WHY")
    for one in document["items"]:
        origin = f"{one.get('distribution', '')} {one.get('version', '')}"
        rows.add_row(
            one["kind"], one["name"], coloured(one["state"]), origin, str(one.get("priority", 0)),
            str(one.get("errors", 0) + one.get("hangs", 0)), does(one), plugin_trouble(one),
        )  # fmt: skip
    pairs = [(one, pair) for one in document["items"] for pair in one.get("strategies") or []]
    if not pairs:
        return rows
    strategies = grid("FORMAT", "ACTION", "BY", "ASKED", "AT ONCE", "DRY RUN")
    for one, pair in pairs:
        by = one["name"] if pair["is_used"] else f"{one['name']} (another goes first)"
        strategies.add_row(
            pair["format"], pair["action"], by, when_asked(pair), str(pair["parallelism"] or "any"),
            "yes" if pair["dry_run"] else "",
        )  # fmt: skip
    return Group(rows, "", strategies)


def does(plugin: Document) -> str:
    pairs = plugin.get("pairs") or {}
    return ", ".join(f"{on}: {len(actions)} actions" if actions else on for on, actions in pairs.items())


def plugin_trouble(plugin: Document) -> str:
    """Why it is in the state that it is in; of one that is well, what last went wrong."""
    if plugin.get("reason"):
        return str(plugin["reason"])
    return f"{when(plugin.get('last_error_at'))}: {plugin['last_error']}" if plugin.get("last_error") else ""


def when_asked(pair: Document) -> str:
    ways = ["on change"] if pair["on_new_snapshot"] else []
    if pair["interval_seconds"]:
        ways.append(f"every {span(pair['interval_seconds'])}")
    return ", ".join(ways)
