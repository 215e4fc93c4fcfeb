# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a real service: every panel shows numbers, and no alert fires while all is well."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.deploy.files import Query, alerts, queries, read_board
from tests.deploy.prometheus_server import Prometheus, promtool, scraping
from tests.examples.conftest import SUBPROCESS, SiteFolder, make_orders
from tests.kit.polling import wait_for
from tests.kit.ports import deaf_port
from tests.kit.service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("prometheus_installed")]
ACTION = "generate-manifest"
LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
ENDED = f'lakehand_run_seconds_count{{action="{ACTION}",status="succeeded"}}'
SCHEDULED = f'lakehand_scheduling_delay_seconds_count{{action="{ACTION}"}}'
VARIABLES = {"$job": "lakehand", "$instance": ".+", "$__rate_interval": "1m", "$__range": "15m"}


@dataclass(frozen=True, kw_only=True)
class Observed:
    service: RunningService
    prometheus: Prometheus

    @property
    def address(self) -> str:
        return self.service.url.removeprefix("http://")


def fill(expr: str) -> str:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    assert "$" not in expr
    return expr


@pytest.fixture(scope="module")
def service(examples: SiteFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """With the engine of the examples, which needs no Spark."""
    home, lake = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("lake")
    home.chmod(0o700)
    (home / "lakehand.toml").write_text(SUBPROCESS)
    started = RunningService(home, lake)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", examples.environment["PYTHONPATH"])
        started.start()
    yield started
    started.end()


@pytest.fixture(scope="module")
def observed(
    prometheus_installed: None, service: RunningService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Observed]:
    """A service that has done something: Prometheus sees an increase only from the second time on."""
    table = make_orders(service.warehouse / "orders")
    address = service.url.removeprefix("http://")
    with scraping(tmp_path_factory.mktemp("prometheus"), address) as prometheus:
        number = service.add_table(table, ACTION, format="delta")
        wait_for(lambda: prometheus.numbers(f"{ENDED} >= 1 and on () {SCHEDULED} >= 1"), "the first operation")
        write_deltalake(str(table), pa.table({"id": [99]}), mode="append")
        service.post(f"/api/v1/tables/{number}/evaluate")
        wait_for(lambda: prometheus.numbers(f"{ENDED} >= 2 and on () {SCHEDULED} >= 2"), "the second operation")
        yield Observed(service=service, prometheus=prometheus)


@pytest.mark.parametrize("query", queries(), ids=str)
def test_every_query_of_the_board_returns_numbers(query: Query, observed: Observed) -> None:
    expr = fill(query.expr)

    assert wait_for(lambda: observed.prometheus.numbers(expr), f"numbers of {query}: {expr}", timeout=60)


def test_the_variables_of_the_board_offer_the_job_and_its_instances(observed: Observed) -> None:
    offered = {}
    for variable in read_board()["templating"]["list"][1:]:
        found = LABEL_VALUES.fullmatch(fill(variable["query"]["query"]))
        assert found, variable
        offered[variable["name"]] = observed.prometheus.get(f"/api/v1/label/{found[2]}/values", **{"match[]": found[1]})

    assert offered == {"job": ["lakehand"], "instance": [observed.address]}


def test_no_alert_fires_or_is_about_to_while_all_is_well(observed: Observed) -> None:
    names = {rule["alert"] for rule in alerts()}
    calm = dict.fromkeys(names, "inactive")

    wait_for(lambda: observed.prometheus.states() == calm, "all alerts to be evaluated and inactive", timeout=90)


def test_an_instance_that_is_gone_is_noticed(tmp_path: Path) -> None:
    with deaf_port() as port, scraping(tmp_path, f"127.0.0.1:{port}") as prometheus:
        wait_for(lambda: prometheus.states().get("LakehandDown") == "pending", "the alert to be pending", timeout=60)


def test_promtool_accepts_the_metrics_of_a_service_that_works(observed: Observed) -> None:
    ran = promtool("check", "metrics", given=httpx.get(f"{observed.service.url}/metrics").text)

    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
