# SPDX-License-Identifier: Apache-2.0
"""Avro schemas that are safe to read with: no type contains itself, and few bytes never hold many values."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from lakehand.storage.json_documents import parse_json

DEEPEST = 64
LONGEST = 256 * 1024  # bytes of a schema
FREE, PER_BYTE = 64, 8  # values that a record may hold: so many, and so many more for each byte that it takes


class Cost(NamedTuple):
    """The fewest bytes that a value takes in a file, and the most values that it is made of, arrays not unfolded."""

    bytes: int
    values: int = 1


PRIMITIVES = {
    name: Cost(size)
    for name, size in {
        "null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1,
    }.items()
}  # fmt: skip


@lru_cache(maxsize=128)
def check_schema(text: bytes) -> None:
    """Raises OSError about a schema that could end or fill the process that reads with it. Cached: files repeat it."""
    if len(text) > LONGEST:
        raise OSError(f"it has {len(text)} bytes; more than {LONGEST} are not read")
    try:
        cost = Schema().cost(parse_json(text, "the schema"), 0)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise OSError(str(error)) from error
    if cost.bytes == 0:
        raise OSError("a record of it takes no bytes")


class Schema:
    """The named types of one schema and what a value of each costs."""

    def __init__(self) -> None:
        self._costs: dict[str, Cost | None] = {}  # None: its definition is not over yet

    def cost(self, schema: Any, depth: int, space: str = "") -> Cost:
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        if isinstance(schema, str):
            return self.cost_of(schema, space)
        if isinstance(schema, list):
            branches = [self.cost(one, depth + 1, space) for one in schema]
            return Cost(1 + min(one.bytes for one in branches), max(one.values for one in branches))
        return self.complex(schema, depth, space)

    def complex(self, schema: Mapping[str, Any], depth: int, space: str) -> Cost:
        kind = schema["type"]
        if kind in ("record", "error"):
            return self.record(schema, depth, space)
        if kind in ("fixed", "enum"):
            cost = Cost(max(int(schema["size"]), 0) if kind == "fixed" else 1)
            self._costs[full_name(schema, space)] = cost
            return cost
        if kind in ("array", "map"):
            inner = self.cost(schema["items" if kind == "array" else "values"], depth + 1, space)
            if kind == "array" and inner.bytes == 0:
                raise ValueError("the items of an array take no bytes")
            return Cost(1)
        return self.cost(kind, depth + 1, space)

    def record(self, schema: Mapping[str, Any], depth: int, space: str) -> Cost:
        name = full_name(schema, space)
        self._costs[name] = None
        inside = name.rpartition(".")[0]
        fields = [self.cost(field["type"], depth + 1, inside) for field in schema["fields"]]
        cost = Cost(sum(one.bytes for one in fields), 1 + sum(one.values for one in fields))
        if cost.values > FREE + PER_BYTE * cost.bytes:
            raise ValueError(f"{name[:80]!r} holds {cost.values} values in {cost.bytes} bytes")
        self._costs[name] = cost
        return cost

    def cost_of(self, name: str, space: str) -> Cost:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        full = f"{space}.{name}" if space and "." not in name else name
        known = full if full in self._costs else name
        if known not in self._costs:
            raise ValueError(f"it does not define {name[:80]!r}")
        cost = self._costs[known]
        if cost is None:
            raise ValueError(f"{name[:80]!r} contains itself")
        return cost


def full_name(schema: Mapping[str, Any], space: str) -> str:
    name, own = str(schema["name"]), schema.get("namespace", space)
    return name if "." in name or not own else f"{own}.{name}"
