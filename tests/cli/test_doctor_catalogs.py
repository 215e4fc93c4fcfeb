# SPDX-License-Identifier: Apache-2.0
"""lakehand doctor loads each catalog as the service and as Spark do, and each class that protects commits, and shows
why one cannot be used."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lakehand.app.settings import Settings, load
from lakehand.cli.checks import CheckResult, hint, named_classes, run_checks, told
from lakehand.domain.tables import Catalog, Format, TableSpec
from lakehand.formats.hudi.locks import PROVIDER, S3_CLIENT, STORAGE_PROVIDER
from lakehand.formats.hudi.table import HUDI
from lakehand.store.migrate import upgrade
from lakehand.store.sqlstore import open_store
from tests.kit.sentences import Sentences
from tests.small_tables import SqlCatalog

CATALOGS = """
[catalogs.refused]
type = "rest"
properties = {{ uri = "http://127.0.0.1:9/", token = "hush-1" }}

[catalogs.closed]
type = "rest"
properties = {{ uri = "{closed}", token = "hush-2" }}

[catalogs.driverless]
type = "jdbc"
properties = {{ uri = "jdbc:mysql://127.0.0.1:9/none", "jdbc.password" = "hush-3", warehouse = "/tmp/none" }}

[catalogs.classless]
type = "jdbc"
properties = {{ uri = "{sqlite}", warehouse = "/tmp/none", "engine.io-impl" = "org.example.NoSuchFiles" }}
"""
CLASSES = f"""
[spark]
"spark.delta.logStore.s3a.impl" = "io.delta.storage.S3DynamoDBLogStore"

[plugins.process-factories.hudi.properties]
"hoodie.write.lock.provider" = "{STORAGE_PROVIDER}"
"""


@contextmanager
def answering_401() -> Iterator[str]:
    """A fake: no real catalog that runs here asks for a token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Silence."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def settings_of(folder: Path, text: str) -> Settings:
    file = folder / "lakehand.toml"
    file.write_text(text)
    file.chmod(0o600)
    return load({"home": folder / "home"}, file)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CheckResult]:
    folder = tmp_path_factory.mktemp("doctor")
    lake = SqlCatalog(folder / "lake")
    lake.create("orders")
    with answering_401() as closed:
        sqlite = f"jdbc:sqlite:{folder / 'lake' / 'catalog.db'}"
        settings = settings_of(folder, lake.settings + CATALOGS.format(closed=closed, sqlite=sqlite) + CLASSES)
        results = {one.part: one for one in run_checks(settings, quick=False)}
    lake.close()
    return results


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.long
def test_the_doctor_says_why_a_catalog_cannot_be_used(found: dict[str, CheckResult]) -> None:
    assert found["catalog lake"].detail == "can be listed, 1 tables"
    assert_fine(found["catalog lake in Spark"], "1 namespaces, and read a file of sales.orders")
    for part in ("catalog refused", "catalog refused in Spark"):
        assert_problem(found[part], "refused", "start the catalog, or correct its uri")
    for part in ("catalog closed", "catalog closed in Spark"):
        assert_problem(found[part], "", "correct the credentials of the catalog")
    assert_problem(found["catalog driverless in Spark"], "No suitable driver", "JDBC driver in spark.jars")
    assert_problem(found["catalog classless in Spark"], "org.example.NoSuchFiles", "the jar that has this class")
    assert "hush" not in str(found)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_doctor_says_which_class_that_protects_commits_is_missing(found: dict[str, CheckResult]) -> None:
    missing, there = found["class io.delta.storage.S3DynamoDBLogStore"], found[f"class {STORAGE_PROVIDER}"]
    assert_problem(missing, "spark.delta.logStore.s3a.impl needs it, and Spark cannot load it", "spark.jars")
    assert_fine(there, f"Spark can load it (hoodie.write.lock.provider={STORAGE_PROVIDER})")


def test_the_doctor_looks_for_what_settings_and_tables_name_and_for_what_that_needs(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, CLASSES)
    log_store, dynamo = (
        "io.delta.storage.S3DynamoDBLogStore",
        "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
    )
    assert set(named_classes(settings)) == {log_store, STORAGE_PROVIDER}, "there is no database yet"

    settings.home.mkdir()
    upgrade(settings.database_url)
    store, now = open_store(settings.database_url), datetime.now(timezone.utc)
    for location, provider in (("s3a://lake/trips", STORAGE_PROVIDER), ("/data/trips", dynamo)):
        store.tables.add(TableSpec(location=location, format=HUDI, properties={PROVIDER: provider}), now=now)
    store.close()

    assert set(named_classes(settings)) == {log_store, STORAGE_PROVIDER, S3_CLIENT, dynamo}


def assert_fine(result: CheckResult, detail: str) -> None:
    assert result.is_fine, result
    assert detail in result.detail


def assert_problem(result: CheckResult, detail: str, fix: str) -> None:
    assert not result.is_fine
    assert detail in result.detail
    assert fix in result.fix


def test_causes_are_told_from_the_outermost_to_the_root_and_each_once() -> None:
    causes = [
        {"name": "a.b.Outer", "message": "cannot load"},
        {"name": "c.Wrapper", "message": "cannot load"},
        {"name": "java.lang.ClassNotFoundException", "message": "x.Y"},
    ]
    assert told(causes) == "Outer: cannot load ← ClassNotFoundException: x.Y"


@pytest.mark.parametrize(
    ("said", "case"),
    [
        ("SQLException: No suitable driver found", "fix of a missing driver"),
        ("S3Exception: Access Denied (Service: S3, Status Code: 403)", "fix of credentials of a store"),
        ("OperationalError: password authentication failed", "fix of credentials of a catalog"),
        ("RESTException: NoSuchWarehouse", "fix of a warehouse"),
        ("something else", "fix of something else"),
    ],
)
def test_a_problem_has_its_next_step(said: str, case: str, sentences: Sentences) -> None:
    sentences.check(case, hint(said, Catalog(name="lake", format=Format("iceberg"), type="rest")))
