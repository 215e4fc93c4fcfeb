# SPDX-License-Identifier: Apache-2.0
"""Sends messages by Apprise: mail, Slack, Teams, PagerDuty and everything else that has an Apprise URL."""

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from lakehand.domain.errors import Invalid, Unavailable
from lakehand.spi.alerters import Alerter, AlertText

TYPES = {"critical": "failure", "warning": "warning"}


class AppriseAlerter(Alerter):
    name: ClassVar[str] = "apprise"

    def __init__(self) -> None:
        self._target: Any = None
        self._service = ""

    def open(self, properties: Mapping[str, str]) -> None:
        """Apprise is imported here: it takes a while, and many services have no such receiver."""
        import apprise

        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it logs URLs, and these hold secrets
        asset = apprise.AppriseAsset(
            app_id="Lakehand", app_desc="Lakehand alerts", app_url="", async_mode=False, plugin_paths=[],
            storage_mode=apprise.PersistentStoreMode.MEMORY,
        )  # fmt: skip
        self._target = apprise.Apprise.instantiate(properties.get("url", ""), asset=asset, suppress_exceptions=True)
        if self._target is None:
            raise Invalid("its url is not one that Apprise understands, such as mailto://user:password@example.com")
        self._service = str(self._target.service_name)

    def send(self, text: AlertText) -> None:
        notify_type = "success" if text.kind == "resolved" else "info" if text.kind == "test" else TYPES[text.severity]
        if not self._target.notify(body=text.body, title=text.title, notify_type=notify_type, body_format="text"):
            raise Unavailable(f"{self._service} did not accept it, or did not answer")
