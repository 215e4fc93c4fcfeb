# SPDX-License-Identifier: Apache-2.0
"""The fleet: states of all tables, what needs a person, what was done, and the queues."""

from lakehand.api.fleet import FleetQuery
from lakehand.rpc.context import Call
from lakehand.rpc.generated import fleet_pb2 as pb
from lakehand.rpc.messages import fill, read


def get_fleet(call: Call, request: pb.GetFleetRequest) -> pb.GetFleetResponse:
    found = call.services.fleet.show(read(FleetQuery, request))
    states = [fill(pb.StateCount(), state=state, tables=tables) for state, tables in found.states.items()]
    return fill(
        pb.GetFleetResponse(), found, states=states, needs_person=found.needs_person.items,
        needs_person_total=found.needs_person.total,
    )  # fmt: skip
