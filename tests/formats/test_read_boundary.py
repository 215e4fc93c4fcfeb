# SPDX-License-Identifier: Apache-2.0
"""Whatever a table's metadata names, no format opens a file outside of the warehouses, and the error names it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.hudi.archive import is_archived
from lakehand.formats.iceberg.rest_client import ARROW, BoundedFileIO, ignore_table_properties
from lakehand.spi import TableReference
from lakehand.storage import WITHIN, ArrowStorage, OutsideWarehouses, Storages
from tests.formats.delta.logs import protocol
from tests.formats.test_hostile_files import FORMATS


def read_all(name: str, path: Path, lake: Path) -> Any:
    form, reference = FORMATS[name][0](), TableReference(location=str(path))
    form.open({WITHIN: str(lake)})
    form.probe(reference)
    snapshot = form.inspect(reference)
    if name == "hudi":
        is_archived(snapshot, "20200101000000000")  # type: ignore[arg-type]
    return dict(snapshot.numbers)


def other_manifest_list(table: Path, secret: Path) -> None:
    file = table / "metadata" / "v1.metadata.json"
    document = json.loads(file.read_text())
    for snapshot in document["snapshots"]:
        snapshot["manifest-list"] = f"file://{secret}"
    file.write_text(json.dumps(document))


def other_sidecar(table: Path, secret: Path) -> None:
    log = table / "_delta_log"
    name = f"{3:020d}.checkpoint.{'0' * 8}-0000-0000-0000-{'0' * 12}.json"
    actions = [{"checkpointMetadata": {"version": 3}}, protocol(), {"sidecar": {"path": str(secret), "sizeInBytes": 9}}]
    (log / name).write_text("\n".join(map(json.dumps, actions)))
    for parquet in log.glob("*.checkpoint.parquet"):
        parquet.unlink()


def property_of_hudi(key: str, value: str, table: Path, secret: Path) -> None:
    file = table / ".hoodie" / "hoodie.properties"
    up = os.path.relpath(secret.parent, table / ".hoodie")
    file.write_text(f"{file.read_text()}\n{key}={value.format(outside=up)}\n")


def folder_elsewhere(name: str, table: Path, secret: Path) -> None:
    (table / name).rename(secret.parent / "moved")
    (table / name).symlink_to(secret.parent / "moved")


def partial(function: Callable[..., None], *given: Any) -> Callable[[Path, Path], None]:
    return lambda table, secret: function(*given, table, secret)


ATTACKS: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "a manifest list": ("iceberg", other_manifest_list),
    "a folder of metadata": ("iceberg", partial(folder_elsewhere, "metadata")),
    "a sidecar": ("delta", other_sidecar),
    "a folder of the log": ("delta", partial(folder_elsewhere, "_delta_log")),
    "a timeline": ("hudi", partial(property_of_hudi, "hoodie.timeline.path", "{outside}")),
    "a history": ("hudi", partial(property_of_hudi, "hoodie.timeline.history.path", "../{outside}")),
    "a folder of the timeline": ("hudi", partial(folder_elsewhere, ".hoodie")),
    "a folder of manifests": ("paimon", partial(folder_elsewhere, "manifest")),
    "a folder of snapshots": ("paimon", partial(folder_elsewhere, "snapshot")),
    "a folder of versions": ("lance", partial(folder_elsewhere, "_versions")),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_outside_of_the_warehouses_is_opened(
    tmp_path: Path, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, act = ATTACKS[attack]
    lake, secret = tmp_path / "lake", tmp_path / "outside" / "secret"
    lake.mkdir()
    table = FORMATS[name][1](lake / "t")
    secret.parent.mkdir()
    secret.write_text("nobody's business")
    assert read_all(name, table, lake)
    act(table, secret)
    opened: list[str] = []

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def note(path: Any, *more: Any, **named: Any) -> Any:
            opened.append(str(path))
            return call(path, *more, **named)

        return note

    for name_of_call in ("open", "listdir", "scandir"):
        monkeypatch.setattr(os, name_of_call, noted(getattr(os, name_of_call)))
    with pytest.raises(OutsideWarehouses) as refused:
        read_all(name, table, lake)
    assert str(tmp_path / "outside") in str(refused.value) or ".." in str(refused.value)
    assert [path for path in opened if os.path.realpath(path).startswith(str(tmp_path / "outside"))] == []


def test_a_base_of_lance_outside_of_the_warehouses_is_not_read(tmp_path: Path) -> None:
    import lance

    origin = FORMATS["lance"][1](tmp_path / "outside" / "t")
    dataset = lance.dataset(str(origin))
    (tmp_path / "lake").mkdir()
    dataset.shallow_clone(str(tmp_path / "lake" / "t"), dataset.version)
    with pytest.raises(OutsideWarehouses, match=str(origin)):
        read_all("lance", tmp_path / "lake" / "t", tmp_path / "lake")


@pytest.mark.parametrize(
    "path",
    ["other/key", "lake/sales/../hr/t", "lake/salesman/t", "lake", "lake/sales/./t"],
)
def test_a_store_is_read_below_its_warehouses_only(path: str) -> None:
    from pyarrow import fs

    storages = Storages({WITHIN: "/w\ns3a://lake/sales"})
    vars(storages)["_connect"] = lambda scheme, authority: (ArrowStorage(fs.LocalFileSystem()), authority)
    storage, root = storages.of("s3://lake/sales/orders")
    assert root == "lake/sales/orders"
    for call in (storage.read, storage.open, storage.names, storage.entries, storage.below, storage.sign):
        with pytest.raises(OutsideWarehouses):
            call(path)
    for location in ("s3://other/sales/orders", "hdfs://lake/sales/orders", "s3://lake/hr", "s3://lake/sales/../hr"):
        with pytest.raises(OutsideWarehouses):
            storages.of(location)


def test_a_metastore_names_no_metadata_outside_of_the_warehouses_and_a_table_chooses_no_class(tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    (tmp_path / "lake").mkdir()
    properties = {**ARROW, WITHIN: str(tmp_path / "lake"), "uri": "sqlite:///:memory:", "warehouse": str(tmp_path)}
    catalog = ignore_table_properties(SqlCatalog("lake", **properties))
    files = catalog._load_file_io({"py-io-impl": "os.PathLike", WITHIN: "/"}, "/etc/passwd")
    assert isinstance(files, BoundedFileIO)
    with pytest.raises(OutsideWarehouses):
        files.new_input("file:///etc/passwd")
    files.new_input(str(tmp_path / "lake" / "x.json"))
    catalog.engine.dispose()  # type: ignore[attr-defined]
