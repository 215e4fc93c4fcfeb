# SPDX-License-Identifier: Apache-2.0
"""A request says what is wrong with it in the same words, whether a dataclass or a model of pydantic reads it."""

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lakehand.api.alerts import SilenceRequest, TestRequest
from lakehand.api.fields import describe_faults, printable


class TestModel(BaseModel):
    __test__ = False
    model_config = ConfigDict(extra="forbid")

    receiver: Annotated[str, Field(max_length=250), AfterValidator(printable)] | None = None


class SilenceModel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    duration: float = Field(ge=1, le=30 * 86400, allow_inf_nan=False)


BAD: list[Any] = [
    {"odd": 1}, {"receiver": 3}, {"receiver": "x" * 251}, {"receiver": "a\0b"}, {"receiver": "\ud800"},
    {"receiver": "\n" * 251}, {"raw": {}}, {"duration": 0}, {"duration": 2592001}, {"duration": float("nan")},
    {"duration": float("inf")}, {"duration": None}, {"duration": "x", "odd": 1, "even": 2}, [], 3, "text",
]  # fmt: skip


@pytest.mark.parametrize("document", BAD, ids=lambda one: str(one)[:20].encode("ascii", "replace").decode())
@pytest.mark.parametrize(("shape", "model"), [(TestRequest, TestModel), (SilenceRequest, SilenceModel)])
def test_a_dataclass_refuses_what_a_model_refuses_in_the_same_words(
    shape: type, model: type[BaseModel], document: Any
) -> None:
    assert fault(shape, document) == fault(model, document) != ""


def fault(shape: type, document: Any) -> str:
    try:
        TypeAdapter(shape).validate_python(document, from_attributes=True)
    except ValidationError as error:
        return describe_faults(error.errors())
    return ""
