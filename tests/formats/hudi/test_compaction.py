# SPDX-License-Identifier: Apache-2.0
"""Where the writers' index looks only into base files, deletes in logs are warned of and compactions are guarded."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.hudi import HudiProcessFactory, plans
from lakehand.formats.hudi.snapshot import COMPACTION
from lakehand.spi import Finding, Instant, TableProcess
from tests.formats.hudi.runtime import FILE_LOCK, ORDERS_V9, MemoryRuntime, copied, finish, operation, timeline
from tests.kit.sentences import TIME, Sentences

LATER = "20261115214100000"
EXPIRES = "hoodie.write.lock.filesystem.expire"
INDEX, STRAY_KEYS, LIMIT = "hoodie.index.type", "hudi.compaction.stray-keys", "hudi.compaction.lock-limit"


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """With a pending compaction plan, and a commit that deleted three rows."""
    table = copied("orders_v9", tmp_path)
    write(table, deletes=3)
    return table


def write(table: Path, *, deletes: int, group: str = "5d0f9c2e-1111-2222-3333-444455556666-0") -> None:
    stats = [{"fileId": group, "path": f"p0/.{group}_{LATER}.log.1_0-1-1", "numDeletes": deletes}]
    name = f"{LATER}_{int(LATER) + 5000}.deltacommit"
    (timeline(table) / name).write_text(json.dumps({"partitionToWriteStats": {"p0": stats}}))


def reason(table: Path, **properties: str) -> str:
    factory = HudiProcessFactory()
    factory.open({})
    return factory.trigger(MemoryRuntime(table, properties=properties), COMPACTION).reason


def admitted(table: Path, **properties: str) -> TableProcess:
    factory, runtime = HudiProcessFactory(), MemoryRuntime(table, properties=properties)
    factory.open({})
    wanted = factory.trigger(runtime, COMPACTION)
    assert isinstance(wanted, TableProcess)
    process = factory.admit(runtime, operation(wanted))
    assert isinstance(process, TableProcess)
    return process


def guard(table: Path, **properties: str) -> Any:
    return admitted(table, **properties).parameters.get("stray_keys")


@pytest.mark.parametrize("name", ["", "SIMPLE", "bloom", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "SOMETHING_NEW"])
def test_deletes_in_logs_beside_an_index_that_may_look_only_into_base_files_are_warned_of(
    name: str, orders: Path, sentences: Sentences
) -> None:
    index = name.upper() or "not known, and SIMPLE unless they set one"
    numbers = {"plan": ORDERS_V9, "since": TIME, "deletes": 3, "index": index}
    sentences.check("deletes in logs", reason(orders, **FILE_LOCK, **{INDEX: name}), **numbers)


@pytest.mark.parametrize("name", ["BUCKET", "record_index", "GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX"])
def test_an_index_that_sees_logs_needs_neither_warning_nor_guard(name: str, orders: Path) -> None:
    assert "deletes" not in reason(orders, **FILE_LOCK, **{INDEX: name})
    assert guard(orders, **FILE_LOCK, **{INDEX: name}) is None


def test_a_bucket_index_shows_in_the_names_of_file_groups(orders: Path) -> None:
    write(orders, deletes=3, group="00000001-1111-2222-3333-444455556666-0")

    assert "deletes" not in reason(orders, **FILE_LOCK)
    assert guard(orders, **FILE_LOCK) is None


def test_a_table_without_deletes_is_not_warned_of_and_yet_guarded(orders: Path) -> None:
    write(orders, deletes=0)

    assert "deletes" not in reason(orders, **FILE_LOCK)
    assert guard(orders, **FILE_LOCK) == "heal", "deletes may come until the compaction is completed"


def test_the_warning_says_what_is_done_about_it(orders: Path, sentences: Sentences) -> None:
    numbers = {"plan": ORDERS_V9, "since": TIME, "deletes": 3}
    sentences.check("deletes in logs, left", reason(orders, **FILE_LOCK, **{STRAY_KEYS: "none"}), **numbers)
    sentences.check("deletes in logs without a shared lock", reason(orders), **numbers)


def test_what_a_compaction_does_about_stray_keys_depends_on_the_setting_and_on_a_shared_lock(orders: Path) -> None:
    assert guard(orders) == "report", "without a shared lock nobody can plan beside the writer"
    assert guard(orders, **FILE_LOCK) == "heal"
    assert guard(orders, **FILE_LOCK, **{STRAY_KEYS: "lock"}) == "heal", "a word of before, which did the same"
    assert guard(orders, **FILE_LOCK, **{STRAY_KEYS: "none"}) is None
    assert guard(orders, **{"hudi.only-writer": "true"}) is None


@pytest.mark.parametrize(
    ("expires", "wanted", "limit"), [("0", "5m", 300), ("3", "5m", 120), ("3", "30s", 30), ("1", "30s", 10)]
)
def test_the_lock_is_never_held_until_others_take_it_for_dead(
    expires: str, wanted: str, limit: int, orders: Path
) -> None:
    process = admitted(orders, **FILE_LOCK, **{LIMIT: wanted, EXPIRES: expires})

    assert process.parameters["lock_limit"] == limit


def test_the_result_says_how_many_keys_were_stray_and_what_became_of_them(orders: Path, sentences: Sentences) -> None:
    process = admitted(orders, **FILE_LOCK)
    done = finish(orders, ORDERS_V9, "commit")

    def reason_with(**counted: Any) -> str:
        result: dict[str, Any] = {"instants": [ORDERS_V9], **({"stray_keys": counted} if counted else {})}
        verdict = HudiProcessFactory().verify(MemoryRuntime(orders, properties=FILE_LOCK), process, result)
        assert verdict.finding is Finding.DONE
        return verdict.reason

    plan = {"plan": ORDERS_V9, "file": done}
    sentences.check("compacted", reason_with(), **plan)
    sentences.check("compacted twice", reason_with(found=7, left=0, healed_by=["1"]), **plan, found=7)
    sentences.check("compacted, with stray keys", reason_with(found=7, left=7, why="WriterBusy"), **plan, left=7)
    sentences.check("compacted, and not looked at", reason_with(found=0, left=0, why="WriterBusy"), **plan)


@pytest.mark.parametrize("deletes", [0, 2])
@pytest.mark.parametrize("instant", [ORDERS_V9, None])
def test_a_compaction_of_deletes_is_done_when_it_was_searched_and_a_dead_driver_may_not_have(
    instant: Instant | None, deletes: int, tmp_path: Path
) -> None:
    """Both for the writer's plan and for one of ours. The next attempt only searches."""
    table = copied("orders_v9", tmp_path)
    [commit] = timeline(table).glob("20261115213955574_*.deltacommit")
    merged = plans.read_document(commit.read_bytes())
    merged["partitionToWriteStats"]["p0"][0]["numDeletes"] = deletes
    commit.write_text(json.dumps(merged, default=str))
    factory = HudiProcessFactory()
    factory.open({})

    def runtime() -> MemoryRuntime:
        return MemoryRuntime(table, properties=FILE_LOCK)

    mode = "execute" if instant else "plan-and-execute"
    first = factory.admit(
        runtime(), operation(TableProcess(action=COMPACTION, instant=instant, parameters={"mode": mode}))
    )
    assert isinstance(first, TableProcess)
    finish(table, ORDERS_V9, "commit")

    lost = factory.verify(runtime(), first, {}).finding
    assert lost is (Finding.NOT_DONE if deletes else Finding.DONE)
    assert factory.verify(runtime(), first, {"instants": [ORDERS_V9]}).finding is Finding.DONE
    if deletes:
        again = factory.admit(runtime(), operation(first, run_times=1))
        assert isinstance(again, TableProcess)
        assert (again.parameters["mode"], again.parameters["instant"]) == ("execute", ORDERS_V9)
        assert factory.verify(runtime(), again, {}).finding is Finding.NOT_DONE
