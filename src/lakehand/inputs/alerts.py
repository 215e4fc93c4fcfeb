# SPDX-License-Identifier: Apache-2.0
"""What requests about alerts may contain."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lakehand.inputs.fields import Name, Paging, Seconds


class AlertQuery(Paging):
    state: Literal["open", "all"] = Field(default="open", description="`all`: resolved ones, too.")


class SilenceRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    duration: Seconds = Field(description="For how many seconds.")


class TestRequest(BaseModel):
    __test__ = False  # pytest collects classes of this name

    model_config = ConfigDict(extra="forbid")

    receiver: Name | None = Field(default=None, description="Default: all receivers.")
