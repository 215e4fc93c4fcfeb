# SPDX-License-Identifier: Apache-2.0
"""Pages and streams of one service follow one feed, though each interface has an event loop of its own."""

import shutil
import threading
from dataclasses import replace
from pathlib import Path

from lakehand.domain.events import Event
from lakehand.rpc.generated.events_pb2 import WatchEventsRequest
from lakehand.store import open_store
from tests.kit.polling import wait_for
from tests.rest.parts import context_over, serving
from tests.rpc.parts import TIMEOUT, rpc_context, rpc_serving
from tests.web.conftest import pages_over
from tests.web.test_live import news, watching


def test_a_page_and_a_stream_are_told_by_the_same_reader(sqlite_template: Path, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'lakehand.db')}")
    api = context_over(store)
    pages = pages_over(api, store)
    feed = pages.live.feed
    with serving(api, pages=pages) as client, rpc_serving(replace(rpc_context(api), feed=feed)) as rpc:
        stream = rpc.events.WatchEvents(WatchEventsRequest(), timeout=TIMEOUT)
        stream.initial_metadata()
        with watching(client, "fleet") as lines:
            wait_for(lambda: feed.watchers == 2, "both to follow")
            for message in ("one", "two"):
                store.events.add([Event(kind="test.event", message=message)], now=store.clock.now())
                assert next(stream).event.message == message
                assert news(lines)
            assert [one.name for one in threading.enumerate()].count("change-feed") == 1

            feed.close()
            wait_for(lambda: feed.watchers == 0, "both to end")
    store.close()
