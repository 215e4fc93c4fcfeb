# SPDX-License-Identifier: Apache-2.0
"""Finds keys that a table has twice. It reads all keys, so that it is done only on request."""

from collections.abc import Mapping

from lakehand.formats.hudi.actions import HudiAction
from lakehand.formats.hudi.compaction import SEE
from lakehand.formats.hudi.context import HudiContext, HudiEffect
from lakehand.formats.hudi.unplanned import MODE
from lakehand.spi import Action, Json, Operation, Skip, TableProcess, Verdict
from lakehand.spi.kit.conversions import fields, items
from lakehand.spi.kit.verdicts import done, not_done

FIND_DUPLICATES = Action.register("find-duplicates")
SHOWN = 3  # partitions and keys in a reason


def decide(context: HudiContext) -> Skip:
    submit = f"lakehand operations submit {context.table.table.id} {context.action}"
    return Skip(reason=f"it reads all keys, so that it is done only on request: {submit}")


class SearchOnRequest(HudiAction):
    def trigger(self, context: HudiContext) -> Skip:
        return decide(context)

    def admit(self, context: HudiContext, operation: Operation) -> TableProcess | Skip:
        parameters = self.job_parameters(context, operation)
        if isinstance(parameters, Skip):
            return parameters
        return self.process({**MODE, **parameters}, operation.process.reason, engine=operation.process.engine)


def verify(effect: HudiEffect) -> Verdict:
    result = effect.result
    if "keys" not in result:
        return not_done("the search has no result")
    numbers: dict[str, Json] = {name: result[name] for name in ("keys", "rows", "searched") if name in result}
    if not result["keys"]:
        return done(f"each of {result.get('searched')} keys is one row", numbers, changed=False)
    reason = f"{result['keys']} keys are {result.get('rows')} rows: {described(result)}; to repair them, {SEE}"
    return done(reason, numbers, changed=False)


def described(result: Mapping[str, Json]) -> str:
    """Partitions with the number of such keys, and some of the keys."""
    partitions = fields(result.get("partitions"))
    named = ", ".join(f"{name or 'the table'} ({count})" for name, count in list(partitions.items())[:SHOWN])
    more = f" and {len(partitions) - SHOWN} more partitions" if len(partitions) > SHOWN else ""
    return f"{named}{more}, such as {', '.join(str(key) for key in items(result.get('examples'))[:SHOWN])}"


ACTION = SearchOnRequest(name=FIND_DUPLICATES, decide=decide, verify=verify)
