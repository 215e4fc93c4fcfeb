# SPDX-License-Identifier: Apache-2.0
"""The calls, grouped as people think of them; once for the sync and the async client."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, overload

from lakehand.client import event_calls, operation_calls, service_calls, table_calls
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


class Tables(Group[R]):
    list = Listing(table_calls.list_tables)
    get = Call(table_calls.get_table)
    add = Call(table_calls.add_table)
    change = Call(table_calls.change_table)
    pause = Call(table_calls.pause_table)
    resume = Call(table_calls.resume_table)
    remove = Call(table_calls.remove_table)
    evaluate = Call(table_calls.evaluate_table)
    explain = Call(table_calls.explain_table)
    health = Call(table_calls.show_health)
    settings = Call(table_calls.show_settings)


class Operations(Group[R]):
    list = Listing(operation_calls.list_operations)
    get = Call(operation_calls.get_operation)
    submit = Call(operation_calls.submit_operation)
    wait = Call(operation_calls.wait_for_operation)
    change = Call(operation_calls.change_operation)
    cancel = Call(operation_calls.cancel_operation)
    retry = Call(operation_calls.retry_operation)
    remove = Call(operation_calls.remove_operation)
    clear = Call(operation_calls.clear_operations)
    log = Listing(operation_calls.read_log)


class Events(Group[R]):
    list = Listing(event_calls.list_events)
    stream = Listing(event_calls.stream_events)
    send = Call(event_calls.send_commit)


class Alerts(Group[R]):
    list = Listing(service_calls.list_alerts)
    silence = Call(service_calls.silence_alert)
    test = Call(service_calls.send_test)


class Catalogs(Group[R]):
    list = Call(service_calls.list_catalogs)
    sync = Call(service_calls.sync_catalog)


class Drains(Group[R]):
    show = Call(service_calls.show_drain)
    begin = Call(service_calls.begin_drain)
    end = Call(service_calls.end_drain)


class Tokens(Group[R]):
    list = Call(service_calls.list_tokens)
    create = Call(service_calls.create_token)
    revoke = Call(service_calls.revoke_token)


class Audit(Group[R]):
    list = Listing(service_calls.list_audit)


class Groups(Group[R]):
    """What a client offers."""

    fleet = Call(service_calls.show_fleet)
    plugins = Call(service_calls.list_plugins)
    instances = Call(service_calls.list_instances)
    version = Call(service_calls.show_version)
    caller = Call(service_calls.show_caller)
    request = Call(service_calls.request)

    def __init__(self, runner: R) -> None:
        super().__init__(runner)
        self.tables = Tables(runner)
        self.operations = Operations(runner)
        self.events = Events(runner)
        self.alerts = Alerts(runner)
        self.catalogs = Catalogs(runner)
        self.drains = Drains(runner)
        self.tokens = Tokens(runner)
        self.audit = Audit(runner)
