# SPDX-License-Identifier: Apache-2.0
"""lakehand check: without a service, on real tables."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehand.spi.health import SIZE_CLASSES
from tests import small_tables
from tests.cli.conftest import Run
from tests.kit.sentences import SECONDS, Sentences

HEAVY = ("pyspark", "pyiceberg", "lance", "deltalake", "pyarrow", "sqlalchemy", "fastapi", "httpx")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEHAND_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def documents(text: str) -> dict[str, Any]:
    found = [json.loads(line) for line in text.splitlines()]
    return {Path(one["location"]).name: one for one in found}


def test_a_table_is_shown_in_numbers_with_what_would_be_done_and_why(type_in: Run, lake: Path) -> None:
    table = small_tables.delta(lake / "orders", commits=30)

    result = type_in("check", table, "--json")

    assert result.exit_code == 0, result.output
    reported = json.loads(result.stdout)
    assert (reported["format"], reported["state"], reported["name"]) == ("delta", "needs", "orders")
    numbers = reported["numbers"]
    assert (numbers["files"], numbers["small_files"], numbers["snapshots"]) == (30, 30, 30)
    assert numbers["histogram"] == dict(zip(SIZE_CLASSES, (30, 0, 0, 0, 0, 0), strict=True))
    needed = {one["action"]: one["reason"] for one in reported["actions"] if one["needed"]}
    assert list(needed) == ["optimize"]
    assert needed["optimize"].startswith("30 ")


def test_people_see_a_card(type_in: Run, lake: Path) -> None:
    shown = type_in("check", small_tables.hudi(lake / "trips")).stdout

    assert "trips (hudi, needs)" in shown
    assert "pending plans  1" in shown
    assert "20261115214001845" in shown


def test_savepoints_are_listed(type_in: Run, lake: Path) -> None:
    table = small_tables.hudi(lake / "trips")
    saved = ("20261115213942975", "20261115214001845")
    for instant in saved:
        (table / ".hoodie" / "timeline" / f"{instant}_{int(instant) + 9000}.savepoint").touch()

    shown = " ".join(type_in("check", table).stdout.split())

    assert "savepoints 2" in shown
    assert ", ".join(saved) in shown


def test_a_folder_is_printed_line_by_line_with_a_summary(type_in: Run, lake: Path, sentences: Sentences) -> None:
    small_tables.hudi(lake / "a" / "trips")
    small_tables.delta(lake / "b" / "orders", commits=1)
    small_tables.broken(lake / "c")

    result = type_in("check", lake)

    assert result.exit_code == 0, result.output
    lines = {line.split()[2]: line for line in result.stdout.splitlines()[:3]}
    assert lines[f"{lake}/a/trips"].startswith("needs    hudi")
    assert lines[f"{lake}/b/orders"].startswith("healthy  delta")
    assert lines[f"{lake}/c"].startswith("broken   delta")
    found = {"tables": 3, "formats": "2 delta, 1 hudi", "need": 1, "actions": "1 compaction", "broken": 1}
    sentences.check("summary of a check", result.stdout.splitlines()[-1], **found, seconds=SECONDS)


def test_each_table_of_a_folder_is_a_document_on_a_line(type_in: Run, lake: Path) -> None:
    for number in range(40):
        small_tables.hudi(lake / f"t{number}")
    small_tables.broken(lake / "broken")

    reported = documents(type_in("check", lake, "--json").stdout)

    assert len(reported) == 41
    assert {one["state"] for one in reported.values()} == {"needs", "broken"}
    assert reported["broken"]["actions"] == []


def test_progress_is_printed_without_a_terminal(
    type_in: Run, lake: Path, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    monkeypatch.setattr("lakehand.cli.check.PROGRESS_INTERVAL", 0.0)
    for number in range(5):
        small_tables.hudi(lake / f"t{number}")

    result = type_in("check", lake, "--json")

    reported = result.stderr.splitlines()
    first, *_, last = reported
    sentences.check("progress of a check", first, tables=1, folders=re.compile(r"\b[1-6]\b(?= folders)"), unhealthy=1)
    sentences.check("progress of a check", last, tables=5, folders=6, unhealthy=5)


def test_a_pipeline_can_fail_on_need(type_in: Run, lake: Path) -> None:
    healthy = small_tables.delta(lake / "orders", commits=1)
    needy = small_tables.hudi(lake / "trips")

    codes = [type_in("check", *words).exit_code for words in ([needy], [healthy, "--fail-on-need"])]

    assert codes == [0, 0]
    assert type_in("check", needy, "--fail-on-need").exit_code == 1
    assert type_in("check", small_tables.broken(lake / "b"), "--fail-on-need").exit_code == 1


@pytest.mark.parametrize(
    ("path", "case"),
    [("{lake}/nowhere", "no such folder"), ("{lake}/empty", "no table in a folder"), ("x:y", "no such catalog")],
)
def test_a_path_that_leads_to_no_table_is_one_line(
    type_in: Run, lake: Path, path: str, case: str, sentences: Sentences
) -> None:
    (lake / "empty").mkdir()
    given = path.format(lake=lake)

    result = type_in("check", given)

    assert result.exit_code == 1
    sentences.check(case, result.stderr.strip(), named=given.partition(":")[0])
    assert result.stderr.count("\n") == 1


def test_a_wrong_path_hides_no_right_one(type_in: Run, lake: Path) -> None:
    result = type_in("check", lake / "nowhere", small_tables.hudi(lake / "trips"), "--json")

    assert result.exit_code == 1
    assert list(documents(result.stdout)) == ["trips"]


def test_properties_are_tried_by_set_and_taken_from_the_settings(type_in: Run, lake: Path) -> None:
    table = small_tables.delta(lake / "orders", commits=30)
    config = lake.parent / "lakehand.toml"
    config.write_text('[plugins.process-factories.delta]\nproperties = { "delta.optimize.enabled" = "false" }\n')

    by_table = json.loads(type_in("check", table, "--set", "delta.optimize.enabled=true", "--json").stdout)
    by_plugin = json.loads(type_in("check", table, "--json").stdout)

    assert (by_table["state"], by_plugin["state"]) == ("needs", "healthy")


def test_hudi_is_decided_with_both_kinds_of_scheduling(type_in: Run, lake: Path, sentences: Sentences) -> None:
    table = small_tables.hudi(lake / "trips")
    lock = "hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    words = ["check", table, "--set", "hudi.clustering.commits=1", "--set", lock, "--json"]

    def clustering(*more: str) -> dict[str, Any]:
        reported = json.loads(type_in(*words, *more).stdout)
        return next(one for one in reported["actions"] if one["action"] == "clustering")

    assert (clustering()["needed"], clustering()["scheduling"]) == (True, "service")
    assert clustering("--scheduling", "writer")["needed"] is False
    refused = type_in(*words, "--scheduling", "sometimes").stderr.strip()
    sentences.check("no such scheduling", refused, value="sometimes")


def test_tables_of_a_catalog_are_named_by_it(type_in: Run, lake: Path) -> None:
    catalog = small_tables.SqlCatalog(lake)
    for name in ("orders", "returns"):
        catalog.create(name, commits=6)
    config = lake / "lakehand.toml"
    config.write_text(catalog.settings)

    one = json.loads(type_in("check", "lake:sales.orders", "--config", config, "--json").stdout)
    every = documents(type_in("check", "lake:", "--config", config, "--json").stdout)

    assert (one["name"], one["numbers"]["files"], one["state"]) == ("lake:sales.orders", 6, "needs")
    assert sorted(every) == ["orders", "returns"]
    assert type_in("check", "lake:sales.nothing", "--config", config).exit_code == 1


def test_a_broken_plugin_is_reported_and_stops_nothing(type_in: Run, lake: Path, sentences: Sentences) -> None:
    config = lake / "lakehand.toml"
    config.write_text('[plugins.process-factories.hudi]\nproperties = { "hudi.table-versions" = "nonsense" }\n')

    result = type_in("check", small_tables.delta(lake / "orders", commits=1), "--config", config)

    assert result.exit_code == 0, result.output
    sentences.check("a broken plugin", result.stderr.strip(), plugin="hudi")
    assert "Traceback" not in result.output


def test_nothing_heavy_is_imported_for_a_hudi_table(lake: Path) -> None:
    table = small_tables.hudi(lake / "trips")
    program = f"""
import sys
from lakehand.cli import app
try:
    app(["check", {str(table)!r}])
except SystemExit:
    print([name for name in {HEAVY!r} if name in sys.modules])
"""
    reported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=lake)

    assert reported.stdout.splitlines()[-1] == "[]"


def test_warnings_of_a_library_do_not_break_into_the_listing(lake: Path) -> None:
    small_tables.lance(lake / "images", commits=1)
    small_tables.lance(lake / "videos", commits=1)
    program = f"""
import warnings
import lance
from lakehand.cli import app
read = lance.dataset
def warn_and_read(*arguments, **options):
    warnings.warn("noise of a library")
    return read(*arguments, **options)
lance.dataset = warn_and_read
app(["check", {str(lake)!r}])
"""
    reported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=lake)

    assert "2 tables (2 lance)" in reported.stdout
    assert "noise" not in reported.stdout + reported.stderr
