# SPDX-License-Identifier: Apache-2.0
"""Makes methods of calls, once for the sync and the async client. Calls are grouped as people think of them."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, overload

from lakehand.client.runners import AsyncRunner, Runner
from lakehand.client.steps import ItemSteps, Steps

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=Runner | AsyncRunner)


class Group(Generic[R]):
    def __init__(self, runner: R) -> None:
        self.runner = runner


class Call(Generic[P, T]):
    """A method of a group: it returns the answer, or with the async client an awaitable of it."""

    def __init__(self, make: Callable[P, Steps[T]]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, group: Group[Runner], owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, group: Group[AsyncRunner], owner: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, group: None, owner: object = None) -> "Call[P, T]": ...
    def __get__(self, group: Any, owner: object = None) -> Any:
        if group is None:
            return self

        @wraps(self.make)
        def run(*arguments: P.args, **named: P.kwargs) -> Any:
            return group.runner.run(self.make(*arguments, **named))

        return run


class Listing(Generic[P, T]):
    """A method of a group that iterates; each page is read when it is needed."""

    def __init__(self, make: Callable[P, ItemSteps[T]]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, group: Group[Runner], owner: object = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, group: Group[AsyncRunner], owner: object = None) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, group: None, owner: object = None) -> "Listing[P, T]": ...
    def __get__(self, group: Any, owner: object = None) -> Any:
        if group is None:
            return self

        @wraps(self.make)
        def iterate(*arguments: P.args, **named: P.kwargs) -> Any:
            return group.runner.iterate(self.make(*arguments, **named))

        return iterate
