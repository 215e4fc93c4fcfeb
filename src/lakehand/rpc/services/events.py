# SPDX-License-Identifier: Apache-2.0
"""Events: list and watch."""

from lakehand.inputs.fleet import EventQuery
from lakehand.rpc.context import Call
from lakehand.rpc.generated import events_pb2 as pb
from lakehand.rpc.messages import read
from lakehand.rpc.shapes import event_message
from lakehand.rpc.watch_events import watch_events

__all__ = ["watch_events"]


def list_events(call: Call, request: pb.ListEventsRequest) -> pb.ListEventsResponse:
    page = call.context.store.events.list(**read(EventQuery, request).model_dump())
    return pb.ListEventsResponse(events=map(event_message, page.items), next_page_token=page.next or "")
