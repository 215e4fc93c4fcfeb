# SPDX-License-Identifier: Apache-2.0
"""The distributions of examples/, installed beside Lakehand by pip: no change to Lakehand, and no network."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.e2e.conftest import lake, start_service

__all__ = ["lake", "start_service"]

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, kw_only=True)
class SiteFolder:
    """A folder of installed distributions, as a virtual environment has one."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Of programs that see what is installed here."""
        seen = [str(self.folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, seen))}

    def install(self, *projects: Path) -> None:
        offline = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(self.folder)]
        subprocess.run([*command, *map(str, projects)], check=True, capture_output=True)

    def write_plugin(self, name: str, source: str, entries: Mapping[str, str]) -> None:
        """A distribution as it is after its installation: a module, and what pip writes beside it."""
        module = name.replace("-", "_")
        (self.folder / f"{module}.py").write_text(source)
        metadata = self.folder / f"{module}-6.6.6.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 6.6.6\n")
        lines = [f"[{group}]\n{name} = {module}:{value}\n" for group, value in entries.items()]
        (metadata / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> SiteFolder:
    site = SiteFolder(folder=tmp_path_factory.mktemp("site"))
    site.install(*sorted(path.parent for path in EXAMPLES.glob("*/pyproject.toml")))
    return site


@pytest.fixture
def orders(lake: Path) -> Path:
    """A Delta table of three files, without a manifest."""
    return make_orders(lake / "orders")


def make_orders(folder: Path) -> Path:
    for number in range(3):
        write_deltalake(str(folder), pa.table({"id": [number]}), mode="append")
    return folder


SUBPROCESS = """
[plugins.process-factories.delta-manifest.properties]
"delta-manifest.engine" = "subprocess"

[plugins.engines.spark]
enabled = false
"""


@pytest.fixture
def configure(tmp_path: Path) -> Callable[[str], None]:
    """Writes the lakehand.toml of the service that ``start_service`` starts."""

    def write(text: str) -> None:
        (tmp_path / "home").mkdir(exist_ok=True, mode=0o700)
        (tmp_path / "home" / "lakehand.toml").write_text(text)

    return write
