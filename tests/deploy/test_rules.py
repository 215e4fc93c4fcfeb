# SPDX-License-Identifier: Apache-2.0
"""The rules for Prometheus: valid, tested alert by alert, on metrics that exist, with a runbook each."""

import re
from functools import cache
from typing import Any

import pytest

from lakehand.domain.alerts import Severity
from tests.deploy.files import CONFIG, ROOT, RULE_TESTS, RULES, alerts, read_yaml
from tests.deploy.prometheus_server import promtool
from tests.deploy.promql import kept_labels, problems
from tests.test_docs import anchors

ALERTS = {rule["alert"]: rule for rule in alerts()}
PLACEHOLDER = re.compile(r"\$labels\.(\w+)")
RUNBOOK = re.compile(r"^#### (Lakehand\w+)$", re.MULTILINE)
named = pytest.mark.parametrize("name", ALERTS)


def expected_alerts(name: str) -> list[list[Any]]:
    """The alerts that the tests of this rule expect at one time or another."""
    return [case["exp_alerts"] for case in rule_tests() if case["alertname"] == name]


@cache
def rule_tests() -> list[dict[str, Any]]:
    return [case for test in read_yaml(RULE_TESTS)["tests"] for case in test["alert_rule_test"]]


@pytest.mark.server  # it comes with one
@pytest.mark.usefixtures("prometheus_installed")
@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", str(RULES)), ("test", "rules", str(RULE_TESTS)), ("check", "config", str(CONFIG))],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_promtool_accepts_the_file(arguments: tuple[str, ...]) -> None:
    ran = promtool(*arguments)

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_rule_is_an_alert_with_a_name_of_its_own() -> None:
    assert len(ALERTS) == len(alerts()) > 15


@named
def test_a_test_sees_the_alert_fire_and_another_one_sees_it_silent(name: str) -> None:
    assert [] in expected_alerts(name)
    assert any(expected_alerts(name))


@named
def test_the_metrics_and_labels_of_a_rule_exist(name: str) -> None:
    assert problems(ALERTS[name]["expr"]) == []


@named
def test_an_alert_says_what_is_wrong_with_labels_that_it_has(name: str) -> None:
    rule = ALERTS[name]
    texts = rule["annotations"]

    assert set(texts) == {"summary", "description", "runbook_url"}
    assert rule["labels"]["severity"] in list(Severity)
    used = set(PLACEHOLDER.findall(texts["summary"] + texts["description"]))
    assert used - kept_labels(rule["expr"]) == set()


@named
def test_the_runbook_of_an_alert_is_a_heading_with_its_name(name: str) -> None:
    page, _, anchor = ALERTS[name]["annotations"]["runbook_url"].partition("#")

    assert anchor == name.lower()
    assert anchor in anchors((ROOT / page).read_text(encoding="utf-8"))


def test_every_runbook_belongs_to_an_alert() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")

    assert RUNBOOK.findall(page) == list(ALERTS)
