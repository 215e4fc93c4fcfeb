# SPDX-License-Identifier: Apache-2.0
"""What requests about the fleet, its instances and its catalogs may contain."""

from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

LONGEST = 24 * 366  # hours


class FleetQuery(BaseModel):
    hours: int = Field(default=24, ge=1, le=LONGEST, description="The time for which `done` counts.")
    limit: int = Field(default=20, ge=1, le=1000, description="How many that need a person are listed.")


class DrainRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    timeout: float | None = Field(
        default=None, ge=0, le=LONGEST * 3600, allow_inf_nan=False,
        description="Stop running work after so many seconds and hand it over. Without it, it may finish.",
    )  # fmt: skip

    @property
    def span(self) -> timedelta | None:
        return None if self.timeout is None else timedelta(seconds=self.timeout)


class SyncRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dry_run: bool = Field(default=False, description="Only report what would change.")
    accept_empty: bool = Field(
        default=False, description="Accept a catalog that lists few tables or none, and retire what is missing."
    )
