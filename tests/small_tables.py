# SPDX-License-Identifier: Apache-2.0
"""Small tables of several formats, written in moments by the formats' own libraries: no Spark."""

import shutil
from pathlib import Path
from typing import Any

from tests.formats.hudi.runtime import TABLES

ROWS = 10


def rows() -> Any:
    import pyarrow as pa

    return pa.table({"id": list(range(ROWS)), "v": ["x"] * ROWS})


def delta(path: Path, commits: int = 12) -> Path:
    import deltalake

    for _ in range(commits):
        deltalake.write_deltalake(str(path), rows(), mode="append")
    return path


def lance(path: Path, commits: int = 12) -> Path:
    import lance as library

    for number in range(commits):
        library.write_dataset(rows(), str(path), mode="append" if number else "create")
    return path


def hudi(path: Path, name: str = "orders_v9") -> Path:
    """A captured table: its timeline, without data; a compaction plan is pending."""
    return Path(shutil.copytree(TABLES / name, path))


def broken(path: Path) -> Path:
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log" / f"{0:020d}.json").write_text("nonsense")
    return path


class SqlCatalog:
    """An Iceberg catalog in a SQLite file, as its own library writes it."""

    def __init__(self, folder: Path, name: str = "lake") -> None:
        from pyiceberg.catalog.sql import SqlCatalog as Library

        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.warehouse = folder / "warehouse"
        self.uri = f"sqlite:///{folder / 'catalog.db'}"
        self.library = Library(name, uri=self.uri, warehouse=f"file://{self.warehouse}")
        self.library.create_namespace_if_not_exists("sales")

    def create(self, name: str, commits: int = 1) -> Path:
        table = self.library.create_table(f"sales.{name}", schema=rows().schema)
        for _ in range(commits):
            table.append(rows())
        return Path(table.location().removeprefix("file://"))

    def drop(self, name: str) -> None:
        self.library.drop_table(f"sales.{name}")

    def rename(self, old: str, new: str) -> None:
        self.library.rename_table(f"sales.{old}", f"sales.{new}")

    def close(self) -> None:
        self.library.engine.dispose()

    @property
    def properties(self) -> dict[str, str]:
        return {"uri": self.uri.replace("sqlite:///", "jdbc:sqlite:"), "warehouse": str(self.warehouse)}

    @property
    def settings(self) -> str:
        """As lakehand.toml has it."""
        pairs = ", ".join(f'{key} = "{value}"' for key, value in self.properties.items())
        return f'[catalogs.{self.name}]\nformat = "iceberg"\ntype = "jdbc"\nproperties = {{ {pairs} }}\n'
