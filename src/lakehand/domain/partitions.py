# SPDX-License-Identifier: Apache-2.0
"""Which partitions events named: a hint about where to look first. Bounded, and never trusted."""

from collections.abc import Iterable
from dataclasses import dataclass

MOST_NAMES = 100  # of one table; more are "many", which says nothing
LONGEST_NAME = 250  # characters
MOST_CHARACTERS = 8000  # of all names of a table: they are read and written with each event that names some
SHOWN = 3  # names in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPartitions:
    """What events named since a decision last used it."""

    names: tuple[str, ...] = ()  # each once, the first named first
    is_many: bool = False  # too many to be kept: then there are no names
    version: int = 0  # of what is stored: it grows with each event, and when a decision has used it

    def with_names(self, more: Iterable[str]) -> "ChangedPartitions":
        names = tuple(dict.fromkeys((*self.names, *more)))
        is_many = self.is_many or not are_few(names)
        return ChangedPartitions(names=() if is_many else names, is_many=is_many, version=self.version)

    @property
    def text(self) -> str:
        """As a part of a sentence; empty if there is nothing to say."""
        if self.is_many:
            return f"events named more than {MOST_NAMES} partitions, or long names"
        if not self.names:
            return ""
        return f"events named {len(self.names)} partition{'s' if len(self.names) > 1 else ''}: {shown(self.names)}"


def are_few(names: tuple[str, ...]) -> bool:
    """True if they can be kept: not many, and each of them a plain text."""
    is_short = len(names) <= MOST_NAMES and sum(map(len, names)) <= MOST_CHARACTERS
    return is_short and all(len(name) <= LONGEST_NAME and name.isprintable() for name in names)


def shown(names: tuple[str, ...]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
