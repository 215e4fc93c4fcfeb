# SPDX-License-Identifier: Apache-2.0
"""A fake REST catalog with many tables, in pages, for measuring: nothing is stored, all is made from its number."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PER_NAMESPACE = 10_000
PAGE = 1_000
METADATA = {
    "format-version": 2, "last-sequence-number": 0, "last-updated-ms": 0, "last-column-id": 1, "current-schema-id": 0,
    "schemas": [{"type": "struct", "schema-id": 0,
                 "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}],
    "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
    "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}], "properties": {}, "snapshots": [],
    "table-uuid": "00000000-0000-0000-0000-000000000001",
}  # fmt: skip


class FakeRestCatalog(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    tables = 0

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        data = json.dumps(self.answer(parts.path.split("/")[2:], parse_qs(parts.query))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer(self, words: list[str], query: dict[str, list[str]]) -> dict[str, Any]:
        if words == ["config"]:
            return {"defaults": {}, "overrides": {}}
        if words == ["namespaces"]:
            count = 0 if "parent" in query else -(-self.tables // PER_NAMESPACE)
            return {"namespaces": [[f"ns{number}"] for number in range(count)]}
        if len(words) == 3:
            return self.page(words[1], int(query.get("pageToken", ["0"])[0]))
        location = f"file:///data/{words[1]}/{words[3]}"
        metadata = {**METADATA, "location": location}
        return {"metadata-location": f"{location}/metadata/v1.metadata.json", "metadata": metadata, "config": {}}

    def page(self, namespace: str, start: int) -> dict[str, Any]:
        count = min(PER_NAMESPACE, self.tables - PER_NAMESPACE * int(namespace.removeprefix("ns")))
        end = min(count, start + PAGE)
        found = [{"namespace": [namespace], "name": f"table_{number:06d}"} for number in range(start, end)]
        return {"identifiers": found, "next-page-token": str(end) if end < count else None}

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


def main() -> None:
    FakeRestCatalog.tables = int(sys.argv[1])
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeRestCatalog) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
