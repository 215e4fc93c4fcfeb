# SPDX-License-Identifier: Apache-2.0
"""A REST catalog as small as can be, in front of a catalog of pyiceberg's: for reading only."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pyiceberg.exceptions import NoSuchTableError


class Handler(BaseHTTPRequestHandler):
    catalog: Any = None
    config: Mapping[str, str] = {}  # handed out with each table
    properties: Mapping[str, str] = {}  # that somebody set for each table

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        try:
            status, body = 200, self.answer(parts.path.split("/")[2:], parse_qs(parts.query))
        except NoSuchTableError as error:
            status = 404
            body = {"error": {"message": str(error), "type": "NoSuchTableException", "code": 404}}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer(self, words: list[str], query: dict[str, list[str]]) -> dict[str, Any]:
        if words == ["config"]:
            return {"defaults": {}, "overrides": {}}
        if words == ["namespaces"]:
            return {"namespaces": [] if "parent" in query else [list(n) for n in self.catalog.list_namespaces()]}
        if len(words) == 3:
            found = self.catalog.list_tables(words[1])
            return {"identifiers": [{"namespace": list(name[:-1]), "name": name[-1]} for name in found]}
        table = self.catalog.load_table((words[1], words[3]))
        metadata = json.loads(table.metadata.model_dump_json())
        metadata["properties"] |= self.properties
        return {"metadata-location": table.metadata_location, "metadata": metadata, "config": dict(self.config)}

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


@contextmanager
def serving(
    catalog: Any, config: Mapping[str, str] | None = None, properties: Mapping[str, str] | None = None
) -> Iterator[str]:
    given = {"catalog": catalog, "config": config or {}, "properties": properties or {}}
    handler = type("Bound", (Handler,), given)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
