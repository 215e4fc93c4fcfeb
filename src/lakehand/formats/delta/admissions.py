# SPDX-License-Identifier: Apache-2.0
"""The last look before an engine gets the work: is it still needed, is it allowed, and with which parameters."""

from collections.abc import Mapping
from dataclasses import replace

from lakehand.formats.delta import settings, triggers
from lakehand.formats.delta.look import Look
from lakehand.formats.delta.protocol import why_unknown
from lakehand.formats.delta.settings import VACUUM
from lakehand.formats.delta.snapshot import DeltaSnapshot
from lakehand.formats.delta.tags import tagged
from lakehand.spi import (
    Drop,
    Failure,
    Invalid,
    Json,
    Operation,
    Remedy,
    Skip,
    TableProcess,
)


def admit(look: Look, operation: Operation) -> TableProcess | Skip | Drop | Failure:
    if why := why_unknown(look.snapshot, look.floors.features):
        return Failure(reason="protocol-unknown", message=why, remedy=Remedy.FATAL)
    try:
        return admit_possible(look, operation)
    except Invalid as error:
        return Failure(reason="bad-request", message=str(error), remedy=Remedy.FATAL)


def admit_possible(look: Look, operation: Operation) -> TableProcess | Skip | Drop | Failure:
    action, asked = operation.process.action, operation.process.parameters
    if is_again(operation) and tagged(look.snapshot, asked):
        # It has committed: the job sees that, too, and the table will tell.
        return replace(operation.process, job=triggers.job_of(action))
    by_person = operation.origin != "coordinator"
    options = settings.options_of(action, asked) if by_person else {}
    if flag(asked, "dry_run") and action != VACUUM:
        raise Invalid(f"{action} has no dry run: it deletes nothing")
    if off := settings.switched_off(look.config, action):
        return refused(off) if by_person else Drop(reason=off)
    need = triggers.needed(replace(look, options=options, by_person=by_person), action)
    if isinstance(need, Skip):
        return refused(need.reason) if by_person else Drop(reason=f"no longer needed: {need.reason}")
    parameters: dict[str, Json] = {**kept_wishes(asked, options, by_person=by_person), **need.parameters}
    return complete(look, operation, parameters, need.reason)


def complete(look: Look, operation: Operation, parameters: Mapping[str, Json], reason: str) -> TableProcess:
    return replace(
        operation.process,
        job=triggers.job_of(operation.process.action),
        parameters={
            **parameters,
            "location": look.table.table.location,
            "operation_tag": operation.tag,
            "before": before(look.snapshot, operation),
            "identity": look.snapshot.identity,
        },
        reason=operation.process.reason or reason,
    )


def kept_wishes(asked: Mapping[str, Json], options: Mapping[str, Json], *, by_person: bool) -> dict[str, Json]:
    """A person's wishes, kept for the next attempt. Confirming and trying out is for people."""
    if not by_person:
        return {"dry_run": False, "confirm": False}
    return {"options": dict(options), "dry_run": flag(asked, "dry_run"), "confirm": flag(asked, "confirm")}


def refused(why: str) -> Failure:
    return Failure(reason="impossible", message=why, remedy=Remedy.FATAL)


def is_again(operation: Operation) -> bool:
    """Whether we admitted it before: then its parameters are ours, and not only what someone asked for."""
    parameters = operation.process.parameters
    return bool(operation.process.job) and parameters.get("operation_tag") == operation.tag


def before(snapshot: DeltaSnapshot, operation: Operation) -> Json:
    """The table as the first attempt found it: a later one must find what the first may have committed."""
    first = operation.process.parameters.get("before")
    if is_again(operation) and isinstance(first, Mapping):
        return first
    return snapshot.headline


def flag(parameters: Mapping[str, Json], name: str) -> bool:
    """Only a plain true is a yes."""
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise Invalid(f"{name} is true or false, not {value!r}")
    return value
