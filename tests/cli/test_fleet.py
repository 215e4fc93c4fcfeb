# SPDX-License-Identifier: Apache-2.0
"""lakehand fleet, through the real API."""

from sqlalchemy import update

from lakehand.domain.tables import TableId
from lakehand.store import SqlStore
from lakehand.store.clock import to_millis
from lakehand.store.schema import operation_hour, tbl
from tests.cli.conftest import Run, answer
from tests.kit.sentences import Sentences

HOUR = 3_600_000


def given_a_fleet(store: SqlStore, lakehand: Run) -> None:
    for name in ("trips", "clicks"):
        assert lakehand("tables", "add", f"/data/{name}", "--db", "raw").exit_code == 0
    [clicks] = [t["id"] for t in answer(lakehand("tables", "list", "--search", "CLI", "--json"))["items"]]
    now = to_millis(store.clock.now())
    lost = {"problem": "access denied to \x1b[31m_delta_log", "problem_time": now - HOUR, "files": 4220, "bytes": 2**30}
    done = {"hour": now - now % HOUR, "action": "optimize", "status": "succeeded", "operations": 1204, "attempts": 1250}
    done |= {"files_removed": 3100, "bytes_rewritten": 2**40, "wait_millis": 1204 * 4000, "run_millis": 1204 * 90_000}
    one = tbl.c.id == TableId(clicks)
    store.database.write(lambda tx: tx.execute(update(tbl).where(one).values(lost)))
    store.database.write(lambda tx: tx.execute(operation_hour.insert().values(done)))


def test_the_fleet_is_shown_in_a_few_lines(store: SqlStore, lakehand: Run, sentences: Sentences) -> None:
    given_a_fleet(store, lakehand)

    shown = lakehand("fleet")

    assert shown.exit_code == 0, shown.output
    assert "2   ? 1 unreadable  ○ 1 new" in shown.stdout
    assert "4,220 (1.0 GB)" in shown.stdout
    assert "? unreadable" in shown.stdout
    assert "raw.clicks" in shown.stdout
    assert r"access denied to \x1b[31m_delta_log" in shown.stdout
    [done] = [line for line in shown.stdout.splitlines() if "1,204" in line]
    found = {"operations": "1,204", "share": "100.0%", "of": "1,204", "files": "3,100", "size": "1.0 TB"}
    sentences.check("what a fleet has done", done.strip(), **found, waited="4.0 s", ran="90 s")
    assert answer(lakehand("fleet", "--json"))["states"]["unreadable"] == 1


def test_what_needs_a_person_is_cut_and_counted(store: SqlStore, lakehand: Run, sentences: Sentences) -> None:
    given_a_fleet(store, lakehand)
    store.database.write(lambda tx: tx.execute(update(tbl).values(problem="gone")))

    [cut] = [line for line in lakehand("fleet", "--limit", "1").stdout.splitlines() if "--limit" in line]
    sentences.check("more tables need a person", cut.strip(), more=1)


def test_a_fleet_without_tables_says_how_to_register_one(lakehand: Run) -> None:
    assert "lakehand tables add LOCATION" in lakehand("fleet").stdout


def test_a_fleet_that_needs_nobody_says_so(lakehand: Run, sentences: Sentences) -> None:
    lakehand("tables", "add", "/data/trips")

    sentences.check("no table needs a person", lakehand("fleet").stdout.splitlines()[2])


def test_tables_are_listed_by_their_state(store: SqlStore, lakehand: Run) -> None:
    given_a_fleet(store, lakehand)

    found = answer(lakehand("tables", "list", "--state", "unreadable", "--json"))["items"]

    assert [table["table_name"] for table in found] == ["clicks"]
    assert lakehand("tables", "list", "--state", "splendid").exit_code != 0
