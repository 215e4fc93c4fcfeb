# SPDX-License-Identifier: Apache-2.0
"""The command as a whole: help, tokens, unreachable services, versions, options for writers, the doctor."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

import lakehand as package
from lakehand.app.config_file import toml
from lakehand.store import SqlStore
from lakehand.writer import delta_options, hudi_options, storage_lock
from tests.cli.conftest import Run, answer
from tests.kit.sentences import Sentences
from tests.rest.parts import context_over, serving, with_security
from tests.s3_server import KEY, REGION, s3_server

COMMANDS = [
    [], ["check"], ["maintain"], ["serve"], ["demo"], ["migrate"], ["doctor"], ["explain"], ["hudi-options"],
    ["delta-options"],    ["plugins"], ["version"], ["tables"],
    *(["tables", w] for w in ("add", "list", "show", "change", "pause", "resume", "remove", "evaluate", "discover",
                             "history")),
    ["operations"],
    *(["operations", w] for w in ("list", "show", "submit", "remove", "cancel", "retry", "logs", "clear")),
    ["catalogs"], ["catalogs", "list"], ["catalogs", "sync"],
    ["tokens"], ["tokens", "list"], ["tokens", "create"], ["tokens", "revoke"], ["audit"],
]  # fmt: skip


@pytest.fixture
def guarded(store: SqlStore) -> Iterator[str]:
    with serving(with_security(context_over(store), tokens={"ann": "secret"})) as client:
        yield str(client.base_url)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(type_in: Run, words: list[str]) -> None:
    result = type_in(*words, "--help")

    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_a_service_that_is_away_is_reported_with_how_to_start_one(type_in: Run) -> None:
    result = type_in("tables", "list", "--url", "http://127.0.0.1:9")

    assert result.exit_code == 1
    assert "lakehand serve" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_token_is_required_and_accepted(type_in: Run, guarded: str) -> None:
    refused = type_in("tables", "list", "--url", guarded)

    assert refused.exit_code == 1
    assert "LAKEHAND_TOKEN" in refused.stderr
    assert answer(type_in("tables", "list", "--url", guarded, "--token", "secret", "--json"))["items"] == []


def test_plugins_show_who_is_broken_and_why(lakehand: Run) -> None:
    shown = lakehand("plugins").stdout

    assert "no Java" in shown
    assert answer(lakehand("plugins", "--json"))["items"][0]["state"] == "on"


def test_version_answers_with_and_without_a_service(type_in: Run, url: str, sentences: Sentences) -> None:
    with_service = answer(type_in("version", "--url", url, "--json"))
    without = type_in("version", "--url", "http://127.0.0.1:9")

    assert with_service["command"] == with_service["service"]["version"] == package.__version__
    assert without.exit_code == 0
    sentences.check("no service", without.stdout.splitlines()[-1].strip(), url="http://127.0.0.1:9")


@pytest.mark.parametrize("version", ["1.2.1", "1.2.0"])
def test_the_printed_options_are_those_that_a_writer_is_given(type_in: Run, version: str) -> None:
    printed = answer(type_in("hudi-options", "-V", version, "--index", "bucket", "--format", "json"))

    assert printed == hudi_options("http://127.0.0.1:9091", hudi_version=version, index="bucket")


def test_options_are_printed_as_properties_and_as_python(type_in: Run) -> None:
    properties = type_in("hudi-options").stdout
    python = type_in("hudi-options", "--format", "python").stdout
    named: dict[str, dict[str, str]] = {}
    exec(python.partition("\n\nframe")[0], named)

    lines = dict(line.split("=", 1) for line in properties.splitlines())
    assert named["options"] == lines


def test_the_options_of_delta_writers_are_printed_for_them_and_for_our_own_settings(type_in: Run) -> None:
    options = delta_options(region="eu-central-1", table="commits")
    asked = ["delta-options", "--region", "eu-central-1", "--table", "commits"]

    assert answer(type_in(*asked, "--format", "json")) == options
    assert toml.loads(type_in(*asked, "--format", "toml").stdout) == {"spark": options}
    assert dict(line.split("=") for line in type_in(*asked).stdout.splitlines()) == options


def test_a_writer_to_a_bucket_gets_a_lock_in_the_bucket(type_in: Run, sentences: Sentences) -> None:
    locked = answer(type_in("hudi-options", "--storage-lock", "--format", "json"))
    both = type_in("hudi-options", "--storage-lock", "--lock-folder", "/data/locks")

    assert locked.items() >= storage_lock().items()
    assert locked["hoodie.write.concurrency.mode"] == "optimistic_concurrency_control"
    assert both.exit_code == 1
    sentences.check("two locks", both.stderr.strip())


def test_options_that_make_no_sense_are_refused_in_one_line(type_in: Run) -> None:
    result = type_in("hudi-options", "--actions", "clean")

    assert result.exit_code == 1
    assert "lock" in result.stderr


def test_clustering_without_a_lock_is_printed_with_a_warning_beside_it(type_in: Run, sentences: Sentences) -> None:
    bare = type_in("hudi-options", "--actions", "clustering")
    locked = type_in("hudi-options", "--actions", "clustering", "--lock-folder", "/data/locks/trips")

    sentences.check("clustering without a lock", bare.stderr.strip())
    assert "hoodie.clustering.updates.strategy" not in bare.stdout
    assert locked.stderr == ""
    assert "hoodie.clustering.updates.strategy=" in locked.stdout


def test_the_table_of_a_writer_that_plans_nothing_is_named_beside_its_options(type_in: Run) -> None:
    asked = ["hudi-options", "--scheduling", "service", "--actions", "compaction,clean", "--index", "bucket"]
    bare = type_in(*asked)
    locked = type_in(
        *asked, "--lock-folder", "/data/trips/.hoodie/locks", "--max-delta-commits", "2", "--trigger", "num-or-time",
        "--max-age", "900",
    )  # fmt: skip

    assert bare.exit_code == 1
    assert "lock=file_lock(folder)" in bare.stderr
    assert "hoodie.compact.schedule.inline=false" in locked.stdout.splitlines()
    command = locked.stderr.strip().partition("lakehand tables add ")[2]
    words = command.split()
    assert words[:5] == ["TABLE", "--actions", "compaction,clean", "--scheduling", "service"]
    assert {"hudi.compaction.delta-commits=2", "hudi.compaction.max-age=900s", "hudi.clean.max-age=900s"} <= {*words}
    assert "hoodie.write.lock.filesystem.path=/data/trips/.hoodie/locks" in words


def test_what_the_client_sends_along_is_asked_for_by_the_command(type_in: Run) -> None:
    asked = ["--resource", "2g:4g", "--parallelism", "4", "--engine", "spark-submit", "--extra-param", "a=1"]
    printed = answer(type_in("hudi-options", "-V", "1.2.1", "--index", "bucket", *asked, "--format", "json"))

    manager = "hoodie.table.service.manager"
    wanted = {"deploy.resources": "2g:4g", "deploy.parallelism": "4", "deploy.extra.params": "a=1"}
    assert {key: printed[f"{manager}.{key}"] for key in wanted} == wanted
    assert printed[f"{manager}.execution.engine"] == "spark-submit"


def test_the_doctor_finds_a_sound_machine(type_in: Run, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()

    report = type_in("doctor", "--quick", "--json", "--home", tmp_path / "home", "--warehouse", lake)

    found = {item["part"]: item for item in json.loads(report.stdout)["items"]}
    assert found["database"]["is_fine"]
    assert found[f"storage {lake}"]["is_fine"]
    assert "empty" in found["database"]["detail"]


def test_the_doctor_says_how_to_fix_what_is_wrong(type_in: Run, tmp_path: Path) -> None:
    nowhere = ["--home", tmp_path / "home", "--warehouse", tmp_path / "nowhere"]
    database = ["--database", "postgresql://nobody@127.0.0.1:9/none"]

    result = type_in("doctor", "--quick", *nowhere, *database)

    assert result.exit_code == 1
    assert f"{tmp_path}/nowhere" in result.stdout
    assert "LAKEHAND_DATABASE" in result.stdout
    assert "Traceback" not in result.output


def test_the_doctor_checks_the_jars_of_every_format_that_is_on(
    type_in: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHAND_JARS", str(tmp_path / "no-jars"))
    monkeypatch.setenv("LAKEHAND_PLUGINS", json.dumps({"table-formats": {"paimon": {"enabled": False}}}))

    report = type_in("doctor", "--quick", "--json", "--home", tmp_path / "home")

    found = {item["part"]: item for item in json.loads(report.stdout)["items"]}
    assert not found["jars"]["is_fine"]
    assert all(name in found["jars"]["detail"] for name in ("hudi-spark", "iceberg-spark", "delta-spark"))
    assert "paimon" not in found["jars"]["detail"] + found["plugins"]["detail"]


@pytest.mark.server
def test_the_doctor_reaches_a_private_endpoint_with_the_settings_of_the_store(
    type_in: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, KEY)
    with s3_server() as server:
        server.make_bucket("lake")
        server.put("lake", "sales/orders/data.parquet", b"")
        monkeypatch.setenv("LAKEHAND_STORAGE__S3__ENDPOINT", server.endpoint)
        monkeypatch.setenv("LAKEHAND_STORAGE__S3__REGION", REGION)

        report = type_in(
            "doctor", "--quick", "--json", "--home", tmp_path / "home", "--warehouse", "s3://lake/sales",
            "--warehouse", "s3://lake/nowhere",
        )  # fmt: skip

    found = {item["part"]: item for item in json.loads(report.stdout)["items"]}
    there, missing = found["storage s3://lake/sales"], found["storage s3://lake/nowhere"]
    assert (there["is_fine"], there["fix"]) == (True, "")
    assert not missing["is_fine"]
    assert "s3://lake/nowhere" in missing["detail"]


def test_migrate_fills_an_empty_database_and_repeats_without_harm(type_in: Run, tmp_path: Path) -> None:
    first = type_in("migrate", "--home", tmp_path / "home")
    second = type_in("migrate", "--home", tmp_path / "home")

    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    assert (tmp_path / "home" / "lakehand.db").exists()


def test_settings_that_make_no_sense_are_refused_in_one_line(type_in: Run, tmp_path: Path) -> None:
    result = type_in("serve", "--home", tmp_path, "--port", 99999)

    assert result.exit_code == 1
    assert "port" in result.stderr


def sentence(result: Result) -> str:
    """What a command says that fails as it should: one line, and exit code 1."""
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    assert result.stderr.startswith("lakehand: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.strip()


def test_a_start_that_cannot_be_is_one_sentence_with_the_next_step(
    type_in: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    """By migrate, which starts like serve and ends."""
    monkeypatch.chdir(tmp_path)
    command = "migrate"
    home = ["--home", tmp_path / "home"]
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database" * 1000)
    damaged.chmod(0o600)

    def refused(database: str) -> str:
        return sentence(type_in(command, *home, "--database", database))

    sentences.check("a damaged database", refused(f"sqlite:///{damaged}"), file=damaged)
    unknown = refused(f"sqlite:///{tmp_path}/x.db?y=1")
    sentences.check("an unknown parameter of SQLite", unknown, name="'y'")
    unknown = refused("postgresql://127.0.0.1:1/d?foo=1")
    known = re.compile(r"[a-z_]+(, [a-z_]+)+")
    sentences.check("an unknown parameter of PostgreSQL", unknown, name="'foo'", known=known)
    nowhere = refused(f"sqlite:///{tmp_path}/no/x.db")
    sentences.check("a database in no folder", nowhere, file=f"{tmp_path}/no/x.db", user=os.getuid())
    nowhere = sentence(type_in(command, "--home", "/proc/lakehand"))
    sentences.check("no home", nowhere, folder="/proc/lakehand", user=os.getuid())
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert f"chmod 700 {tmp_path}/open" in sentence(type_in(command, "--home", tmp_path / "open"))


def test_serve_refuses_a_warehouse_that_would_reach_the_home(tmp_path: Path, sentences: Sentences) -> None:
    """In a process of its own: it has the logs of the whole process written as JSON."""
    lake, home = str(tmp_path / "lake"), str(tmp_path / "lake" / "home")
    program = f"""
import sys
from lakehand.cli import app
for warehouse in {[lake, "/"]!r}:
    try:
        app(["serve", "--home", {home!r}, "--warehouse", warehouse, "--port", "0"])
    except SystemExit as end:
        print("exit", end.code, file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)

    [inside, exit_inside, root, exit_root] = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    sentences.check("a home in a warehouse", inside, home=home, warehouse=lake)
    sentences.check("a warehouse of everything", root)
    assert exit_inside == exit_root == "exit 1"


def test_the_doctor_names_the_settings_file_that_it_reads(
    type_in: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "lakehand.toml"
    file.write_text("port = 0")
    file.chmod(0o666)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)

    result = type_in("doctor", "--quick", "--home", home, "--json")

    found = {one["part"]: one for one in json.loads(result.stdout)["items"]}
    ignored = {"file": file, "command": f"chmod go-w {file}"}
    sentences.check("a settings file of anybody", found["settings"]["detail"], **ignored)
    file.chmod(0o600)
    found = {
        one["part"]: one for one in json.loads(type_in("doctor", "--quick", "--home", home, "--json").stdout)["items"]
    }
    sentences.check("a settings file", found["settings"]["detail"], file=file)
    assert found["home"]["is_fine"]
