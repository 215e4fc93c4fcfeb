# SPDX-License-Identifier: Apache-2.0
"""Holds the documents to the code: what exists is documented, and what is documented exists."""

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel

from lakehand.app.setting_types import read_duration
from lakehand.app.settings import ALIASES, Settings, load
from lakehand.cli import app
from lakehand.domain.alerts import SEVERITIES, AlertKind
from lakehand.engines.spark.settings import KEYS, read_settings
from lakehand.engines.spark_submit.settings import KEYS as SUBMIT_KEYS
from lakehand.formats.hudi import HudiProcessFactory
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.rest.wire import PREFIX
from lakehand.rest.wire_requests import ACTIONS
from tools.golden_api import openapi

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/*.md")])
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES}
OPERATING = TEXT[ROOT / "docs" / "operating.md"]
SOURCE = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
SUFFIXES = re.compile(r"_(total|bucket|sum|count|created|info)$")
HUDI = re.compile(r"hudi\.(?!md)[a-z.-]+")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ADDRESS = re.compile(
    rf"(?:({'|'.join(METHODS)}) )?(/(?:api/v1|v1/hoodie/service|health|metrics|openapi)\b[\w/{{}},.-]*)"
)


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_fences(text: str) -> str:
    return FENCE.sub("", text)


def snippets(text: str) -> Iterator[str]:
    """All code: the lines of blocks, without their comments, and the spans within sentences."""
    for language, block in FENCE.findall(text):
        if language == "mermaid":
            continue
        yield from (line.split(" #")[0].strip() for line in block.splitlines())
    yield from SPAN.findall(without_fences(text))


def section(text: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"docs/operating.md has no section {title!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows that begin with a piece of code."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def code(cell: str) -> str:
    return cell.strip().strip("`")


# Settings


def defaults(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every setting by its dotted name, with its default."""
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield from defaults(type(field.default), f"{prefix}{name}.")
        else:
            yield prefix + name, field.default


def variable(setting: str) -> str:
    return f"LAKEHAND_{setting.upper().replace('.', '__')}"


def means(cell: str, default: object) -> bool:
    """Whether a cell says what the default is; a missing value is described in words."""
    if default in (None, [], {}):
        return not cell.startswith("`")
    if isinstance(default, timedelta):
        return read_duration(code(cell)) == default
    return code(cell) == (str(default).lower() if isinstance(default, bool) else str(default))


SETTINGS = dict(defaults(Settings))
SETTING_ROWS = {code(row[0]): row for row in rows(section(OPERATING, "Settings"))}


def test_every_setting_has_a_row_in_the_table_and_every_row_a_setting() -> None:
    assert sorted(SETTING_ROWS) == sorted(SETTINGS)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_the_row_of_a_setting_names_its_variable_and_its_default(name: str) -> None:
    _, environment, default, _ = SETTING_ROWS[name]
    assert code(environment) == variable(name)
    assert means(default, SETTINGS[name])


def test_the_example_of_a_configuration_file_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LAKEHAND_")]:
        monkeypatch.delenv(name)
    [example] = [block for language, block in FENCE.findall(OPERATING) if language == "toml"]
    file = tmp_path / "lakehand.toml"
    file.write_text(example, encoding="utf-8")
    configs = load(config=file).plugin_configs()
    assert read_settings(configs["engine", "spark"].properties).conf == {"spark.sql.shuffle.partitions": "64"}


@pytest.mark.parametrize("page", [page for page in PAGES if "\n[catalogs." in TEXT[page]], ids=page_name)
def test_the_examples_of_catalogs_are_accepted(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LAKEHAND_")]:
        monkeypatch.delenv(name)
    examples = [block for _, block in FENCE.findall(TEXT[page]) if "[catalogs." in block]
    file = tmp_path / "lakehand.toml"
    for example in examples:
        file.write_text(example, encoding="utf-8")
        catalogs = load(config=file).catalog_map().values()
        assert catalogs
        assert all(catalog.warehouse for catalog in catalogs)
    assert examples


def test_the_example_of_alerts_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LAKEHAND_")]:
        monkeypatch.delenv(name)
    page = TEXT[ROOT / "docs" / "alerts.md"]
    [example] = [block for language, block in FENCE.findall(page) if language == "toml"]
    file = tmp_path / "lakehand.toml"
    file.write_text(example, encoding="utf-8")
    assert load(config=file).alerts.rules().receivers == ("pager", "team")
    assert [one for one in AlertKind if f"| `{one}` | {SEVERITIES[one]} |" not in page] == []


def test_the_example_of_an_issuer_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LAKEHAND_")]:
        monkeypatch.delenv(name)
    [example] = [block for _, block in FENCE.findall(TEXT[ROOT / "docs" / "access.md"]) if block.startswith("[oidc]")]
    file = tmp_path / "lakehand.toml"
    file.write_text(example, encoding="utf-8")
    assert sorted(load(config=file).oidc.roles.values()) == ["admin", "operator", "viewer"]


def test_every_property_of_the_spark_engine_has_a_row_and_every_row_a_property() -> None:
    documented = {code(row[0]) for row in rows(section(OPERATING, "The spark engine").split("### ")[0])}
    assert documented - {"spark.*"} == set(KEYS)


def test_every_property_of_the_spark_submit_engine_has_a_row_and_every_row_a_property() -> None:
    documented = {
        code(row[0]) for row in rows(section(TEXT[ROOT / "docs" / "clusters.md"], "One application per operation"))
    }
    assert documented == set(SUBMIT_KEYS)


OF_TESTS = {"LAKEHAND_LEFTOVERS", "LAKEHAND_SCREENSHOTS", "LAKEHAND_TEST_VERSITYGW"}  # by tests, not by the product


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_environment_variables_that_are_named_exist(page: Path) -> None:
    known = {variable(name) for name in SETTINGS} | {f"LAKEHAND_{alias.upper()}" for alias in ALIASES}
    named = set(re.findall(r"\bLAKEHAND_[A-Z][A-Z_]*\b", TEXT[page]))
    assert [name for name in named - known - OF_TESTS if f'"{name}"' not in SOURCE] == []


def test_the_properties_of_hudi_tables_that_are_named_are_those_that_exist() -> None:
    named = {word for text in TEXT.values() for word in SPAN.findall(without_fences(text)) if HUDI.fullmatch(word)}
    exist = {row.key for row in HudiProcessFactory().settings.rows if HUDI.fullmatch(row.key)}
    assert named == exist


# Commands

PROGRAM: Any = typer.main.get_command(app)


def children(command: Any) -> dict[str, Any]:
    return getattr(command, "commands", {})


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, child in children(command).items():
        yield from leaves(child, (*path, name))
    if not children(command):
        yield path


def command_lines(text: str) -> Iterator[list[str]]:
    for snippet in snippets(text):
        words = snippet.split()
        if words and words[0] in ("lakehand", ".venv/bin/lakehand"):
            yield words[1:]


def find_command(words: list[str]) -> tuple[tuple[str, ...], Any, list[str]]:
    """The command that a line names, and its arguments."""
    path: tuple[str, ...] = ()
    command = PROGRAM
    while words and words[0] in children(command):
        command, path, words = children(command)[words[0]], (*path, words[0]), words[1:]
    return path, command, words


def test_every_command_is_documented() -> None:
    named = {find_command(words)[0] for text in TEXT.values() for words in command_lines(text)}
    assert [" ".join(path) for path in leaves(PROGRAM) if path not in named] == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_and_options_that_are_named_exist(page: Path) -> None:
    assert [" ".join(words) for words in command_lines(TEXT[page]) if not exists(words)] == []


def exists(words: list[str]) -> bool:
    _, command, rest = find_command(words)
    if children(command) and rest and rest[0] not in ("...", "--help", "COMMAND"):
        return False
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    given = [word.split("=")[0] for word in rest if re.match(r"--?[A-Za-z]", word)]
    return children(command) != {} or all(word in known for word in given)


# Metrics


@cache
def metrics() -> set[str]:
    body, _ = PrometheusMetrics().text()
    names = re.findall(r"^# HELP (lakehand_\w+)", body.decode(), re.MULTILINE)
    return {SUFFIXES.sub("", name) for name in names}


def test_every_metric_has_a_row_in_the_table() -> None:
    documented = {SUFFIXES.sub("", code(row[0])) for row in rows(section(OPERATING, "Metrics"))}
    assert documented == metrics()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_metrics_that_are_named_exist(page: Path) -> None:
    named = {SUFFIXES.sub("", name) for name in re.findall(r"\blakehand_[a-z_]+\b", TEXT[page])}
    assert named - metrics() == set()


# Routes


@cache
def described() -> dict[str, Any]:
    """The OpenAPI document."""
    return openapi()


@cache
def routes() -> set[tuple[str, str]]:
    """Method and path of everything that is served, with parameters as {}."""
    paths: dict[str, dict[str, Any]] = described()["paths"] | {"/api/v1/openapi.json": {"get": {}}}
    framed = {(method.upper(), shape(path)) for path, methods in paths.items() for method in methods}
    wire = {("GET", PREFIX + kind) for kind in ACTIONS} | {("POST", f"{PREFIX}callback")}
    return {(method, path) for method, path in framed | wire if ADDRESS.fullmatch(path)}


def shape(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


def is_served(method: str, path: str, served: set[tuple[str, str]]) -> bool:
    """As it is, or with a value instead of a parameter; without a method, any method counts."""
    shapes = [re.escape(known).replace(r"\{\}", r"[^/]+") for m, known in served if method in ("", m)]
    return any(re.fullmatch(known, path) for known in [*shapes, "/api/v1"])


def addresses(text: str) -> Iterator[tuple[str, str]]:
    """Methods (maybe empty) and paths that a page names; {a,b} stands for several."""
    for snippet in snippets(text):
        for method, path in ADDRESS.findall(snippet):
            if "..." not in path and not path.endswith(".py"):
                parts = [part.split(",") if "," in part else ["{}"] for part in re.findall(r"\{([^}]*)\}", path)]
                around = re.split(r"\{[^}]*\}", path.rstrip("/.,"))
                for chosen in product(*parts):
                    yield method, "".join(a + b for a, b in zip(around, (*chosen, ""), strict=True))


def test_every_route_is_documented() -> None:
    named = {(method, path) for text in TEXT.values() for method, path in addresses(text)}
    assert routes() - named == set()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_routes_that_are_named_exist(page: Path) -> None:
    served = routes()
    assert [(m, path) for m, path in addresses(TEXT[page]) if not is_served(m, path, served)] == []


# Links


def anchors(text: str) -> set[str]:
    """As GitHub makes them from headings."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(without_fences(text))}


def broken(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    if not there.exists():
        return True
    return bool(anchor) and anchor not in anchors(there.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    targets = [t for t in LINK.findall(without_fences(TEXT[page])) if not re.match(r"[a-z]+:", t)]
    assert [target for target in targets if broken(page, target)] == []


def test_the_files_that_the_architecture_names_exist() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", TEXT[ROOT / "docs" / "architecture.md"])
    assert len(named) > 30
    homes = (ROOT / "src" / "lakehand", ROOT)
    assert [file for file in named if not any((home / file).exists() for home in homes)] == []


def test_every_promise_on_security_names_tests_that_exist() -> None:
    """Of each row of the table of who can reach what."""
    table = TEXT[ROOT / "SECURITY.md"].partition("## Who can reach what")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for row in rows:
        named = [span for span in SPAN.findall(row.rsplit("|", 2)[1]) if "::" in span]
        assert named, f"no test is named: {row}"
        for file, _, test in (name.partition("::") for name in named):
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {test}"


# Tests


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_tests_that_are_named_exist(page: Path) -> None:
    for name, file in re.findall(r"`(test_\w+)` in `(tests/[\w/]+\.py)`", TEXT[page]):
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {name}"
