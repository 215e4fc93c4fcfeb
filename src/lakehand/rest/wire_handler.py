# SPDX-License-Identifier: Apache-2.0
"""Parses a batch of wire requests, records it with the intake, and answers each. Runs in the group commit's thread."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakehand.core.intake import Intake, Receipt
from lakehand.domain.notifications import Notification
from lakehand.rest.wire_requests import RequestParser, WireRequest

TIMEOUT_ANSWER = (
    b'{"stored":false,"message":"the database has not answered in time; this is stored as soon as it does, and tables '
    b'that are registered are looked at by their heartbeat in any case"}'
)
UNSTORED_ANSWER = (
    b'{"stored":false,"message":"not stored, and not kept: the service cannot write to its database now, and its log '
    b'says why; a registered table is looked at when it can, any other must be sent or registered again"}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireHandler:
    intake: Intake
    parser: RequestParser
    on_notifications: Callable[[str, str, int], None]

    def handle(self, requests: Sequence[WireRequest]) -> Sequence[bytes]:
        """The JSON answer to each request; one that says "stored" is durable. Equal requests are stored once."""
        parsed = {request: self.parser.parse(request) for request in dict.fromkeys(requests)}
        receipts = self.intake.record(list(parsed.values()))
        sources = [p.source if isinstance(p, Notification) else "unread" for p in parsed.values()]
        outcomes = Counter((s, "stored" if r.stored else "refused") for s, r in zip(sources, receipts, strict=True))
        for (source, outcome), times in outcomes.items():
            self.on_notifications(source, outcome, times)
        answers = {request: answer_to(receipt) for request, receipt in zip(parsed, receipts, strict=True)}
        return [answers[request] for request in requests]


def answer_to(receipt: Receipt) -> bytes:
    if receipt.stored:
        return b'{"stored":true,"table":%d}' % (receipt.table or 0)
    return refusal_answer(receipt.message)


def refusal_answer(message: str) -> bytes:
    return json.dumps({"stored": False, "message": message[:500]}).encode()
