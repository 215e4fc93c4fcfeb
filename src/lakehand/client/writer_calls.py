# SPDX-License-Identifier: Apache-2.0
"""Calls for writers: say that tables have changed, submit plans, and remove the plan of a table and instant."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from lakehand.api.fields import given_values
from lakehand.api.writers import CommitData, PlanRemoval, PlansRequest
from lakehand.client import Document, absolute_location
from lakehand.client.answers import CommitOutcome, Operation, Plans
from lakehand.client.groups import Call, Group, R
from lakehand.client.steps import Request, Steps, post, send
from lakehand.client.table_calls import TableRef, id_in, table_id
from lakehand.domain.texts import read_id

COMMITS = "/api/v1/commits"
PLANS = "/api/v1/plans"
COMMITTED = "dev.lakehand.table.committed"  # the type of our own event
Commit = CommitData  # the client's name of it


def report_commits(commits: str | Commit | Iterable[str | Commit]) -> Steps[CommitOutcome]:
    """Tell the service that tables have changed, at most 1000 at once: by location, catalog:db.name, or as `Commit`s.

    Reporting a commit twice does no harm.
    """
    each = [commits] if isinstance(commits, str | Commit) else commits
    body = [event_of(named(one) if isinstance(one, str) else one) for one in each]
    return (yield from send(Request(method="POST", route=COMMITS, answer=CommitOutcome, body=body, is_repeatable=True)))


def named(location: str) -> Commit:
    catalog, _, name = location.rpartition(":")
    return Commit(location=location) if "/" in location else Commit(catalog=catalog, table=name)


def event_of(commit: Commit) -> Document:
    if commit.location:
        commit = replace(commit, location=absolute_location(commit.location))
    event = {"specversion": "1.0", "type": COMMITTED, "source": "lakehand.client", "id": str(uuid4())}
    return {**event, "data": given_values(commit)}


def send_commit(
    location: str, *, format: str = "", version: str = "", partitions: Sequence[str] = ()
) -> Steps[CommitOutcome]:
    """Tell the service that a table has changed, as a catalog or a store does; by location, or catalog:db.name.

    ``version``: the instant, snapshot or version of the commit. ``partitions``: which changed, as
    ``column=value/column=value``. Sending it twice does no harm.
    """
    commit = replace(named(location), format=format, version=version, partitions=list(partitions))
    return (yield from report_commits(commit))


def submit_plans(
    table: TableRef,
    action: str,
    instants: str | Iterable[str],
    *,
    options: Mapping[str, str] | None = None,
    resource: str | None = None,
    parallelism: int | None = None,
    engine: str | None = None,
    priority: int | None = None,
    queue: str | None = None,
    owner: str | None = None,
    retry_on_error: bool | None = None,
) -> Steps[Plans]:
    """Have plans of a table run, each once, however often it is submitted. The rest is as for `operations.submit`.

    A location that nobody has registered is registered for this action alone.
    """
    wanted = PlansRequest(
        **(yield from names_of_table(table)), action=action,
        instants=[instants] if isinstance(instants, str) else list(instants), options=dict(options or {}),
        resource=resource, parallelism=parallelism, engine=engine, priority=priority, queue=queue, owner=owner,
        retry_on_error=retry_on_error,
    )  # fmt: skip
    return (yield from send(post(PLANS, Plans, given_values(wanted), is_repeatable=True)))


def remove_plan(table: TableRef, action: str, instant: str) -> Steps[Operation]:
    """Remove the operation of a plan that was rolled back or is no longer wanted. One that runs is canceled."""
    wanted = PlanRemoval(**(yield from names_of_table(table)), action=action, instant=instant)
    return (yield from send(post(f"{PLANS}/remove", Operation, given_values(wanted))))


def names_of_table(table: TableRef) -> Steps[Document]:
    """As the request has them. A location is sent as it is, for the table may not be registered yet."""
    if not isinstance(table, str):
        return {"table": id_in(table)}
    if "/" in table and read_id(table) is None:
        return {"location": absolute_location(table)}
    return {"table": (yield from table_id(table))}


class Writers(Group[R]):
    report = Call(report_commits)
    submit = Call(submit_plans)
    remove = Call(remove_plan)
