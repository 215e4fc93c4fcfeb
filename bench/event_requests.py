# SPDX-License-Identifier: Apache-2.0
"""Requests with commit events, written as bytes: the load must cost less than what it measures."""

from collections.abc import Sequence


def event_request(events: Sequence[tuple[int, str]]) -> bytes:
    """A request with events, each an id and a location: one alone, or a batch."""
    each = b",".join(
        b'{"specversion":"1.0","type":"dev.lakehand.table.committed","source":"bench","id":"%d",'
        b'"time":"2026-11-15T12:00:00Z","data":{"location":"%s","format":"hudi","version":"%d"}}'
        % (number, location.encode(), number)
        for number, location in events
    )
    body = each if len(events) == 1 else b"[%s]" % each
    kind = b"application/cloudevents%s+json" % (b"" if len(events) == 1 else b"-batch")
    head = b"POST /api/v1/commits HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (kind, len(body)) + body
