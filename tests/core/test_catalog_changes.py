# SPDX-License-Identifier: Apache-2.0
"""What a look into a catalog means: which tables come, which go, and which are only missing."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from lakehand.core.services.catalog_changes import Absent, CatalogChanges, Listing, changes_of, named
from lakehand.domain.tables import Format, Table, TableId, TableReference, TableSpec
from tests.kit.sentences import Sentences

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)


def reference(name: str, location: str = "") -> TableReference:
    return TableReference(location=location or f"/data/{name}", db_name="db", table_name=name)


def table(number: int, name: str) -> Table:
    spec = TableSpec(location=f"/data/{name}", format=Format("iceberg"), db_name="db", table_name=name, catalog="lake")
    return Table(id=TableId(number), spec=spec, created_at=NOON, updated_at=NOON)


def tables(*names: str) -> list[Table]:
    return [table(number, name) for number, name in enumerate(names, 1)]


def references(*names: str) -> list[TableReference]:
    return [reference(name) for name in names]


def listing(listed: Sequence[TableReference], known: Sequence[Table] = ()) -> Listing:
    """As a sync makes it; what is registered already is not kept whole."""
    found = Listing()
    for one in listed:
        if found.note(one, {table.location: table for table in known}, {named(table) for table in known}):
            found.candidates.append(one)
    return found


def changed(
    listed: Sequence[TableReference],
    known: Sequence[Table],
    missed: Mapping[TableId, int] | None = None,
    *,
    accept_empty: bool = False,
) -> CatalogChanges:
    return changes_of(listing(listed, known), iter(known), missed or {}, accept_empty=accept_empty)


def names(absent: Sequence[Absent]) -> list[str]:
    return [one.named[1] for one in absent]


def outcome(changes: CatalogChanges) -> tuple[list[str], list[str], list[str]]:
    return [one.table_name for one in changes.add], names(changes.retire), names(changes.missing)


def test_what_is_new_comes_and_what_was_dropped_goes() -> None:
    changes = changed(references("a", "b", "new"), tables("a", "b", "old"))

    assert outcome(changes) == (["new"], ["old"], [])


def test_a_table_that_cannot_be_read_is_neither_retired_nor_registered() -> None:
    broken = [TableReference(location="", db_name="db", table_name=name, problem="torn") for name in ("b", "new")]

    changes = changed([*references("a"), *broken], tables("a", "b", "c"))

    assert outcome(changes) == ([], ["c"], [])
    assert [one.table_name for one in changes.unreadable] == ["new"]


def test_an_empty_list_retires_nothing_however_often_it_is_seen(sentences: Sentences) -> None:
    known = tables("a", "b")

    changes = changed([], known, {table.id: 100 for table in known})

    assert outcome(changes) == ([], [], ["a", "b"])
    sentences.check("an empty list of a catalog", changes.why_kept, registered=2)


def test_an_empty_list_is_believed_when_a_person_says_so() -> None:
    assert names(changed([], tables("a", "b"), accept_empty=True).retire) == ["a", "b"]


def test_where_most_are_missing_the_second_look_decides() -> None:
    known = tables("a", "b", "c")

    first = changed(references("a"), known)
    second = changed(references("a"), known, {known[1].id: 1, known[2].id: 1})

    assert outcome(first) == ([], [], ["b", "c"])
    assert "2 of 3" in first.why_kept
    assert outcome(second) == ([], ["b", "c"], [])


def test_a_table_whose_name_lives_elsewhere_was_replaced() -> None:
    changes = changed([reference("a", "/data/a-again")], tables("a"))

    assert [one.location for one in changes.add] == ["/data/a-again"]
    assert names(changes.retire) == ["a"]


def test_the_same_place_under_another_name_was_renamed() -> None:
    changes = changed([reference("b", "/data/a")], tables("a"))

    assert outcome(changes) == ([], [], [])
    assert [(one.table.id, one.reference.table_name) for one in changes.rename] == [(1, "b")]


def test_a_place_with_two_names_keeps_the_one_it_has() -> None:
    changes = changed([reference("b", "/data/a"), reference("a")], tables("a"))

    assert (outcome(changes), changes.rename) == (([], [], []), [])


def test_spellings_of_a_location_are_one_place() -> None:
    changes = changed([reference("a", "file:///data/a/")], tables("a"))

    assert outcome(changes) == ([], [], [])
