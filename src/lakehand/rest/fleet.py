# SPDX-License-Identifier: Apache-2.0
"""The route of the fleet: states of all tables, what needs a person, what was done, and the queues."""

from typing import Annotated

from fastapi import APIRouter

from lakehand.api.fleet import FleetAnswer, FleetQuery
from lakehand.rest.dependencies import Caller, Services
from lakehand.rest.queries import from_query

router = APIRouter(prefix="/api/v1/fleet", tags=["fleet"])


@router.get("")
def show_fleet(
    query: Annotated[FleetQuery, from_query(FleetQuery)], services: Services, _caller: Caller
) -> FleetAnswer:
    """How many tables are healthy, what needs a person, and what was done."""
    return services.fleet.show(query)
