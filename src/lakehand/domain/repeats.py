# SPDX-License-Identifier: Apache-2.0
"""What a repeated request changes in the operation that an earlier one has stored. Pure: the change is returned."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehand.domain.operations import FOLLOWED, NewOperation, Operation
from lakehand.domain.processes import Json

OPTIONS = "options"
PARAMETERS = ("resource", "parallelism", OPTIONS)
OF_THE_ROW = (*FOLLOWED, "retry_on_error")


def repeated(stored: Operation, new: NewOperation) -> Operation:
    """The operation as the repeat wants it: what it gives counts, what it leaves out stays."""
    parameters, given = stored.process.parameters, new.process.parameters
    changed = {name: given[name] for name in PARAMETERS if given.get(name) and not has(parameters, name, given[name])}
    engine = new.wanted_engine or stored.wanted_engine
    process = replace(
        stored.process, parameters={**parameters, **changed}, engine=new.wanted_engine or stored.process.engine
    )
    own = {name: value for name in OF_THE_ROW if (value := getattr(new, name)) is not None}
    return replace(stored, process=process, wanted_engine=engine, **own)


def has(parameters: Mapping[str, Json], name: str, value: Json) -> bool:
    """An operation that was admitted has more options than its request."""
    present = parameters.get(name)
    if isinstance(present, Mapping) and isinstance(value, Mapping):
        return value.items() <= present.items()
    return present == value


def differences(stored: Operation, wanted: Operation) -> Sequence[str]:
    """What the repeat changes, by name."""
    one, other = stored.process.parameters, wanted.process.parameters
    names = [name for name in PARAMETERS if one.get(name) != other.get(name)]
    names += ["engine"] if stored.wanted_engine != wanted.wanted_engine else []
    return [*names, *(name for name in OF_THE_ROW if getattr(stored, name) != getattr(wanted, name))]
