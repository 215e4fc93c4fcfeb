# SPDX-License-Identifier: Apache-2.0
"""An alerter for tests."""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from lakehand.domain.errors import Unavailable
from lakehand.spi.alerters import Alerter, AlertText


class Mailbox(Alerter):
    """Keeps what it is given; refuses or hangs when a test says so."""

    name: ClassVar[str] = "mailbox"

    def __init__(self, *, is_down: bool = False) -> None:
        self.texts: list[AlertText] = []
        self.is_down = is_down
        self.attempts = 0
        self.gate = threading.Event()
        self.gate.set()

    def open(self, properties: Mapping[str, str]) -> None: ...

    def send(self, text: AlertText) -> None:
        self.attempts += 1
        self.gate.wait(60)
        if self.is_down:
            raise Unavailable("https://example.com/hooks/hush-hush is down")
        self.texts.append(text)

    @property
    def sent(self) -> list[str]:
        """The kind and the cause of each message."""
        return [f"{text.kind} {text.facts.get('cause', '')}".strip() for text in self.texts]

    @property
    def repeated(self) -> int:
        return sum(count - 1 for count in Counter(text.id for text in self.texts).values())
