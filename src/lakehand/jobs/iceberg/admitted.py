# SPDX-License-Identifier: Apache-2.0
"""Whether a loaded table is the one that was admitted, in the place that was admitted."""

import os
from typing import Any

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.job import Job
from lakehand.jobs.paths import canonical

LOCATION_PROVIDER = "write.location-provider.impl"


def refuse_other(job: Job, table: Any) -> None:
    """Raise unless this is the table that was admitted, in the place that was admitted."""
    boundary, asked = job.boundary, job.parameters["location"]
    if canonical(asked) not in (canonical(boundary.location), canonical(boundary.real)):
        raise OutsideTable(f"the table was admitted at {boundary.location}, and the work was for {asked}")
    if real_place(str(table.location())) != real_place(boundary.real):
        raise OutsideTable(f"the table is at {table.location()} now, and the work was for {asked}")
    boundary.refuse_other_table(table.operations().current().uuid(), job.parameters.get("identity"))
    refuse_foreign_code(table)


def real_place(location: str) -> str:
    """One spelling, links followed; scheme spellings are one, buckets are not."""
    whole = canonical(location)
    return os.path.realpath(whole) if whole.startswith("/") else whole


def refuse_foreign_code(table: Any) -> None:
    """Every scan of the table would load the class that this property names, with the driver's rights."""
    if named := dict(table.properties()).get(LOCATION_PROVIDER):
        raise OutsideTable(
            f"the table's property {LOCATION_PROVIDER} names a class, {named}: such a table is not worked on"
        )
