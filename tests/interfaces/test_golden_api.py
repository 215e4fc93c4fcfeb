# SPDX-License-Identifier: Apache-2.0
"""Holds the public API to the golden files: what callers may rely on changes only in a commit that shows it."""

import json

import pytest

from tools.golden_api import DOCUMENTS, GOLDEN, text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_api_is_the_one_of_its_golden_file(name: str) -> None:
    written = (GOLDEN / name).read_text(encoding="utf-8")
    assert text(name) == written, "if the API is to change, run: python -m tools.golden_api"


def test_the_golden_files_hold_every_route_and_every_message() -> None:
    openapi, descriptors = (json.loads((GOLDEN / name).read_text(encoding="utf-8")) for name in DOCUMENTS)
    assert "/api/v1/operations/{id}" in openapi["paths"]
    files = [file for file in descriptors["file"] if file["package"] == "lakehand.v1"]
    assert "SubmitOperationRequest" in {m["name"] for file in files for m in file.get("message_type", ())}
    assert not [file["name"] for file in files if "source_code_info" in file]
