# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.empty_handler serve ...``: the service with an empty handler beside the Hudi wire, to compare."""

import time
from collections.abc import Callable
from functools import wraps

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from lakehand import cli
from lakehand.app import server
from lakehand.rest import ApiContext, build_app
from lakehand.rest.app import Pages
from lakehand.rest.wire import PREFIX, answer

PATH = PREFIX + "empty"


class EmptyHandler:
    """Stands where the Hudi wire does: behind the check of hosts and browsers, in front of the framework."""

    def __init__(self, app: ASGIApp, *, on_request: Callable[[str, str, int, float], None]) -> None:
        self.app = app
        self.on_request = on_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        await answer(send, b'{"stored":false}')
        self.on_request(PATH, "GET", 200, time.perf_counter() - began)


Build = Callable[[ApiContext, Pages | None], FastAPI]


def with_empty_handler(build: Build) -> Build:
    @wraps(build)
    def build_both(context: ApiContext, pages: Pages | None) -> FastAPI:
        app = build(context, pages)
        app.user_middleware.insert(1, Middleware(EmptyHandler, on_request=context.on_request))
        return app

    return build_both


if __name__ == "__main__":
    vars(server)["build_app"] = with_empty_handler(build_app)
    cli.app()
