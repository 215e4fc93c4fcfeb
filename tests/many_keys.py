# SPDX-License-Identifier: Apache-2.0
"""A stand-in for S3 with more keys than moto can list in a test: ListObjectsV2 in pages, PUT, GET and HEAD."""

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 1000  # keys in an answer, as S3 has it
LAST = "\U0010ffff"
WRITTEN = 1_760_000_000  # when all objects were, in seconds since the epoch
XML = "<?xml version='1.0' encoding='UTF-8'?>"
LISTED_TIME = "2025-10-09T08:53:20.000Z"
ENTRY = f"<Contents><Key>{{}}</Key><LastModified>{LISTED_TIME}</LastModified><ETag>x</ETag><Size>{{}}</Size></Contents>"


class Page(NamedTuple):
    keys: list[str]
    folders: list[str]
    rest: str  # the first key that is not on it; empty on the last page


@dataclass
class ManyKeys:
    """The objects of one bucket."""

    endpoint: str = ""
    keys: list[str] = field(default_factory=list)  # in order
    contents: dict[str, bytes] = field(default_factory=dict)  # of those that are not empty
    pages: list[int] = field(default_factory=list)  # how many keys and folders each answer had

    def put(self, key: str, content: bytes) -> None:
        at = bisect_left(self.keys, key)
        if self.keys[at : at + 1] != [key]:
            insort(self.keys, key)
        self.contents[key] = content

    def put_empty(self, keys: Iterable[str]) -> None:
        self.keys = sorted({*self.keys, *keys})

    def has(self, key: str) -> bool:
        at = bisect_left(self.keys, key)
        return self.keys[at : at + 1] == [key]

    def page(self, prefix: str, delimiter: str, start: str, size: int) -> Page:
        at, keys, folders = bisect_left(self.keys, max(prefix, start)), list[str](), list[str]()
        while at < len(self.keys) and self.keys[at].startswith(prefix):
            if len(keys) + len(folders) == size:
                return Page(keys, folders, self.keys[at])
            inside, found, _ = self.keys[at][len(prefix) :].partition(delimiter or LAST)
            if found:
                folders.append(f"{prefix}{inside}{delimiter}")
                at = bisect_left(self.keys, folders[-1] + LAST)
            else:
                keys.append(self.keys[at])
                at += 1
        return Page(keys, folders, "")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: ManyKeys

    def do_PUT(self) -> None:
        self.bucket.put(self.key, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        self.answer(200, b"")

    def do_GET(self) -> None:
        if not self.key:
            self.answer(200, self.listing().encode(), [("Content-Type", "application/xml")])
        else:
            self.hand_out()

    do_HEAD = do_GET  # noqa: N815

    @property
    def key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    def listing(self) -> str:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        size = min(int(asked.get("max-keys", PAGE)), PAGE)
        page = self.bucket.page(prefix, delimiter, asked.get("continuation-token", ""), size)
        self.bucket.pages.append(len(page.keys) + len(page.folders))
        entries = [ENTRY.format(escape(key), len(self.bucket.contents.get(key, b""))) for key in page.keys]
        entries += [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in page.folders]
        more = f"<NextContinuationToken>{escape(page.rest)}</NextContinuationToken>" if page.rest else ""
        counts = f"<KeyCount>{len(entries)}</KeyCount><IsTruncated>{str(bool(page.rest)).lower()}</IsTruncated>"
        return f"{XML}<ListBucketResult>{counts}{more}{''.join(entries)}</ListBucketResult>"

    def hand_out(self) -> None:
        if not self.bucket.has(self.key):
            self.answer(404, f"{XML}<Error><Code>NoSuchKey</Code></Error>".encode())
            return
        whole = self.bucket.contents.get(self.key, b"")
        first, _, last = (self.headers.get("Range") or "").removeprefix("bytes=").partition("-")
        part = whole[int(first) : int(last or len(whole)) + 1] if first else whole
        self.answer(206 if first else 200, part, [("Last-Modified", formatdate(WRITTEN, usegmt=True)), ("ETag", "x")])

    def answer(self, status: int, data: bytes, headers: Iterable[tuple[str, str]] = ()) -> None:
        self.send_response_only(status)
        for name, value in (*headers, ("Content-Length", str(len(data)))):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Tests read the counts instead."""


@contextmanager
def many_keys() -> Iterator[ManyKeys]:
    bucket = ManyKeys()
    handler = type("ManyKeysHandler", (Handler,), {"bucket": bucket})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        bucket.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield bucket
        finally:
            server.shutdown()
            thread.join(10)
