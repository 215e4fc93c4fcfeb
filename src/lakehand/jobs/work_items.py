# SPDX-License-Identifier: Apache-2.0
"""What the driver accepts from its spool folder: regular files of bounded size with the fields that work needs."""

import json
import math
import os
import stat
from pathlib import Path
from typing import Any

MOST_BYTES = 16 << 20
LONGEST_LEASE = 36500 * 86400.0  # seconds: as long as the service's own setting may be
LONGEST_TOKEN = 100
TEXTS = ("job", "table", "location", "queue")

Document = dict[str, Any]


class Refused(Exception):
    """A file in the spool is not what the driver can work with."""


def read_document(file: Path) -> Document:
    """The JSON object in a file. Raises Refused for anything else, FileNotFoundError when the file is gone."""
    content = read_bounded(file)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Refused(f"it is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Refused("it is not a JSON object")
    return document


def read_bounded(file: Path) -> bytes:
    """Never follows a link, waits for a pipe or reads more than the bound."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refused(f"it cannot be opened as a regular file: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refused("it is not a regular file")
    with os.fdopen(descriptor, "rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise Refused(f"it is larger than {MOST_BYTES} bytes")
    return content


def check_work_item(item: Document, handle: str) -> None:
    """Raise Refused unless the driver can start this work and count its lease."""
    if item.get("handle") != handle:
        raise Refused("its handle is not the name of its file")
    for name in TEXTS:
        if not isinstance(item.get(name, ""), str | None):
            raise Refused(f"its {name} is not text")
    if not item.get("job"):
        raise Refused("it names no job")
    if not isinstance(item.get("parameters", {}), dict | None):
        raise Refused("its parameters are not an object")
    if not is_number(item.get("at", 0)):
        raise Refused("its time is not a number")
    check_lease(item)


def check_renewal(renewal: Document) -> None:
    handles = renewal.get("handles")
    if not isinstance(handles, list) or not all(isinstance(handle, str) for handle in handles):
        raise Refused("its handles are not a list of texts")
    check_lease(renewal)


def check_lease(document: Document) -> None:
    token, time_to_live = document.get("heartbeat_token"), document.get("time_to_live")
    if token is not None and not (isinstance(token, str) and len(token) <= LONGEST_TOKEN):
        raise Refused("its heartbeat token is not a short text")
    if time_to_live is None or not (is_number(time_to_live) and 0 <= time_to_live <= LONGEST_LEASE):
        raise Refused(f"its time to live is not a number of seconds from 0 to {LONGEST_LEASE:.0f}")


def is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)
