# SPDX-License-Identifier: Apache-2.0
"""Which partitions a bounded run takes: those that events named come first, within half of the run.

A hint changes the order and nothing else. The other half goes on by need, so that no partition waits forever.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

P = TypeVar("P")
Values = Mapping[str, str | None]  # of a partition, by column
NO_VALUE = frozenset({"__HIVE_DEFAULT_PARTITION__", "null"})
NO_COLUMN = "\0"


class NamedPartitions:
    """What events named, as ``column=value/column=value``. A name may leave columns out: then it means all of them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._values: dict[tuple[str, ...], set[tuple[str | None, ...]]] = {}
        for name in names:
            if pairs := sorted(parse(name).items()):
                columns = tuple(column for column, _ in pairs)
                self._values.setdefault(columns, set()).add(tuple(value for _, value in pairs))

    def __bool__(self) -> bool:
        return bool(self._values)

    def hold(self, partition: Values) -> bool:
        lowered = {column.lower(): value for column, value in partition.items()}
        return any(
            tuple(lowered.get(column, NO_COLUMN) for column in columns) in values
            for columns, values in self._values.items()
        )


def parse(name: str) -> dict[str, str | None]:
    """Columns and values of one name; empty if a part of it is not a pair."""
    pairs = [part.partition("=") for part in name.strip("/").split("/")]
    if not all(column and equals for column, equals, _ in pairs):
        return {}
    return {unquote(column).lower(): None if value in NO_VALUE else unquote(value) for column, _, value in pairs}


class PartitionChoice(NamedTuple):
    """The partitions that one run takes, each with its size."""

    sizes: Mapping[Any, int]
    named: int  # how many of them come first because events named them
    every: int  # how many there are to choose from

    @property
    def text(self) -> str:
        """For the end of a reason; empty if no event has changed the order."""
        if not self.named:
            return ""
        return f"; of {self.every} partitions {len(self.sizes)} now, first {self.named} that events named"


def choose(sizes: Mapping[P, int], named: Collection[P], *, most: int, parts: int) -> PartitionChoice:
    """The first partitions, at most ``most`` in size and ``parts`` in number, but at least one.

    Named ones come first, but leave room for the one that needs it most of the others: nobody waits forever.
    """
    other = [(p, size) for p, size in sizes.items() if p not in named][:1]
    room = min(most // 2, most - sum(size for _, size in other))
    first = dict(take(((p, size) for p, size in sizes.items() if p in named), room, parts // 2))
    waiting = [*other, *sizes.items()] if first else sizes.items()
    after = [(p, size) for p, size in dict(waiting).items() if p not in first]
    chosen = {**first, **dict(take(after, most - sum(first.values()), parts - len(first)))}
    chosen = chosen or dict(after[:1])
    return PartitionChoice(chosen, len(first) if len(chosen) < len(sizes) else 0, len(sizes))


def take(sizes: Iterable[tuple[P, int]], most: int, parts: int) -> Iterator[tuple[P, int]]:
    total = 0
    for partition, size in islice(sizes, parts):
        total += size
        if total > most:
            return
        yield partition, size


def texts(names: object) -> Sequence[str]:
    """Names as they were stored with an operation."""
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
