# SPDX-License-Identifier: Apache-2.0
"""What the answers of plugins must be. Each check raises PluginBroken with the end of a sentence about the method."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from inspect import getattr_static
from typing import Any

from lakehand.domain.actions import Action
from lakehand.domain.errors import PluginBroken
from lakehand.domain.processes import Failure, Finding, Remedy, TableProcess, Verdict
from lakehand.spi.engines import EngineHealth, EngineState, EngineStatus
from lakehand.spi.factories import ProcessTriggerStrategy


def anything(_answer: Any) -> None: ...


def check_supported(answer: Any) -> None:
    if not is_a(answer, Mapping):
        raise PluginBroken(f"returned {kind(answer)}, not formats and their actions")
    for name, actions in answer.items():
        if not is_a(name, str) or not name:
            raise PluginBroken(f"names {name!r} as a format")
        check_actions(actions)


def check_actions(answer: Any) -> None:
    if not is_a(answer, frozenset | set):
        raise PluginBroken(f"returned {kind(answer)}, not a set of actions")
    for action in answer:
        if not is_a(action, Action):
            raise PluginBroken(f"names {action!r}, which is no action: make it with Action.register({action!r})")
        if not action.is_registered:
            raise PluginBroken(f"names the unknown action {action}: make it with Action.register({str(action)!r})")


def check_strategy(answer: Any) -> None:
    if not is_a(answer, ProcessTriggerStrategy):
        raise PluginBroken(f"returned {kind(answer)}, not a ProcessTriggerStrategy")
    if answer.interval is not None and not (is_a(answer.interval, timedelta) and answer.interval > timedelta()):
        raise PluginBroken(f"returned the interval {answer.interval!r}, not a time that passes")
    if not is_a(answer.parallelism, int) or answer.parallelism < 0:
        raise PluginBroken(f"returned the parallelism {answer.parallelism!r}, not a number from 0")
    if answer.interval is None and not answer.on_new_snapshot:
        raise PluginBroken("returned a strategy without interval and without on_new_snapshot: it would never be asked")


def answer_about(action: Action, *others: type) -> Callable[[Any], None]:
    def check(answer: Any) -> None:
        if is_a(answer, TableProcess):
            check_process(answer, action)
        elif not is_a(answer, others):
            wanted = ", ".join(["TableProcess", *(one.__name__ for one in others)])
            raise PluginBroken(f"returned {kind(answer)}, not one of: {wanted}")
        elif is_a(answer, Failure):
            check_failure(answer)
        elif not is_a(answer.reason, str):
            raise PluginBroken(f"returned a {kind(answer)} without a reason")
        elif not is_a(getattr(answer, "look_again", None), timedelta | None):
            raise PluginBroken(f"returned a {kind(answer)} that looks again after {answer.look_again!r}")

    return check


def check_process(process: Any, action: Action) -> None:
    if process.action != action:
        raise PluginBroken(f"returned a process of {process.action!r} when it was asked about {action}")
    texts = (process.job, process.engine, process.conflict_class, process.reason)
    if not all(is_a(text, str) for text in texts) or not is_a(process.parameters, Mapping):
        raise PluginBroken("returned a process whose job, engine, conflict class, reason or parameters are none")
    if not is_a(process.instant, str | None):
        raise PluginBroken(f"returned a process with the instant {process.instant!r}")


def check_verdict(answer: Any) -> None:
    if not is_a(answer, Verdict) or not is_a(answer.finding, Finding):
        raise PluginBroken(f"returned {kind(answer)}, not a Verdict with a Finding")
    if not is_a(answer.numbers, Mapping) or not is_a(answer.reason, str):
        raise PluginBroken("returned a Verdict without reason or numbers")


def check_failure(answer: Any) -> None:
    if not is_a(answer, Failure) or not is_a(answer.remedy, Remedy):
        raise PluginBroken(f"returned {kind(answer)}, not a Failure with a Remedy")
    if not is_a(answer.reason, str) or not is_a(answer.message, str):
        raise PluginBroken("returned a Failure without reason or message")
    if not is_a(answer.delay, timedelta | None):
        raise PluginBroken(f"returned a Failure with the delay {answer.delay!r}")


def check_token(answer: Any) -> None:
    if not is_a(answer, str):
        raise PluginBroken(f"returned {kind(answer)}, not a sign of change in letters")


def check_snapshot(answer: Any) -> None:
    """Without asking for the numbers themselves: to count them may mean to list the whole table."""
    if not hasattr(answer, "token") or getattr_static(answer, "numbers", None) is None:
        raise PluginBroken(f"returned {kind(answer)}, which has no token and no numbers")


def check_capacity(answer: Any) -> None:
    if not is_a(answer, int) or answer < 0:
        raise PluginBroken(f"is {answer!r}, not a number from 0")


def check_heartbeat_token(answer: Any) -> None:
    if not is_a(answer, str | None):
        raise PluginBroken(f"returned {kind(answer)}, not a word of its clock")


def check_statuses(answer: Any) -> None:
    if not is_a(answer, Mapping):
        raise PluginBroken(f"returned {kind(answer)}, not a status for each handle")
    for status in answer.values():
        if not is_a(status, EngineStatus) or not is_a(status.state, EngineState):
            raise PluginBroken(f"returned {kind(status)} for a handle, not an EngineStatus")


def check_text(answer: Any) -> None:
    if not is_a(answer, str):
        raise PluginBroken(f"returned {kind(answer)}, not a text")


def check_health(answer: Any) -> None:
    if not is_a(answer, EngineHealth):
        raise PluginBroken(f"returned {kind(answer)}, not an EngineHealth")


def is_a(answer: Any, wanted: Any) -> bool:
    """Without the type checker's belief that answers are what they should be."""
    return isinstance(answer, wanted)


def kind(answer: object) -> str:
    return type(answer).__name__
