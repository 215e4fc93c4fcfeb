# SPDX-License-Identifier: Apache-2.0
"""The fleet: states of all tables, what needs a person, what was done, and the queues."""

from datetime import timedelta

from lakehand.api.tables import table_name
from lakehand.domain.fleet import FleetProblem
from lakehand.inputs.fleet import FleetQuery
from lakehand.rpc.context import Call
from lakehand.rpc.generated import fleet_pb2 as pb
from lakehand.rpc.messages import fill, read


def get_fleet(call: Call, request: pb.GetFleetRequest) -> pb.GetFleetResponse:
    query, fleet = read(FleetQuery, request), call.context.fleet
    summary, problems = fleet.summary(), fleet.needs_person(limit=query.limit)
    return fill(
        pb.GetFleetResponse(), summary,
        states=[fill(pb.StateCount(), state=state, tables=count) for state, count in summary.states.items()],
        needs_person=[problem_message(one) for one in problems.items], needs_person_total=problems.total,
        done=fleet.done(timedelta(hours=query.hours)), queues=fleet.queues(),
    )  # fmt: skip


def problem_message(problem: FleetProblem) -> pb.FleetProblem:
    return fill(pb.FleetProblem(), problem, table=table_name(problem.table))
