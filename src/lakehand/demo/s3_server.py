# SPDX-License-Identifier: Apache-2.0
"""An S3 server for the demo and for tests, as a program: moto, which keeps conditions also when it is busy.

moto looks whether an object is there, and then writes it: two conditional puts of one key at once can both succeed.
S3 lets one, and Lance relies on that.
"""

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main

Answer = Callable[[Any, Any, Any], Any]  # of a WSGI application
CONDITIONS = ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH")


def in_turn(answer: Answer, lock: Lock) -> Answer:
    """Conditional puts are carried out one after the other."""

    def answer_in_turn(application: Any, environ: Mapping[str, Any], start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] != "PUT" or not any(name in environ for name in CONDITIONS):
            return answer(application, environ, start_response)
        with lock:
            return answer(application, environ, start_response)

    return answer_in_turn


def serve() -> None:
    answer = in_turn(DomainDispatcherApplication.__call__, Lock())
    setattr(DomainDispatcherApplication, "__call__", answer)  # noqa: B010 - mypy takes no other way
    main()


if __name__ == "__main__":
    serve()
