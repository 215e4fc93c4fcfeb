# SPDX-License-Identifier: Apache-2.0
"""Events of Iceberg REST catalogs: Lakekeeper sends CloudEvents, Polaris JSON of its own."""

from collections.abc import Mapping
from typing import Any

from lakehand.domain.commits import CommitEvent
from lakehand.rest.commits.items import Defaults, Document, Item, ignored, key_of, refused, text_of

LAKEKEEPER = "uri:iceberg-catalog-service:"  # the beginning of its source
LAKEKEEPER_COMMITS = frozenset({"updateTable", "createTable", "registerTable"})
POLARIS_COMMITS = frozenset({"AFTER_UPDATE_TABLE", "AFTER_CREATE_TABLE", "AFTER_REGISTER_TABLE"})
SEPARATOR = "\x1f"  # between the levels of a namespace, where Lakekeeper writes it as in an address
OTHER = "the event of the catalog is no commit"
NAMELESS = "the event of the catalog names no table"


def is_lakekeeper(source: str) -> bool:
    return source.startswith(LAKEKEEPER)


def read_lakekeeper(attributes: Mapping[str, Any], defaults: Defaults) -> Item:
    """It names the table by namespace and name, and its warehouse by an id that only Lakekeeper knows."""
    if attributes["type"] not in LAKEKEEPER_COMMITS:
        return ignored(OTHER, text_of(attributes["type"])[:80])
    namespace = text_of(attributes.get("namespace")).replace(SEPARATOR, ".")
    key = key_of(attributes["source"], attributes["id"])
    return named(key, defaults.catalog, namespace, text_of(attributes.get("name")), defaults)


def is_polaris(document: Document) -> bool:
    return isinstance(document.get("event_type"), str) and "realm_id" in document


def read_polaris(document: Document, defaults: Defaults) -> Item:
    """As its listener for Kafka writes it. The catalog's name in Polaris need not be its name here."""
    if document["event_type"] not in POLARIS_COMMITS:
        return ignored(OTHER, document["event_type"][:80])
    levels = document.get("namespace")
    namespace = ".".join(map(text_of, levels)) if isinstance(levels, list) else text_of(levels)
    which = text_of(document.get("event_id"))
    key = key_of(f"polaris:{text_of(document['realm_id'])}", which) if which else ""
    catalog = defaults.catalog or text_of(document.get("catalog_name"))
    return named(key, catalog, namespace, text_of(document.get("table_name")), defaults)


def named(key: str, catalog: str, namespace: str, name: str, defaults: Defaults) -> Item:
    if not name:
        return refused(NAMELESS)
    return CommitEvent(
        key=key, catalog=catalog, db_name=namespace, table_name=name, format="iceberg", register=defaults.register
    )
