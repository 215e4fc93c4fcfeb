# SPDX-License-Identifier: Apache-2.0
"""What a parsed request consists of: events, and what cannot be one, with the reason."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from lakehand.domain.commits import CommitEvent, CommitResult, Outcome
from lakehand.domain.errors import Invalid

Document = Mapping[str, Any]
Item = CommitEvent | CommitResult
MOST_EVENTS = 1000  # in one request
MOST_ENVELOPES = 5  # around an event: SQS in a batch, SNS in it, EventBridge in that, ...
LONGEST_NAME = 250
SHOWN = 80  # characters of a wrong value that are shown


class Unrecognised(Invalid):
    """The document is no event."""


class Defaults(NamedTuple):
    """What the query of the request says for events that do not say it themselves."""

    catalog: str = ""
    register: frozenset[Any] = frozenset()


def key_of(source: str, id: str) -> str:
    """Short, however long the parts are: many of them are kept."""
    return hashlib.blake2b(f"{source}\n{id}".encode("utf-8", "replace"), digest_size=16).hexdigest()


def text_of(value: object) -> str:
    """A text that can be stored; empty for everything else."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def part_of(document: Document, *keys: str) -> Document:
    """The object at the end of a path of keys; empty if there is none."""
    for key in keys:
        found = document.get(key)
        document = found if isinstance(found, dict) else {}
    return document


def ignored(reason: str, example: str = "") -> CommitResult:
    return CommitResult(outcome=Outcome.IGNORED, reason=reason, example=example)


def refused(reason: str, example: str = "") -> CommitResult:
    return CommitResult(outcome=Outcome.REFUSED, reason=reason, example=example)


def quote(text: str) -> str:
    return ascii(text[:SHOWN])
