# SPDX-License-Identifier: Apache-2.0
"""What an exception is about: the most specific class of its chain of causes, Java's included, and its message."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MESSAGE_LIMIT = 4096
CHAIN_LIMIT = 32
GENERAL = ("java.", "javax.", "scala.", "org.apache.spark.", "py4j.")  # they say where, seldom what


@dataclass(frozen=True)
class Cause:
    name: str
    message: str


def causes_of(error: BaseException) -> list[Cause]:
    """From the outermost to the root; Java's causes follow the Python exception that carried them."""
    java = java_exception(error)
    if java is not None:
        return list(java_causes(java))
    chain: list[Cause] = []
    link: BaseException | None = error
    while link is not None and len(chain) < CHAIN_LIMIT:
        chain.append(Cause(python_name(link), str(link)[:MESSAGE_LIMIT]))
        link = link.__cause__
    return chain


def main_cause(causes: list[Cause]) -> Cause:
    """The deepest cause of a library of its own; where there is none, the root."""
    special = [cause for cause in causes if not cause.name.startswith(GENERAL)]
    return special[-1] if special else causes[-1]


def java_exception(error: BaseException) -> Any:
    """The Java exception inside one of py4j's or pyspark's, if there is one."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def java_causes(java: Any) -> Iterator[Cause]:
    for _ in range(CHAIN_LIMIT):
        if java is None:
            return
        yield Cause(str(java.getClass().getName()), str(java.getMessage() or "")[:MESSAGE_LIMIT])
        java = java.getCause()


def python_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
