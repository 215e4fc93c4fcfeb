# SPDX-License-Identifier: Apache-2.0
"""Catalogs on real servers: from their settings alone to rewritten tables, and one of them killed in the middle."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from tests import delta_tables, hudi_tables
from tests.conftest import server_of
from tests.e2e.catalog_servers import (
    HIVE,
    PASSWORD,
    Writer,
    append,
    files,
    jdbc_settings,
    nessie_settings,
    settings_in,
)
from tests.hive_metastore import Metastore, hive_metastore, note_table
from tests.iceberg_tables import Warehouse
from tests.kit.polling import wait_for
from tests.kit.service import RunningService
from tests.nessie_server import BUCKET, VENDED, Nessie, nessie
from tests.renewing_catalog import NEW_KEY, RenewingCatalog, renewing
from tests.s3_server import Server, s3_server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.timeout(900),
]
WAIT = 400
AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT", "AWS_ENDPOINT_URL")


class CatalogService(RunningService):
    """Without a warehouse on the command line: the settings are all in its lakehand.toml."""

    names_warehouse = False


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("MOTO_RECORDER_FILEPATH", str(tmp_path / "requests"))
    with s3_server() as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture
def central(s3: Server, tmp_path: Path) -> Iterator[Nessie]:
    """A catalog that hands out the endpoint of its store, and credentials for an hour."""
    yield from server_of(lambda: nessie(s3, tmp_path, VENDED))


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[Metastore]:
    with hive_metastore(tmp_path) as server:
        yield server


@pytest.fixture
def jdbc(postgresql_url: str, mariadb_url: str) -> dict[str, str]:
    return {"pg": postgresql_url, "maria": mariadb_url}


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but the catalog knows how to reach the store."""
    for name in AWS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def table_of(service: RunningService, catalog: str) -> int | None:
    found = service.get("/api/v1/tables", catalog=catalog)["items"]
    return int(found[0]["id"]) if found else None


def rewrites(service: RunningService, table: int) -> list[dict[str, Any]]:
    found = service.operations(table=table, action="rewrite-data")
    assert [one["reason"] for one in found if one["status"] == "failed" or "next attempt" in one["reason"]] == []
    return [one for one in found if one["status"] == "succeeded"]


def wait_for_rewrites(service: RunningService, catalog: str, count: int) -> list[dict[str, Any]]:
    table = wait_for(lambda: table_of(service, catalog), f"a table of {catalog} to be found", WAIT)
    return wait_for(
        lambda: found if len(found := rewrites(service, table)) >= count else None, f"a rewrite in {catalog}", WAIT
    )


def credentials_used(s3: Server) -> dict[str, set[str]]:
    """How the keys begin in requests for files, by client; those of a session begin with ASIA. Without Nessie's own."""
    recorded = httpx.get(f"{s3.endpoint}/moto-api/recorder/download-recording", timeout=60).text
    found: dict[str, set[str]] = {}
    for line in recorded.splitlines():
        headers = json.loads(line)["headers"]
        client = headers["User-Agent"].partition("/")[0]
        if client != "aws-sdk-java":
            key = headers.get("Authorization", "").partition("Credential=")[2]
            found.setdefault(client, set()).add(key[:4])
    return found


def record(s3: Server) -> None:
    httpx.post(f"{s3.endpoint}/moto-api/recorder/start-recording", timeout=60).raise_for_status()


@pytest.fixture
def renewal(central: Nessie) -> Iterator[RenewingCatalog]:
    with renewing(central.uri) as one:
        yield one


def test_tables_of_three_catalogs_are_rewritten_and_go_on_when_one_catalog_is_killed(
    spark: SparkSession, s3: Server, central: Nessie, renewal: RenewingCatalog, *, jdbc: dict[str, str], tmp_path: Path
) -> None:
    """The service asks Nessie through a stand-in whose credentials run out soon; a job gets new ones from it."""
    others = "".join(jdbc_settings(name, url, tmp_path) for name, url in jdbc.items())
    service = CatalogService(tmp_path / "home", tmp_path)
    writer = Writer(spark, settings_in(tmp_path / "writer", nessie_settings(central.uri) + others))
    settings_in(service.home, nessie_settings(renewal.uri) + others)
    tables = {name: writer.make_table(name) for name in ("central", *jdbc)}
    before = {name: one.checksum(Path("orders")) for name, one in tables.items()}
    record(s3)
    try:
        service.start()
        for name, one in tables.items():
            [done] = wait_for_rewrites(service, name, 1)
            assert (done["attempts"], files(one), one.checksum(Path("orders"))) == (1, 1, before[name])
        used = credentials_used(s3)
        assert used["aws-sdk-cpp"] == {"ASIA"}, "the reader's"
        assert used["s3fileio"] == {"ASIA", NEW_KEY[:4]}, "Spark's, with new ones in the middle"
        assert renewal.renewals > 0
        check_that_the_others_go_on(service, central, tables)
        assert_secrets_stay(service)
    finally:
        service.end()


HIVE_ACTIONS = {"iceberg": "rewrite-data", "delta": "optimize", "hudi": "compaction"}


def test_tables_of_three_formats_in_one_hive_metastore_are_found_and_served(
    spark: SparkSession, metastore: Metastore, tmp_path: Path
) -> None:
    catalogs = {
        f"hive_{name}": HIVE.format(
            name=f"hive_{name}", format=name, uri=metastore.uri, warehouse=tmp_path / "hive", action=action
        )
        for name, action in HIVE_ACTIONS.items()
    }
    service = CatalogService(tmp_path / "home", tmp_path)
    iceberg = Writer(spark, settings_in(service.home, "".join(catalogs.values()))).make_table("hive_iceberg")
    before = iceberg.checksum(Path("orders"))
    delta_tables.make_table(spark, tmp_path / "hive" / "delta", commits=2, files=12)
    hudi_tables.make_table(spark, tmp_path / "hive" / "hudi", commits=3, options=hudi_tables.scheduling_compaction(2))
    for name in ("delta", "hudi"):
        note_table(metastore, name, tmp_path / "hive" / name)
    try:
        service.start()
        for name, action in HIVE_ACTIONS.items():
            table = wait_for(lambda: table_of(service, f"hive_{name}"), f"the {name} table to be found", WAIT)  # noqa: B023
            wait_for(lambda: succeeded(service, table, action), f"{action} of {name}", WAIT)  # noqa: B023
        assert (files(iceberg), iceberg.checksum(Path("orders"))) == (1, before)
        found = {one["name"]: one["last_sync"]["tables"] for one in service.get("/api/v1/catalogs")["items"]}
        assert found == dict.fromkeys(catalogs, 1), "each finds the tables of its own format"
    finally:
        service.end()


def succeeded(service: RunningService, table: int, action: str) -> bool:
    found = service.operations(table=table, action=action)
    assert [one["reason"] for one in found if one["status"] == "failed" or "next attempt" in one["reason"]] == []
    return any(one["status"] == "succeeded" for one in found)


def check_that_the_others_go_on(service: RunningService, central: Nessie, tables: dict[str, Warehouse]) -> None:
    central.kill()
    append(tables["pg"], 1000)
    problem = service.post("/api/v1/catalogs/central/sync")["problem"]
    assert "the catalog central does not answer" in problem
    table = table_of(service, "central")
    for one in (table, table_of(service, "pg")):
        service.post(f"/api/v1/tables/{one}/evaluate")
    assert len(wait_for_rewrites(service, "pg", 2)) == 2
    assert files(tables["pg"]) == 1
    wait_for(lambda: "central" in str(explained(service, table)["actions"]), "the reason to be known")
    assert "does not answer" in str(explained(service, table)) or "did not answer" in str(explained(service, table))


def explained(service: RunningService, table: int | None) -> dict[str, Any]:
    found: dict[str, Any] = service.get(f"/api/v1/tables/{table}/explain")
    return found


def assert_secrets_stay(service: RunningService) -> None:
    kept = (one for one in service.home.rglob("*") if one.is_file() and not one.is_symlink() and one.suffix != ".jar")
    holders = {one.name for one in kept if PASSWORD.encode() in one.read_bytes()}
    assert holders == {"lakehand.toml", "spark.properties"}
