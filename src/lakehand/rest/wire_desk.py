# SPDX-License-Identifier: Apache-2.0
"""Records a batch of letters with the intake and says what became of each. Runs in the batcher's thread."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakehand.core.intake import Intake, Notification, Receipt
from lakehand.domain.events import Event
from lakehand.rest.wire_letters import Letter, Reader, Reading

SORRY = (
    b'{"stored":false,"message":"the database has not answered in time; this is stored as soon as it does, and tables '
    b'that are registered are looked at by their heartbeat in any case"}'
)
UNSTORED = (
    b'{"stored":false,"message":"not stored, and not kept: the service cannot write to its database now, and its log '
    b'says why; a registered table is looked at when it can, any other must be sent or registered again"}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireDesk:
    intake: Intake
    reader: Reader
    on_notifications: Callable[[str, str, int], None]

    def record(self, letters: Sequence[Letter]) -> Sequence[bytes]:
        """The JSON answer to each letter; one that says "stored" is durable."""
        readings = {letter: self.reader.read(letter) for letter in dict.fromkeys(letters)}
        answers = dict(zip(readings, self.store(list(readings.values())), strict=True))
        return [answers[letter] for letter in letters]

    def store(self, readings: Sequence[Reading]) -> Sequence[bytes]:
        notifications = [r.notification for r in readings if r.notification is not None]
        faults: list[Event] = [event for r in readings for event in r.faults]
        receipts = self.intake.record(notifications, faults=faults)
        left = iter(receipts)
        self.count(notifications, receipts, unread=len(readings) - len(receipts))
        return [said(r.message) if r.notification is None else answer(next(left)) for r in readings]

    def count(self, notifications: Sequence[Notification], receipts: Sequence[Receipt], unread: int) -> None:
        outcomes = Counter((n.source, r.stored) for n, r in zip(notifications, receipts, strict=True))
        for (source, is_stored), times in outcomes.items():
            self.on_notifications(source, "stored" if is_stored else "refused", times)
        if unread:
            self.on_notifications("unread", "refused", unread)


def answer(receipt: Receipt) -> bytes:
    return b'{"stored":true,"table":%d}' % (receipt.table or 0) if receipt.stored else said(receipt.message)


def said(message: str) -> bytes:
    return json.dumps({"stored": False, "message": message[:500]}).encode()
