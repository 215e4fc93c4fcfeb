# SPDX-License-Identifier: Apache-2.0
"""Reading Lance tables: the contract of all formats, and the numbers of a known table."""

import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pytest

from lakehand.formats.lance import LanceFormat
from lakehand.spi import TableFormat, TableReference
from lakehand.testing.factories import ProcessFactoryContract
from lakehand.testing.formats import FormatUnderTest, TableFormatContract
from lakehand.testing.harness import PluginHarness
from tests import lance_tables
from tests.formats.lance.runtime import harness


class LanceUnderTest(FormatUnderTest):
    def __init__(self, path: Path) -> None:
        self.reference = TableReference(location=str(path))
        self.next = 1000

    def reader(self) -> TableFormat:
        reader = LanceFormat()
        reader.open({})
        return reader

    def commit(self) -> None:
        self.next += 10
        lance_tables.append(self.folder, self.next)


class TestLanceFormat(TableFormatContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> FormatUnderTest:
        path = lance_tables.make_table(tmp_path / "it's a table #1", fragments=3)
        return LanceUnderTest(path)


class TestLanceProcessFactory(ProcessFactoryContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> PluginHarness:
        path = lance_tables.make_table(tmp_path / "events", fragments=12)
        lance_tables.make_older(path, timedelta(days=20), up_to=9)
        return harness(path)


def test_the_numbers_of_a_table_are_right(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance_tables.delete(path, "id < 25 and id % 5 = 0")
    lance.dataset(str(path)).tags.create("kept", 3)
    lance.dataset(str(path)).create_branch("side", 4)
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")
    sizes = [file.stat().st_size for file in (path / "data").glob("*.lance")]

    numbers = LanceFormat().inspect(TableReference(location=str(path))).numbers

    assert (numbers["files"], numbers["bytes"], numbers["fragments"]) == (12, sum(sizes), 12)
    assert (numbers["rows"], numbers["deleted_rows"], numbers["deletion_vectors"]) == (115, 5, 3)
    assert (numbers["snapshots"], numbers["version"], numbers["held_versions"]) == (14, 14, 2)
    assert (numbers["indices"], numbers["small_files"], numbers["small_bytes"]) == (1, 12, sum(sizes))
    assert numbers["histogram"] == {"< 1 MB": 12, "1-8 MB": 0, "8-32 MB": 0, "32-128 MB": 0, "128-512 MB": 0,
                                    ">= 512 MB": 0}  # fmt: skip


def test_the_age_of_the_oldest_version_is_shown(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=3)
    lance_tables.make_older(path, timedelta(days=400), up_to=1)

    oldest = LanceFormat().inspect(TableReference(location=str(path))).numbers["oldest_snapshot"]

    age = datetime.now(timezone.utc) - datetime.fromisoformat(str(oldest))
    assert timedelta(days=400) <= age < timedelta(days=401)


def test_sizes_that_an_old_writer_did_not_write_down_are_looked_up(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=2)
    snapshot = LanceFormat().inspect(TableReference(location=str(path)))
    file = next((path / "data").glob("*.lance"))

    assert snapshot._size_of(file.name) == file.stat().st_size
    assert snapshot._size_of("gone.lance") == 0


def test_a_table_whose_manifest_is_damaged_is_an_operating_system_error(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1)
    next((path / "_versions").glob("*.manifest")).write_bytes(b"not a manifest")

    with pytest.raises(OSError, match=r"\w"):
        LanceFormat().inspect(TableReference(location=str(path)))


def test_a_probe_does_without_the_library(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1)
    program = (
        "import sys; from lakehand.formats.lance import LanceFormat, LanceProcessFactory; "
        "from lakehand.domain.tables import TableReference; "
        f"print(LanceFormat().probe(TableReference(location={str(path)!r}))); "
        "sys.exit(any(name in sys.modules for name in ('lance', 'pyarrow', 'numpy')))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.startswith("1:")) == (0, True), done.stderr
