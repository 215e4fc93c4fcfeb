# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/client.md and the task for Airflow, as they are written, against a running service."""

import ast
import runpy
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from lakehand.client import LakehandClient, OperationFailed
from lakehand.domain.operations import Status
from lakehand.domain.processes import Failure
from lakehand.store import SqlStore
from tests.client.engine import end_operation, engine_at_work, put_health
from tests.test_docs import FENCE, ROOT, TEXT

PAGE = TEXT[ROOT / "docs" / "client.md"]
EXAMPLES = [block for language, block in FENCE.findall(PAGE) if language == "python"]
PRINTED = {  # a part of each example → what it prints
    "tables.list(owner": ["sales.orders hudi {'files': 3", "nothing to do"],
    "operations.wait(operation": ["compaction of orders: 3 files became 1"],
    "writers.report(": ["1 stored, ['the table is not registered: ", "[<Status.PENDING: 'pending'>]"],
    "figure.add_scatter": [],
    "asyncio.run": ["0.1.0 {", "compaction failed: no-space"],
    "events.stream": ["table.changed sales.orders was changed by anonymous: paused = True"],
    "with_options": ["0.1.0"],
}


@pytest.fixture
def service(store: SqlStore, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakehandClient]:
    """With a table that has a history, and an engine that does what it is given."""
    monkeypatch.setenv("LAKEHAND_URL", url)
    monkeypatch.delenv("LAKEHAND_TOKEN", raising=False)
    with LakehandClient() as client:
        client.tables.add("/data/orders", db_name="sales", owner="finance")
        put_health(store, 1, hours_ago=3, files=40, small_files=37)
        put_health(store, 1, hours_ago=1, files=3, small_files=1)
        failed = client.operations.submit("orders", "compaction")
        end_operation(store, failed.id, Status.FAILED, Failure(reason="no-space", message="the disk is full"))
        with engine_at_work(store):
            yield client


def test_every_example_is_listed_here() -> None:
    assert [[part for part in PRINTED if part in example] for example in EXAMPLES] == [[part] for part in PRINTED]


@pytest.mark.parametrize("part", PRINTED)
def test_an_example_of_the_page_runs_and_prints_what_it_should(
    service: LakehandClient, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [example] = [one for one in EXAMPLES if part in one]
    file = tmp_path / "example.py"
    file.write_text(example, encoding="utf-8")

    names = runpy.run_path(str(file))

    printed = capsys.readouterr().out
    assert [text for text in PRINTED[part] if text not in printed] == [], printed
    if "figure" in names:
        drawn = names["figure"].to_plotly_json()
        assert [list(one["y"]) for one in drawn["data"]] == [[40, 3], [37, 1]]
        assert [one["text"] for one in drawn["layout"]["annotations"]] == ["compaction"]


@pytest.fixture
def task() -> Callable[[str], object]:
    """The function as it is in the file; what imports and calls Airflow, which is not installed, is left out."""
    tree = ast.parse((ROOT / "examples" / "airflow_compaction.py").read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if "DAG" not in (text := ast.unparse(node)) and "airflow." not in text]
    names: dict[str, Callable[[str], object]] = {}
    exec(compile(tree, "airflow_compaction.py", "exec"), names)
    return names["compact"]


def test_the_function_of_the_airflow_task_waits_for_its_compaction_without_airflow_itself(
    service: LakehandClient, task: Callable[[str], object]
) -> None:
    assert task("sales.orders") == {}
    assert [one.status for one in service.operations.list(limit=1)] == ["succeeded"]


def test_the_function_of_the_airflow_task_fails_with_its_compaction_without_airflow_itself(
    store: SqlStore, service: LakehandClient, task: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = Failure(reason="no-space", message="the disk is full")
    monkeypatch.setattr(
        "tests.client.engine.end_operation", partial(end_operation, status=Status.FAILED, failure=failure)
    )

    with pytest.raises(OperationFailed, match="failed: the disk is full"):
        task("sales.orders")
