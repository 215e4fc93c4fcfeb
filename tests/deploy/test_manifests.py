# SPDX-License-Identifier: Apache-2.0
"""Holds systemd unit, container file, Compose and Kubernetes to the code: settings, ports, paths, options and times."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml  # type: ignore[import-untyped]

from lakehand.app.setting_types import read_duration
from lakehand.app.settings import Settings, load
from lakehand.cli import app
from lakehand.engines.spark.settings import read_settings
from lakehand.rest import health
from tests.deploy.files import DEPLOY, read_yaml
from tests.test_docs import SETTINGS, variable

UNIT, CONTAINER = DEPLOY / "systemd" / "lakehand.service", DEPLOY / "container" / "Containerfile"
COMPOSE, TOML = DEPLOY / "compose" / "compose.yaml", DEPLOY / "lakehand.toml"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
FILES = [UNIT, CONTAINER, COMPOSE, TOML, *KUBERNETES]
OF_COMMANDS = {"LAKEHAND_CONFIG", "LAKEHAND_TOKEN_FILE"}  # no settings, but read by the command
SECRETS = ("DATABASE", "TOKENS", "WIRE_TOKEN", "CALLBACK_KEY", "SECRET", "PASSWORD", "ACCESS_KEY", "LAKEHAND_TOKEN=")
AFTER_DRAIN = timedelta(minutes=2)  # docs/operating.md promises that a stop takes no longer than that
USER = 10001


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [name for name in os.environ if name.startswith("LAKEHAND_")]:
        monkeypatch.delenv(name)
    return load(config=TOML)


def documents() -> Iterator[dict[str, Any]]:
    for file in KUBERNETES:
        yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))


def kubernetes(kind: str, name: str = "lakehand") -> dict[str, Any]:
    [found] = [one for one in documents() if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def pods() -> list[dict[str, Any]]:
    return [one["spec"]["template"]["spec"] for one in documents() if "template" in one.get("spec", {})]


def containers() -> list[dict[str, Any]]:
    return [container for pod in pods() for container in pod["containers"]]


def instance() -> dict[str, Any]:
    container: dict[str, Any] = kubernetes("StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    return container


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read_yaml(COMPOSE)["services"]
    return found


def unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)


def drains() -> dict[str, list[str]]:
    """The commands that drain before a stop, in words, by file."""
    [stop], shell = unit("ExecStop"), instance()["lifecycle"]["preStop"]["exec"]["command"][2]
    return {"systemd": shlex.split(stop), "kubernetes": shlex.split(shell.partition(";")[0])}


def span(text: str) -> timedelta:
    found = read_duration(text)
    assert isinstance(found, timedelta)
    return found


def drain_seconds(words: list[str]) -> timedelta:
    return timedelta(seconds=float(words[words.index("--timeout") + 1]))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_variable_that_a_file_names_is_a_setting_or_is_read_by_the_command(file: Path) -> None:
    named = set(re.findall(r"\bLAKEHAND_[A-Z0-9_]+", file.read_text(encoding="utf-8")))

    assert named <= {variable(name) for name in SETTINGS} | OF_COMMANDS


def test_the_settings_are_accepted_for_the_service_and_for_spark(settings: Settings) -> None:
    spark = read_settings(settings.plugin_configs()["engine", "spark"].properties)

    assert spark.master == "spark://spark-master:7077"
    assert spark.conf["spark.authenticate"] == "true"
    assert settings.stop_driver, "in these deployments the driver goes with the process"


def test_the_ports_are_those_of_the_settings_everywhere(settings: Settings) -> None:
    named = {"http": settings.port, "grpc": settings.grpc_port}

    assert {port["name"]: port["containerPort"] for port in instance()["ports"]} == named
    assert {port["name"]: port["port"] for port in kubernetes("Service")["spec"]["ports"]} == named
    assert all(port["targetPort"] in named for port in kubernetes("Service")["spec"]["ports"])
    assert services()["lakehand-1"]["ports"] == [f"{port}:{port}" for port in named.values()]
    assert f"EXPOSE {settings.port} {settings.grpc_port}" in CONTAINER.read_text(encoding="utf-8")
    assert f":{settings.port}/" in services()["lakehand-1"]["healthcheck"]["test"][-1]
    assert read_yaml(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"] == [
        f"127.0.0.1:{settings.port}"
    ]


def test_the_master_is_where_the_settings_say(settings: Settings) -> None:
    host, port = settings.spark["master"].removeprefix("spark://").split(":")

    assert host in services()
    assert kubernetes("Service", host)["spec"]["ports"][0]["port"] == int(port)
    for command in (services()["spark-worker"]["command"], containers()[-1]["command"]):
        assert command[-1] == settings.spark["master"]


def test_probes_ask_routes_that_exist_by_a_name_that_is_allowed(settings: Settings) -> None:
    routes = {getattr(route, "path", "") for route in health.router.routes}
    probes = [instance()[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]

    assert [probe["path"] for probe in probes] == ["/health/live", "/health/live", "/health/ready"]
    assert {probe["path"] for probe in probes} <= routes
    assert {probe["httpHeaders"][0]["value"] for probe in probes} <= set(settings.allowed_hosts)


@pytest.mark.parametrize("name", ["systemd", "kubernetes"])
def test_the_drain_before_a_stop_is_a_command_that_exists(name: str) -> None:
    program, *words = drains()[name]
    command: Any = typer.main.get_command(app)
    options = {word for one in command.commands["drain"].params for word in one.opts}

    assert (Path(program.lstrip("-")).name, words[0]) == ("lakehand", "drain")
    assert {word for word in words if word.startswith("--")} <= options
    assert "--wait" in words


def test_a_kill_waits_until_work_was_drained_and_handed_over(settings: Settings) -> None:
    """The command may use up its time-out, and SIGTERM the one of the settings."""
    assert settings.drain_timeout is not None
    after_signal = settings.drain_timeout + AFTER_DRAIN
    [seconds] = unit("TimeoutStopSec")
    grace = kubernetes("StatefulSet")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

    assert span(seconds.removesuffix("in")) >= drain_seconds(drains()["systemd"]) + after_signal
    assert timedelta(seconds=grace) >= drain_seconds(drains()["kubernetes"]) + after_signal
    assert span(services()["lakehand-1"]["stop_grace_period"]) >= after_signal


def test_homes_are_on_volumes_of_their_own(settings: Settings) -> None:
    home = re.search(r"LAKEHAND_HOME=(\S+)", CONTAINER.read_text(encoding="utf-8"))
    assert home is not None
    mounts = [services()[f"lakehand-{n}"]["volumes"][0].split(":") for n in (1, 2, 3)]
    environment = {one["name"]: one.get("value") for one in instance()["env"]}

    assert len({volume for volume, _ in mounts}) == 3
    assert all(home[1].startswith(f"{folder}/") for _, folder in mounts)
    assert environment["LAKEHAND_HOME"] == services()["lakehand-1"]["environment"]["LAKEHAND_HOME"] == home[1]
    assert instance()["volumeMounts"][0] == {"name": "home", "mountPath": mounts[0][1]}
    assert drains()["kubernetes"][drains()["kubernetes"].index("--home") + 1] == home[1]


def test_nothing_runs_as_root_or_may_write_to_its_image() -> None:
    for pod in pods():
        assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, USER)
        assert pod["automountServiceAccountToken"] is False
    for container in containers():
        locked = container["securityContext"]
        assert (locked["readOnlyRootFilesystem"], locked["allowPrivilegeEscalation"]) == (True, False)
        assert locked["capabilities"] == {"drop": ["ALL"]}
    for name, service in services().items():
        if name != "postgresql":
            assert (service["read_only"], service["user"], service["cap_drop"]) == (True, f"{USER}:{USER}", ["ALL"])
    assert f"USER {USER}:{USER}" in CONTAINER.read_text(encoding="utf-8")
    assert unit("User") == ["lakehand"]
    assert unit("ProtectSystem") == ["strict"]


@pytest.mark.parametrize("file", [UNIT, CONTAINER, COMPOSE, *KUBERNETES], ids=lambda file: file.name)
def test_secrets_are_files_and_never_variables_or_arguments(file: Path) -> None:
    text = re.sub(r"#.*", "", file.read_text(encoding="utf-8"))
    variables = re.findall(r"LAKEHAND_\w+=?|POSTGRES_\w+", text)

    assert "CHANGE-ME" not in text
    assert [one for one in variables if any(word in one for word in SECRETS) and not one.endswith("_FILE")] == []
    assert not re.search(r"--token[ =,]|--database", text)


def test_the_example_has_no_secret_that_works() -> None:
    """Whoever forgets to change one finds it by this word."""
    for line in TOML.read_text(encoding="utf-8").splitlines():
        if re.match(r'"?[\w.]*(token|key|secret|root|drain|database)"? = ', line) and "timeout" not in line:
            assert "CHANGE-ME" in line, line


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: it comes with Debian's package systemd")
    program = tmp_path / "bin" / "lakehand"
    program.parent.mkdir()
    program.touch(mode=0o755)
    copy = tmp_path / "lakehand.service"
    copy.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/lakehand/bin", str(program.parent)))

    ran = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
