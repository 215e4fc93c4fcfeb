# SPDX-License-Identifier: Apache-2.0
"""What a table needs now, or why nothing: the pauses first, then the table's own numbers."""

from collections.abc import Callable, Mapping

from lakehand.formats.delta import optimize, purge, settings, vacuum, z_order
from lakehand.formats.delta.look import Look, Need
from lakehand.formats.delta.protocol import why_unknown
from lakehand.formats.delta.settings import OPTIMIZE, PURGE, VACUUM, Z_ORDER
from lakehand.spi import Action, Invalid, Skip, TableProcess, pause

DECISIONS: Mapping[Action, Callable[[Look], Need | Skip]] = {
    OPTIMIZE: optimize.decide,
    Z_ORDER: z_order.decide,
    VACUUM: vacuum.decide,
    PURGE: purge.decide,
}


def decide(look: Look, action: Action) -> TableProcess | Skip:
    if off := settings.switched_off(look.config, action):
        return Skip(reason=off)
    if waiting := pause(look.table, action):
        return waiting
    answer = needed(look, action)
    if isinstance(answer, Skip):
        return answer
    return TableProcess(action=action, job=job_of(action), parameters=dict(answer.parameters), reason=answer.reason)


def needed(look: Look, action: Action) -> Need | Skip:
    """From the table alone."""
    if why := why_unknown(look.snapshot, look.floors.features):
        return Skip(reason=why)
    try:
        return DECISIONS[action](look)
    except Invalid as error:
        return Skip(reason=str(error))


def job_of(action: Action) -> str:
    return f"delta.{action.replace('-', '_')}"
