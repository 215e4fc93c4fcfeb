# SPDX-License-Identifier: Apache-2.0
"""Actions: what can be done to a table. An open vocabulary; plugins register their words."""

import re
from collections.abc import Iterable
from typing import ClassVar

from lakehand.domain.errors import Invalid

LONGEST = 32
_SHAPE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Action(str):
    """A normalised action name: lower case, hyphens between words, at most 32 characters.

    Equal names are one object. ``Action("x")`` reads a name, for instance from the database; ``Action.register("x")``
    adds it to the vocabulary that requests may use.
    """

    __slots__ = ()
    _interned: ClassVar[dict[str, "Action"]] = {}
    _registered: ClassVar[set[str]] = set()

    def __new__(cls, name: str) -> "Action":
        known = cls._interned.get(name)
        if known is not None:
            return known
        word = name.strip().lower().replace("_", "-")
        if len(word) > LONGEST or not _SHAPE.fullmatch(word):
            raise Invalid(
                f"{name[:80]!r} is not an action name: use lower case words with hyphens, at most {LONGEST} characters"
            )
        return cls._interned.setdefault(word, super().__new__(cls, word))

    @classmethod
    def register(cls, name: str) -> "Action":
        action = cls(name)
        cls._registered.add(action)
        return action

    @property
    def is_registered(self) -> bool:
        return self in self._registered


def actions(names: Iterable[str]) -> frozenset[Action]:
    """Read a set of action names, ignoring empty ones."""
    return frozenset(Action(name) for name in names if name.strip())
