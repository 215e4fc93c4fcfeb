# SPDX-License-Identifier: Apache-2.0
"""Installs small distributions for a test: a module and its entry points in a folder on Python's path."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class Installer:
    folder: Path
    modules: set[str] = field(default_factory=set)

    def install(self, name: str, points: Mapping[str, Mapping[str, str]], source: str, version: str = "1.5") -> None:
        """``points``: kind → entry point → class of the module."""
        module = name.replace("-", "_")
        self.modules.add(module)
        (self.folder / f"{module}.py").write_text(source, encoding="utf-8")
        info = self.folder / f"{module}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        lines = [
            line
            for kind, entries in points.items()
            for line in (f"[lakehand.{kind}]", *(f"{entry} = {module}:{cls}" for entry, cls in entries.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installer]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    made = Installer(folder=folder)
    yield made
    for module in made.modules:
        sys.modules.pop(module, None)
