# SPDX-License-Identifier: Apache-2.0
"""Opens the receivers of alerts: each gets its own alerter, found by entry point. A broken one stops no other."""

import logging
import threading
from collections.abc import Mapping
from importlib.metadata import entry_points

from lakehand.app.alert_settings import ReceiverSettings
from lakehand.core.loops.alert_sender import Receiver
from lakehand.domain.errors import Invalid, PluginBroken
from lakehand.spi.alerters import Alerter

log = logging.getLogger(__name__)
GROUP = "lakehand.alerters"
OPEN_TIMEOUT = 30.0  # seconds to import and open an alerter


def open_receivers(settings: Mapping[str, ReceiverSettings], timeout: float = OPEN_TIMEOUT) -> Mapping[str, Receiver]:
    """Raises Invalid if a receiver has a kind that nobody provides."""
    known = {entry.name for entry in entry_points(group=GROUP)} if settings else set()
    for name, one in settings.items():
        if one.kind not in known:
            kinds = ", ".join(sorted(known)) or "none: install Lakehand again"
            raise Invalid(f"alerts.receivers.{name}: no alerter is called {one.kind!r}; there are: {kinds}")
    return {name: open_receiver(name, one, timeout) for name, one in settings.items()}


def open_receiver(name: str, one: ReceiverSettings, timeout: float) -> Receiver:
    """In a separate thread, so that an alerter that hangs does not block the start."""
    properties = one.all_properties()
    secrets = tuple(properties.values())
    made: list[Receiver] = []

    def make() -> None:
        try:
            made.append(Receiver(name=name, alerter=opened(one.kind, properties), secrets=secrets))
        except (Exception, SystemExit) as error:
            made.append(broken(name, f"{type(error).__name__}: {error}", secrets))

    work = threading.Thread(target=make, name=f"load-{name}", daemon=True)
    work.start()
    work.join(timeout)
    return made[0] if made else broken(name, f"it was not imported and opened within {timeout:.0f} s", secrets)


def opened(kind: str, properties: Mapping[str, str]) -> Alerter:
    [entry] = [entry for entry in entry_points(group=GROUP) if entry.name == kind][:1]
    alerter = entry.load()()
    if not isinstance(alerter, Alerter):
        raise PluginBroken(f"{entry.value} is no Alerter")
    alerter.open(properties)
    return alerter


def broken(name: str, why: str, secrets: tuple[str, ...]) -> Receiver:
    found = Receiver(name=name, alerter=None, secrets=secrets)
    found.problem = f"the receiver cannot be used: {found.hidden(why)}"
    log.warning("a receiver of alerts cannot be used", extra={"receiver": name, "reason": found.problem})
    return found
