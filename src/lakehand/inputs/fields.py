# SPDX-License-Identifier: Apache-2.0
"""Types of the values in requests, with their bounds: the same for every interface."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

from lakehand.api.fields import LONGEST_NAME, printable, property_key
from lakehand.domain.locations import LONGEST
from lakehand.domain.texts import LARGEST_ID

_LOCK_PROVIDERS = "org.apache.hudi."


def safe_properties(properties: Mapping[str, str]) -> Mapping[str, str]:
    provider = properties.get("hoodie.write.lock.provider", _LOCK_PROVIDERS)
    if not provider.startswith(_LOCK_PROVIDERS):
        raise ValueError(f"hoodie.write.lock.provider: only Hudi's own lock providers ({_LOCK_PROVIDERS}*) are loaded")
    return properties


Name = Annotated[str, Field(max_length=LONGEST_NAME), AfterValidator(printable)]
ActionName = Annotated[str, Field(max_length=64, examples=["compaction"]), AfterValidator(printable)]
LongName = Annotated[str, Field(max_length=LONGEST), AfterValidator(printable)]
Location = Annotated[LongName, Field(min_length=1, examples=["/data/trips", "s3://lake/trips"])]
Priority = Annotated[int, Field(ge=-1_000_000, le=1_000_000, description="The higher, the sooner.")]
Seconds = Annotated[float, Field(ge=1, le=30 * 86400, allow_inf_nan=False, examples=[600])]
PropertyKey = Annotated[str, AfterValidator(property_key)]
PropertyValue = Annotated[str, Field(max_length=2000), AfterValidator(printable)]
Properties = Annotated[dict[PropertyKey, PropertyValue], Field(max_length=100), AfterValidator(safe_properties)]
Id = Annotated[int, Field(ge=1, le=LARGEST_ID)]


class Paging(BaseModel):
    """The parameters of every list."""

    limit: int = Field(default=100, ge=1, le=1000, description="How many at most.")
    cursor: Annotated[str, Field(max_length=500), AfterValidator(printable)] | None = Field(
        default=None, description="`next` of the page before."
    )

    def filters(self) -> dict[str, Any]:
        return self.model_dump(exclude={"limit", "cursor"})


class OwnedQuery(Paging):
    """The filters that tables and operations have in common."""

    location: LongName | None = None
    owner: Name | None = None
    queue: Name | None = None
