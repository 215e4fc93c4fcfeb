# SPDX-License-Identifier: Apache-2.0
"""lakehand maintain: a whole service for one table and one moment, on a driver of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import small_tables
from tests.cli.conftest import Run
from tests.kit.sentences import Sentences

LONG_AGO = time.time() - 30 * 86400
TIMEOUT = 120.0
# A shell that starts tests in the background ignores Ctrl-C, and so would every process below it.
HEED_CTRL_C = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, sys.argv[1:])"
)
WITH_CTRL_C = (sys.executable, "-c", HEED_CTRL_C, sys.executable)
MANY = 30  # small files that are worth a rewrite


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary homes are made here, where a test can see whether they are gone."""
    homes = tmp_path / "homes"
    homes.mkdir()
    monkeypatch.setenv("TMPDIR", str(homes))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("LAKEHAND_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return homes


def rows_of(table: Path) -> list[dict[str, Any]]:
    import deltalake

    found: list[dict[str, Any]] = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def drivers() -> list[int]:
    """Spark drivers whose homes are of this test."""
    mark = os.environ["TMPDIR"]
    return [p.pid for p in psutil.process_iter(["cmdline"]) if any(mark in word for word in p.info["cmdline"] or ())]


@pytest.mark.spark
def test_a_table_is_maintained_once_and_then_needs_nothing(type_in: Run, tmp_path: Path, own_folders: Path) -> None:
    table = small_tables.delta(tmp_path / "orders", commits=MANY)
    before = rows_of(table)

    first = type_in("maintain", table, "--json", "--verify-rows", "count")
    second = type_in("maintain", table)

    assert first.exit_code == 0, first.output
    reported = json.loads(first.stdout)
    assert [(one["action"], one["status"]) for one in reported["operations"]] == [("optimize", "succeeded")]
    assert (reported["before"]["numbers"]["files"], reported["after"]["numbers"]["files"]) == (MANY, 1)
    assert rows_of(table) == before
    compared = reported["operations"][0]["result"]["verified_rows"]
    assert (compared["outcome"], compared["after"]["rows"]) == ("equal", len(before))
    assert (compared["before"]["from"], compared["after"]["from"]) == ("metadata", "metadata")
    assert second.stdout.rstrip().endswith("nothing to do")
    assert (list(own_folders.iterdir()), drivers()) == ([], [])


@pytest.mark.spark
@pytest.mark.long
def test_a_dry_run_lists_what_would_go_and_deletes_nothing(type_in: Run, tmp_path: Path) -> None:
    table = small_tables.delta(tmp_path / "orders", commits=MANY)
    stray = table / "part-00000-00000000-0000-0000-0000-000000000000-c000.snappy.parquet"
    stray.write_bytes(b"left over")
    os.utime(stray, (LONG_AGO, LONG_AGO))

    kept, whole = ["--home", tmp_path / "kept"], ["--set", "delta.vacuum.mode=full"]

    result = type_in("maintain", table, "--action", "vacuum", "--dry-run", *kept, *whole)

    assert result.exit_code == 0, result.output
    assert "would delete 1 files" in result.stdout
    assert stray.name in result.stdout
    assert stray.exists()
    assert (tmp_path / "kept" / "maintain" / "service.log").exists()


@pytest.mark.spark
def test_ctrl_c_stops_the_work_and_the_driver(tmp_path: Path) -> None:
    table = small_tables.delta(tmp_path / "orders", commits=MANY)
    command = [*WITH_CTRL_C, "-m", "lakehand.cli", "maintain", str(table), "--action", "optimize"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if "optimize:" in line:
            break
    process.send_signal(signal.SIGINT)
    reply = process.stdout.read()
    process.stdout.close()

    assert process.wait(TIMEOUT) == 130
    assert "stopping" in reply
    assert drivers() == []


@pytest.mark.spark
def test_a_driver_that_does_not_start_is_reported_with_its_reason(
    type_in: Run, tmp_path: Path, own_folders: Path
) -> None:
    config = tmp_path / "lakehand.toml"
    config.write_text('[spark]\nmaster = "nonsense"\n')
    table = small_tables.delta(tmp_path / "orders", commits=MANY)

    result = type_in("maintain", table, "--config", config)

    assert result.exit_code == 1
    assert "the driver died" in result.stderr
    assert len(list(own_folders.iterdir())) == 1  # its logs may help


def test_nothing_is_started_for_a_healthy_table(
    type_in: Run, tmp_path: Path, own_folders: Path, sentences: Sentences
) -> None:
    table = small_tables.delta(tmp_path / "orders", commits=1)

    sentences.check("nothing to maintain", type_in("maintain", table).stdout.splitlines()[-1].strip())
    assert type_in("maintain", table, "--dry-run").exit_code == 0
    assert list(own_folders.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "names"),
    [(["--action", "explode"], "explode"), (["--confirm"], "--action"), (["--scheduling", "never"], "'never'")],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(
    type_in: Run, tmp_path: Path, own_folders: Path, words: list[str], names: str
) -> None:
    result = type_in("maintain", small_tables.delta(tmp_path / "orders", commits=MANY), *words)

    assert result.exit_code == 1
    assert names in result.stderr
    assert list(own_folders.iterdir()) == []


def test_several_tables_are_not_maintained_by_accident(type_in: Run, tmp_path: Path, sentences: Sentences) -> None:
    for name in ("a", "b"):
        small_tables.hudi(tmp_path / "lake" / name)

    result = type_in("maintain", tmp_path / "lake")

    assert result.exit_code == 1
    found = {"tables": 2, "folder": tmp_path / "lake", "command": f"lakehand check {tmp_path / 'lake'}"}
    sentences.check("several tables to maintain", result.stderr.strip(), **found)
