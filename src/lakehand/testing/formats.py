# SPDX-License-Identifier: Apache-2.0
"""What every table format must do. A test class inherits the contract and provides the fixture ``subject``.

Also for tests of plugins: installed formats, unreadable folders, and a check that nothing in a folder changed.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from lakehand.spi import Invalid, Json, TableFormat, TableReference, health

THREADS = 8
COUNTS = frozenset(
    {
        health.FILES, health.BYTES, health.SMALL_FILES, health.SMALL_BYTES, health.DELETE_FILES,
        health.DELETION_VECTORS, health.LOG_FILES, health.SNAPSHOTS, health.PENDING_PLANS, health.ROWS,
    }
)  # fmt: skip
MOMENTS = frozenset({health.OLDEST_SNAPSHOT, health.OLDEST_PENDING})
KNOWN = COUNTS | MOMENTS | {health.HISTOGRAM}

# What lies in the folders of tables; a format takes nobody else's folder for its own.
FOLDERS: Mapping[str, tuple[str, ...]] = {
    "hudi": (".hoodie",),
    "delta": ("_delta_log",),
    "iceberg": ("metadata", "data"),
    "paimon": ("snapshot", "schema", "manifest", "bucket-0"),
    "lance": ("_versions", "_transactions", "data"),
    "nothing": (),
    "files": ("part-00000.parquet",),
}


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Fails when a file of the folder is changed, added or removed meanwhile."""
    before = file_states(folder)
    yield
    after = file_states(folder)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    assert not changed, f"reading wrote to {folder}: {changed[:10]}"


def file_states(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last change of everything in a folder."""
    found = ((path, path.lstat()) for path in (folder, *folder.rglob("*")))
    return {str(path.relative_to(folder)): (stat.st_size, stat.st_mtime_ns) for path, stat in found}


def unreadable_folder(beside: Path) -> Path:
    """A folder that is there and cannot be read, not even by root: a link to itself."""
    loop = beside.with_name(f"{beside.name}-unreadable")
    if not loop.is_symlink():
        loop.symlink_to(loop)
    return loop


def installed_format(name: str, properties: Mapping[str, str] | None = None) -> TableFormat:
    """The format of that name, open, as the service would load it."""
    [entry] = entry_points(group="lakehand.table_formats", name=name)
    plugin = entry.load()()
    assert isinstance(plugin, TableFormat), f"{entry.value} is not a TableFormat"
    plugin.open(properties or {})
    return plugin


class FormatUnderTest(ABC):
    """A table of the format in a folder on this machine, and what its tests need to do to it."""

    reference: TableReference

    @abstractmethod
    def reader(self) -> TableFormat:
        """A new object of the format, open."""

    @abstractmethod
    def commit(self) -> None:
        """Whatever a writer may commit to the table. Called several times."""

    @property
    def folder(self) -> Path:
        return Path(self.reference.location)

    def unreadable(self) -> TableReference:
        """A table that is there and cannot be read."""
        return TableReference(location=str(unreadable_folder(self.folder)))


class TableFormatContract:
    def test_the_token_stays_while_nothing_changes(self, subject: FormatUnderTest) -> None:
        reader = subject.reader()
        tokens = [
            reader.probe(subject.reference),
            reader.probe(subject.reference),
            subject.reader().probe(subject.reference),
        ]

        assert tokens[0]
        assert tokens == [tokens[0]] * 3

    def test_the_token_changes_with_every_commit_for_old_and_new_readers(self, subject: FormatUnderTest) -> None:
        reader = subject.reader()
        tokens = [reader.probe(subject.reference)]
        for _ in range(3):
            subject.commit()
            tokens.append(reader.probe(subject.reference))
            assert subject.reader().probe(subject.reference) == tokens[-1]

        assert len(set(tokens)) == 4

    def test_an_inspection_has_the_token_of_the_table_that_it_read(self, subject: FormatUnderTest) -> None:
        reader = subject.reader()
        first = reader.inspect(subject.reference)
        assert first.token == reader.probe(subject.reference)

        subject.commit()
        assert reader.inspect(subject.reference).token == reader.probe(subject.reference) != first.token

    def test_health_is_reported_in_numbers_whose_names_are_known(self, subject: FormatUnderTest) -> None:
        numbers = subject.reader().inspect(subject.reference).numbers

        assert json.loads(json.dumps(dict(numbers), allow_nan=False)) == numbers, "numbers are not JSON"
        assert KNOWN.intersection(numbers), f"none of {sorted(KNOWN)} is reported"
        for name in KNOWN.intersection(numbers):
            assert is_sound(name, numbers[name]), f"{name} is {numbers[name]!r}"

    def test_an_unreadable_table_is_an_operating_system_error(self, subject: FormatUnderTest) -> None:
        unreadable = subject.unreadable()
        with pytest.raises(OSError):  # noqa: PT011 - whatever its number
            subject.reader().probe(unreadable)
        with pytest.raises(OSError):  # noqa: PT011
            subject.reader().inspect(unreadable)

    def test_a_folder_that_is_no_table_is_invalid(self, subject: FormatUnderTest, tmp_path: Path) -> None:
        (tmp_path / "not-a-table").mkdir()
        (tmp_path / "not-a-table" / "part-00000.parquet").write_bytes(b"PAR1")
        reference = TableReference(location=str(tmp_path / "not-a-table"))
        with pytest.raises(Invalid, match=r"\w"):
            subject.reader().inspect(reference)
        with pytest.raises((Invalid, OSError)):
            subject.reader().probe(reference)

    def test_a_missing_folder_is_no_table(self, subject: FormatUnderTest, tmp_path: Path) -> None:
        reference = TableReference(location=str(tmp_path / "never-made"))
        with pytest.raises((Invalid, FileNotFoundError)):
            subject.reader().inspect(reference)
        with pytest.raises((Invalid, OSError)):
            subject.reader().probe(reference)

    def test_its_own_folder_is_recognised(self, subject: FormatUnderTest) -> None:
        names = [path.name for path in subject.folder.iterdir()]

        assert subject.reader().recognise(str(subject.folder), names)

    @pytest.mark.parametrize("kind", sorted(FOLDERS))
    def test_the_folders_of_others_are_not_recognised(
        self, subject: FormatUnderTest, kind: str, tmp_path: Path
    ) -> None:
        reader = subject.reader()
        if kind == reader.format:
            return
        folder = tmp_path / f"of-{kind}"
        for name in FOLDERS[kind]:
            (folder / name).mkdir(parents=True)

        assert not reader.recognise(str(folder), FOLDERS[kind])

    def test_one_reader_serves_several_threads_at_once(self, subject: FormatUnderTest) -> None:
        reader, reference = subject.reader(), subject.reference
        with ThreadPoolExecutor(THREADS) as pool:
            probes = [pool.submit(reader.probe, reference) for _ in range(4 * THREADS)]
            inspections = [pool.submit(reader.inspect, reference) for _ in range(2 * THREADS)]
            tokens = {one.result() for one in probes} | {one.result().token for one in inspections}
            numbers = [dict(one.result().numbers) for one in inspections]

        assert len(tokens) == 1
        assert numbers == [numbers[0]] * len(numbers)

    def test_reading_writes_nothing(self, subject: FormatUnderTest) -> None:
        with untouched(subject.folder):
            reader = subject.reader()
            reader.probe(subject.reference)
            assert reader.inspect(subject.reference).numbers is not None
            reader.recognise(str(subject.folder), [path.name for path in subject.folder.iterdir()])


def is_sound(name: str, value: Json) -> bool:
    """Whether a number that all formats share is of the kind that its readers expect; None: nobody knows."""
    if value is None:
        return True
    if name in COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if name in MOMENTS:
        return isinstance(value, str) and value.startswith("2") and "T" in value
    sizes = list(value.items()) if isinstance(value, Mapping) else [("", math.nan)]
    return all(key in health.SIZE_CLASSES and isinstance(count, int) for key, count in sizes)
