# SPDX-License-Identifier: Apache-2.0
"""Documents: small JSON texts in columns, and text that every database can keep."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lakehand.domain.processes import Failure, Json, Remedy
from lakehand.store.clock import span_to_millis

_ENCODER = json.JSONEncoder(separators=(",", ":"))


def to_document(value: Mapping[str, Json]) -> str:
    return _ENCODER.encode(value) if value else "{}"


def from_document(text: str) -> dict[str, Any]:
    document: dict[str, Any] = {} if text == "{}" else json.loads(text)
    return document


def failure_document(failure: Failure | None) -> str | None:
    if failure is None:
        return None
    delay = None if failure.delay is None else span_to_millis(failure.delay)
    return to_document(
        {"reason": failure.reason, "message": failure.message, "remedy": str(failure.remedy), "delay": delay}
    )


def to_failure(text: str | None) -> Failure | None:
    if text is None:
        return None
    document = from_document(text)
    delay = document["delay"]
    return Failure(
        reason=document["reason"],
        message=document["message"],
        remedy=Remedy(document["remedy"]),
        delay=None if delay is None else timedelta(milliseconds=delay),
    )


def storable_text(text: str) -> str:
    """Free text, which may come from anywhere: no database keeps half characters, and PostgreSQL no zeros."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
