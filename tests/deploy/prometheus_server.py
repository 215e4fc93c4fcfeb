# SPDX-License-Identifier: Apache-2.0
"""Debian's promtool, and a real Prometheus that scrapes every second."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.deploy.files import CONFIG, RULES, read_yaml
from tests.kit.polling import wait_for
from tests.kit.ports import quiet_port

EVERY = "1s"


class PrometheusMissing(Exception):
    """Prometheus is not installed on this machine."""


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PrometheusMissing(f"there is no {name} here: apt install prometheus")
    return found


def promtool(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [program("promtool"), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


class Prometheus:
    """What its API answers."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **parameters: str) -> Any:
        answer = httpx.get(self.url + path, params=parameters, timeout=30)
        assert answer.status_code == 200, f"{parameters}: {answer.text}"
        return answer.json()["data"]

    def numbers(self, expr: str) -> list[float]:
        """The value of each series; one that is not a number is no data."""
        values = [float(one["value"][1]) for one in self.get("/api/v1/query", query=expr)["result"]]
        return [value for value in values if value == value]  # noqa: PLR0124 - NaN is not equal to itself

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.get("/api/v1/rules")["groups"] for rule in group["rules"]]

    def states(self) -> dict[str, str]:
        """Of each alert rule that was evaluated: inactive, pending or firing."""
        return {rule["name"]: rule["state"] for rule in self.rules() if rule["health"] == "ok"}

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=5).status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def scraping(folder: Path, target: str) -> Iterator[Prometheus]:
    """A Prometheus with our example of a configuration, our rules, and this target instead of that of the example."""
    port, file = quiet_port(), folder / "prometheus.yml"
    file.write_text(json.dumps(config_for(target)), encoding="utf-8")
    command = [program("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        started = Prometheus(f"http://127.0.0.1:{port}")
        wait_for(started.is_ready, "Prometheus to be ready", timeout=60)
        yield started
    finally:
        process.terminate()
        process.wait(30)


def config_for(target: str) -> dict[str, Any]:
    config: dict[str, Any] = read_yaml(CONFIG)
    [job] = config["scrape_configs"]
    job["static_configs"] = [{"targets": [target]}]
    times = {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY}
    return {**config, "global": times, "rule_files": [str(RULES)]}
