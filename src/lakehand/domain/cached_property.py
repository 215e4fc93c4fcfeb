# SPDX-License-Identifier: Apache-2.0
"""A property that is computed at its first use and kept, without the lock that Python 3.10 and 3.11 hold meanwhile.

``functools.cached_property`` of those versions has one lock for all instances of a class: one table whose storage hangs
would stop the properties of every other table.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - known by this name
    """Two threads may compute it at once; what is stored first counts for both."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "cached_property[T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> "cached_property[T] | T":
        """Called only while the instance has no value of this name: what is stored there comes first."""
        if instance is None:
            return self
        found: T = instance.__dict__.setdefault(self.name, self.compute(instance))
        return found
