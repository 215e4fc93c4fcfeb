# SPDX-License-Identifier: Apache-2.0
"""The settings of alerts: receivers, routes, quiet hours. Errors name the receiver, never its URL."""

import re
from datetime import time, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, SecretStr

from lakehand.app.secrets import check_secret
from lakehand.app.setting_types import Duration, Texts, Words, setting
from lakehand.core.loops.alerts import AlertLimits
from lakehand.domain.alerts import AlertRules, QuietHours, Route, Severity

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOURS = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])\s*-\s*([01][0-9]|2[0-3]):([0-5][0-9])")


def known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone: use a name such as UTC or Europe/Berlin") from None
    return name


def hours(text: str) -> str:
    found = _HOURS.fullmatch(text.strip())
    if found is None or found.group(1, 2) == found.group(3, 4):
        raise ValueError(f"{text!r} are not quiet hours: write 22:00-07:00")
    return text.strip()


def strong(secret: SecretStr) -> SecretStr:
    check_secret("it", secret)
    return secret


class ReceiverSettings(BaseModel, extra="forbid"):
    """Where messages go, and by which alerter."""

    kind: str = "apprise"
    url: SecretStr
    secret: Annotated[SecretStr, AfterValidator(strong)] | None = None
    properties: Texts = {}

    def all_properties(self) -> dict[str, str]:
        secret = {"secret": self.secret.get_secret_value()} if self.secret else {}
        return {**self.properties, "url": self.url.get_secret_value(), **secret}


class RouteSettings(BaseModel, extra="forbid"):
    """Which alerts go to which receivers; what is not given matches every alert."""

    receivers: Words
    owners: Words = []
    queues: Words = []
    formats: Words = []
    severities: list[Literal["critical", "warning"]] = []


class AlertSettings(BaseModel, extra="forbid"):
    receivers: dict[str, ReceiverSettings] = setting(
        {}, "Where messages go: `[alerts.receivers.NAME]`. Without any, alerts are only listed."
    )
    routes: list[RouteSettings] = setting([], "Which alerts go to which receivers. Without any, all go to all.")
    reminder: Duration = setting(timedelta(days=1), "An open alert is sent again after this long.")
    quiet_hours: Annotated[str, AfterValidator(hours)] | None = setting(
        None, "Hours of the day in which only critical messages are sent, such as `22:00-07:00`."
    )
    time_zone: Annotated[str, AfterValidator(known_zone)] = setting("UTC", "Time zone of the quiet hours.")
    queue_wait: Duration = setting(timedelta(hours=1), "A queue is stuck if an operation is due for this long.")
    most_per_minute: int = setting(50, "Alerts per minute and receiver; one message counts the others.", ge=1)

    def rules(self) -> AlertRules:
        return AlertRules(
            receivers=tuple(sorted(self.receivers)), routes=tuple(route_of(one) for one in self.routes),
            quiet_hours=self.quiet(), reminder=self.reminder, most_per_minute=self.most_per_minute,
        )  # fmt: skip

    def limits(self) -> AlertLimits:
        return AlertLimits(queue_wait=self.queue_wait)

    def quiet(self) -> QuietHours | None:
        found = _HOURS.fullmatch(self.quiet_hours or "")
        if found is None:
            return None
        first, second, third, fourth = map(int, found.groups())
        return QuietHours(start=time(first, second), end=time(third, fourth), zone=ZoneInfo(self.time_zone))


def route_of(one: RouteSettings) -> Route:
    return Route(
        receivers=tuple(one.receivers), owners=frozenset(one.owners), queues=frozenset(one.queues),
        formats=frozenset(one.formats), severities=frozenset(Severity(word) for word in one.severities),
    )  # fmt: skip


def read_alerts(alerts: AlertSettings) -> AlertSettings:
    for name in alerts.receivers:
        if not _NAME.fullmatch(name):
            raise ValueError("the name of a receiver may hold letters, digits and ._- only, at most 64")
    for number, route in enumerate(alerts.routes, 1):
        if not route.receivers:
            raise ValueError(f"route {number} names no receiver")
        if unknown := sorted(set(route.receivers) - set(alerts.receivers)):
            known = ", ".join(sorted(alerts.receivers)) or "none"
            raise ValueError(f"route {number} names {unknown[0]!r}, which is not a receiver; there are: {known}")
    return alerts
