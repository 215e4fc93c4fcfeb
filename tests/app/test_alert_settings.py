# SPDX-License-Identifier: Apache-2.0
"""The settings of alerts: what is accepted, how it is read, and that no error or listing shows a secret."""

import sys
from datetime import time, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lakehand.app.alerting import open_receivers
from lakehand.app.settings import Settings, load
from lakehand.domain.alerts import Severity
from lakehand.domain.errors import Invalid
from lakehand.spi.alerters import Alerter
from tests.app.distributions import Installer

toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
RECEIVER = (
    '[alerts.receivers.on-call]\nkind = "webhook"\nurl = "https://example.com/hush"\nsecret = "hush-hush-hush-hush"\n'
)


def read(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "lakehand.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return load({"home": tmp_path / "home"}, file)


def test_receivers_routes_and_quiet_hours_are_read(tmp_path: Path) -> None:
    text = f"""
        [alerts]
        quiet-hours = "22:00-07:00"
        time_zone = "Europe/Berlin"
        reminder = "12h"
        {RECEIVER}
        [[alerts.routes]]
        receivers = ["on-call"]
        severities = ["critical"]
    """

    rules = read(tmp_path, text).alerts.rules()

    assert rules.receivers == ("on-call",)
    assert rules.routes[0].severities == {Severity.CRITICAL}
    assert rules.quiet_hours is not None
    assert (rules.quiet_hours.start, rules.quiet_hours.end) == (time(22), time(7))
    assert (str(rules.quiet_hours.zone), rules.reminder) == ("Europe/Berlin", timedelta(hours=12))


def test_receivers_and_routes_can_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHAND_ALERTS__RECEIVERS", '{"ops": {"url": "mailto://a:b@example.com"}}')
    monkeypatch.setenv("LAKEHAND_ALERTS__ROUTES", '[{"receivers": ["ops"], "owners": ["ann"]}]')
    monkeypatch.setenv("LAKEHAND_ALERTS__QUIET_HOURS", "22:00-07:00")

    rules = read(tmp_path, "").alerts.rules()

    assert rules.receivers == ("ops",)
    assert rules.routes[0].owners == {"ann"}
    assert rules.quiet_hours is not None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[alerts]\nquiet_hours = "late"', "quiet_hours.*22:00-07:00"),
        ('[alerts]\nquiet_hours = "07:00-07:00"', "22:00-07:00"),
        ('[alerts]\ntime_zone = "Atlantis"', "not a time zone"),
        ('[alerts]\nreminder = "soon"', "not a duration"),
        ('[[alerts.routes]]\nreceivers = ["nobody"]', "route 1 names 'nobody', which is not a receiver; .* none"),
        ("[[alerts.routes]]\nreceivers = []", "route 1 names no receiver"),
        ('[[alerts.routes]]\nreceivers = ["x"]\nseverities = ["odd"]', "severities"),
        ('[alerts.receivers.ops]\nkind = "webhook"', "receivers.ops.url: Field required"),
        ('[alerts.receivers."a b"]\nurl = "json://x"', "name of a receiver"),
        (f'{RECEIVER}\nodd = "hush"', "odd"),
        ('[alerts.receivers.ops]\nurl = "https://x"\nsecret = "hush"', "it must have 16 to 512 characters"),
        ('[alerts.receivers.ops]\nurl = "https://x"\nsecret = ""', "it is empty"),
    ],
)
def test_a_mistake_is_named_and_no_secret_is(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(Invalid, match=error) as raised:
        read(tmp_path, text)

    assert "hush" not in str(raised.value)


def test_the_address_of_a_receiver_is_a_secret(tmp_path: Path) -> None:
    settings = read(tmp_path, RECEIVER)

    assert "hush" not in repr(settings.alerts)
    assert "hush" not in str(settings.model_dump())
    file = tmp_path / "lakehand.toml"
    file.write_text('[alerts.receivers.ops]\nurl = "slack://hush"\n', encoding="utf-8")
    file.chmod(0o644)
    assert "holds secrets" in load({"home": tmp_path / "home"}, file).config.warnings[0]


SOURCE = """
from lakehand.spi.alerters import Alerter

class Broken(Alerter):
    name = "broken"
    def open(self, properties):
        raise RuntimeError("cannot use " + properties["url"])
    def send(self, text): ...
"""


def test_a_receiver_that_cannot_be_opened_stops_no_other_and_shows_no_secret(
    tmp_path: Path, installer: Installer
) -> None:
    installer.install("odd-alerter", {"alerters": {"odd": "Broken"}}, SOURCE)
    settings = read(tmp_path, '[alerts.receivers.ops]\nkind = "odd"\nurl = "https://example.com/hush-hush"\n')

    [receiver] = open_receivers(settings.alerts.receivers).values()

    assert receiver.problem == "the receiver cannot be used: RuntimeError: cannot use ***"
    assert "hush" not in repr(receiver)


def test_a_kind_that_nobody_provides_is_refused(tmp_path: Path) -> None:
    settings = read(tmp_path, '[alerts.receivers.ops]\nkind = "pigeon"\nurl = "json://x"\n')

    with pytest.raises(Invalid, match="ops: no alerter is called 'pigeon'"):
        open_receivers(settings.alerts.receivers)


def test_our_own_alerters_are_entry_points() -> None:
    project = toml.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = project["entry-points"]["lakehand.alerters"]

    for name, value in named.items():
        module, _, word = value.partition(":")
        found = getattr(import_module(module), word)
        assert issubclass(found, Alerter)
        assert found.name == name
