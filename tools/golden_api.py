# SPDX-License-Identifier: Apache-2.0
"""Writes the public API as it is into tests/interfaces/golden: python -m tools.golden_api.

A change that is to leave the API alone shows no difference there; any other change shows exactly what it changed.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import MessageToDict

from lakehand.rest.app import build_app
from lakehand.rest.context import ApiContext, Security
from tools.protos import read_protos

GOLDEN = Path(__file__).parents[1] / "tests" / "interfaces" / "golden"


def openapi() -> dict[str, Any]:
    """The OpenAPI document of a service with version 0."""
    unused = cast(Any, SimpleNamespace())
    services = cast(
        Any, SimpleNamespace(about=SimpleNamespace(version="0"), events=unused, readiness=dict, plugins=tuple)
    )
    context = ApiContext(
        services=services, intake=unused, commits=unused, metrics_text=lambda: (b"", ""), security=Security()
    )
    return build_app(context).openapi()


def descriptors() -> dict[str, Any]:
    """The .proto files as the compiler understands them, without comments and positions."""
    files = FileDescriptorSet()
    for file in sorted(read_protos().file, key=lambda file: file.name):
        file.ClearField("source_code_info")
        files.file.append(file)
    described: dict[str, Any] = MessageToDict(files, preserving_proto_field_name=True)
    return described


DOCUMENTS = {"openapi.json": openapi, "descriptors.json": descriptors}


def text(name: str) -> str:
    return json.dumps(DOCUMENTS[name](), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    for name in DOCUMENTS:
        (GOLDEN / name).write_text(text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
