# SPDX-License-Identifier: Apache-2.0
"""Real requests of Hudi 1.2.1, kept in recorded.json so that tests of the wire can replay them without Java."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

FILE = Path(__file__).with_name("recorded.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    method: str
    target: str  # path and query, not decoded
    headers: tuple[tuple[str, str], ...]
    body: str

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def parameters(self) -> dict[str, str]:
        """The decoded query; a bare key counts as empty."""
        parsed = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        return {key: values[0] for key, values in parsed.items()}

    @property
    def json(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.body)
        return loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    scenario: str
    about: str
    requests: tuple[RecordedRequest, ...]


def recordings() -> dict[str, Recording]:
    loaded = [to_recording(item) for item in json.loads(FILE.read_text(encoding="utf-8"))]
    return {recording.scenario: recording for recording in loaded}


def to_recording(item: Mapping[str, Any]) -> Recording:
    requests = tuple(
        RecordedRequest(
            method=request["method"],
            target=request["target"],
            headers=tuple((name, value) for name, value in request["headers"]),
            body=request["body"],
        )
        for request in item["requests"]
    )
    return Recording(scenario=item["scenario"], about=item["about"], requests=requests)


def save(taken: Iterable[Recording]) -> None:
    text = json.dumps([asdict(recording) for recording in taken], indent=1, ensure_ascii=False)
    FILE.write_text(text + "\n", encoding="utf-8")
