# SPDX-License-Identifier: Apache-2.0
"""The wheel in an empty virtual environment outside of the repository, with the locked runtime packages only."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from urllib.request import urlopen
from venv import EnvBuilder

import pytest

from tests import small_tables
from tests.kit.polling import wait_for

pytestmark = pytest.mark.server
ROOT = Path(__file__).parents[2]
TIMEOUT = 60.0  # seconds for the service to answer


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the virtual environment ``env``."""
    folder = tmp_path_factory.mktemp("elsewhere")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    EnvBuilder(with_pip=False, symlinks=True).create(folder / "env")
    [wheel] = folder.glob("lakehand-*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "env" / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    [site] = (folder / "env" / "lib").glob("python*/site-packages")
    link_runtime_packages(site)
    return folder


def link_runtime_packages(site: Path) -> None:
    """What ``pip install`` would download for the wheel, taken from the environment of the tests."""
    locks = "".join((ROOT / "requirements" / name).read_text() for name in ("runtime.txt", "jre.txt"))
    for name in set(re.findall(r"(?m)^([A-Za-z0-9._-]+)==", locks)):
        for top in top_level_paths(name):
            if not (site / top.name).exists():
                (site / top.name).symlink_to(top)


def top_level_paths(name: str) -> set[Path]:
    try:
        found = [file for file in files(name) or [] if file.parts[0] not in ("..", "__pycache__")]
    except PackageNotFoundError:  # for another Python or platform
        return set()
    return {Path(str(file.locate())).parents[len(file.parts) - 1] / file.parts[0] for file in found}


def environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LAKEHAND_", "PYTHON", "VIRTUAL_"))}
    jars = {"LAKEHAND_JARS": os.environ["LAKEHAND_JARS"]} if "LAKEHAND_JARS" in os.environ else {}
    return {**kept, **jars, "LAKEHAND_HOME": str(folder / "home"), "TMPDIR": str(folder)}


def run(folder: Path, *words: object, timeout: float = TIMEOUT) -> str:
    command = [str(folder / "env" / "bin" / "lakehand"), *map(str, words)]
    ran = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=timeout, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_package_is_the_one_of_the_wheel(elsewhere: Path) -> None:
    program = [str(elsewhere / "env" / "bin" / "python"), "-c", "import lakehand; print(lakehand.__file__)"]

    printed = subprocess.check_output(program, cwd=elsewhere, env=environment(elsewhere), text=True)

    assert Path(printed).is_relative_to(elsewhere / "env")


def test_the_grpc_api_is_in_the_wheel_with_its_generated_code(elsewhere: Path) -> None:
    program = "from lakehand.rpc.methods import METHODS; from lakehand.rpc.generated import tables_pb2_grpc as made; "
    program += "print(len(METHODS), made.__file__)"

    printed = subprocess.check_output(
        [str(elsewhere / "env" / "bin" / "python"), "-c", program], cwd=elsewhere, env=environment(elsewhere), text=True
    )

    count, _, file = printed.strip().partition(" ")
    assert int(count) > 30
    assert Path(file).is_relative_to(elsewhere / "env")


def test_the_command_explains_itself(elsewhere: Path) -> None:
    assert "lakehand demo" in run(elsewhere, "--help")


def test_tables_of_every_format_are_checked(elsewhere: Path, tmp_path: Path) -> None:
    small_tables.hudi(tmp_path / "trips")
    small_tables.delta(tmp_path / "orders", commits=1)
    small_tables.lance(tmp_path / "images", commits=1)
    small_tables.SqlCatalog(tmp_path / "ice").create("returns")

    checked = [json.loads(line) for line in run(elsewhere, "check", tmp_path, "--json").splitlines()]

    assert {(one["format"], one["problem"]) for one in checked} == {
        (name, None) for name in ("hudi", "delta", "lance", "iceberg")
    }


@pytest.fixture
def served(elsewhere: Path, tmp_path: Path) -> Iterator[str]:
    command = [str(elsewhere / "env" / "bin" / "lakehand"), "serve", "--port", "0", "--warehouse", str(tmp_path)]
    with subprocess.Popen(command, cwd=elsewhere, env=environment(elsewhere), stdout=subprocess.DEVNULL) as process:
        address = elsewhere / "home" / "address.json"
        wait_for(lambda: address.exists() or process.poll() is not None, "the service to answer", TIMEOUT, pace=0.05)
        assert process.poll() is None, "the service ended"
        yield str(json.loads(address.read_text())["url"])
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


def test_the_service_is_ready_with_all_plugins(elsewhere: Path, served: str) -> None:
    with urlopen(f"{served}/health/ready", timeout=TIMEOUT) as answer:
        assert answer.status == 200
    plugins = json.loads(run(elsewhere, "plugins", "--json", "--url", served))["items"]
    assert [one["name"] for one in plugins if one["state"] != "on"] == ["spark-submit"], "off until it is named"
    assert sum(one["kind"] == "table-format" for one in plugins) == 5


@pytest.mark.spark
@pytest.mark.long
def test_the_demo_runs(elsewhere: Path) -> None:
    assert "every promise was kept" in run(elsewhere, "demo", "--formats", "delta", timeout=560)
