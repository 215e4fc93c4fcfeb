# SPDX-License-Identifier: Apache-2.0
"""Asks YARN about applications that send no heartbeats: in the background, and all in one question."""

import logging
import time
from collections.abc import Sequence
from threading import Thread

from lakehand.domain.errors import Unavailable
from lakehand.engines.spark.settings import SparkSettings
from lakehand.engines.spark_submit.yarn import Yarn
from lakehand.engines.spark_submit.yarn_application import YarnApplication

log = logging.getLogger(__name__)
PAUSE = 10.0  # seconds from one question to the next


class YarnWatch:
    def __init__(self, yarn: Yarn, settings: SparkSettings, pause: float = PAUSE) -> None:
        self._yarn = yarn
        self._settings = settings
        self._pause = pause
        self._thread: Thread | None = None
        self._not_before = 0.0

    @property
    def is_asking(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def check(self, applications: Sequence[YarnApplication]) -> None:
        """Returns at once. Those that were in doubt before the question are told its answer."""
        if self.is_asking or time.monotonic() < self._not_before:
            return
        if doubtful := [one for one in applications if one.is_in_doubt()]:
            self._thread = Thread(target=self._ask, args=(doubtful,), name="yarn-watch", daemon=True)
            self._thread.start()

    def _ask(self, doubtful: Sequence[YarnApplication]) -> None:
        try:
            running = self._yarn.running()
            for application in doubtful:
                if application.handle not in running:
                    application.note_absence(self._settings)
        except (OSError, Unavailable) as error:
            log.warning("YARN cannot be asked", extra={"reason": str(error)})
        finally:
            self._not_before = time.monotonic() + self._pause
