# SPDX-License-Identifier: Apache-2.0
"""Services of this version and of the previous one, with a light engine; always ended."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from tests.examples.conftest import EXAMPLES, SiteFolder
from tests.kit.service import RunningService

NEW = str(Path(__file__).parents[2] / "src")
CONFIG = """
[plugins.table-formats]
hudi = { enabled = false }
iceberg = { enabled = false }
paimon = { enabled = false }
lance = { enabled = false }

[plugins.process-factories]
hudi = { enabled = false }
delta-manifest = { properties = { "delta-manifest.engine" = "subprocess" } }

[plugins.engines]
spark = { enabled = false }
subprocess = { properties = { slots = "2" } }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SiteFolder:
    """The examples and the stand-in, installed for both versions."""
    site = SiteFolder(folder=tmp_path_factory.mktemp("site"))
    site.install(*sorted(path.parent for path in EXAMPLES.glob("*/pyproject.toml")))
    source = (Path(__file__).parent / "plan_folders.py").read_text(encoding="utf-8")
    points = {"lakehand.table_formats": "PlanFolders", "lakehand.process_factories": "PlanFactory"}
    site.write_plugin("plan-folders", source, points)
    return site


@dataclass
class Fleet:
    """Instances with homes of their own, and the writers' way to them."""

    folder: Path
    site: SiteFolder
    database: str
    instances: list[RunningService] = field(default_factory=list)
    turns: Iterator[int] = field(default_factory=count)

    def add(self, name: str, source: str = NEW, *, seconds: float = 0.5, **settings: str) -> RunningService:
        """``seconds``: how long each of its jobs takes."""
        home = self.folder / name
        home.mkdir(mode=0o700)
        (home / "lakehand.toml").write_text(CONFIG)
        instance = RunningService(home, self.folder / "lake", database=self.database, **settings)
        instance.settings["PLAN_SECONDS"] = str(seconds)
        self.instances.append(instance)
        self.start(instance, source)
        return instance

    def start(self, instance: RunningService, source: str) -> None:
        instance.settings["PYTHONPATH"] = os.pathsep.join([source, str(self.site.folder)])
        instance.start()

    def addresses(self) -> Sequence[str]:
        """Those that run, each time beginning with another one."""
        urls = [one.url for one in self.instances if one.process and one.process.poll() is None]
        first = next(self.turns) % max(len(urls), 1)
        return urls[first:] + urls[:first]


@pytest.fixture
def fleet(tmp_path: Path, site: SiteFolder, postgresql_url: str) -> Iterator[Fleet]:
    (tmp_path / "lake").mkdir()
    fleet = Fleet(tmp_path, site, postgresql_url)
    yield fleet
    for instance in fleet.instances:
        instance.end()
