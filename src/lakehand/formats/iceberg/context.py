# SPDX-License-Identifier: Apache-2.0
"""What the actions of Iceberg share: their context, settings, known failures, and what every verdict tells."""

from datetime import timedelta

from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import Json, Remedy, kit

IcebergContext = kit.DecisionContext[IcebergSnapshot]
IcebergEffect = kit.Effect[IcebergSnapshot]
ONLY_WRITER = kit.only_writer_setting("iceberg")
QUIET, REST = ROOM = kit.room_settings(
    "iceberg", "data and deletes", replaces=("iceberg.quiet-seconds", "iceberg.rest-seconds")
)
ROWS = kit.rows_in(globals())

FIRST_WAIT = timedelta(minutes=1)  # after a conflict; doubled with each, so that writers get through
LONGEST_WAIT = timedelta(minutes=30)
RULES = (
    kit.rule(
        r"CommitStateUnknown", "commit-unknown", Remedy.NOT_YET, delay=timedelta(minutes=2),
        advice="the catalog did not say whether it committed: the table is asked again before anything is done",
    ),
    kit.rule(
        r"Cannot commit rewrite because of|ValidationException|CommitFailedException|CommitConflict",
        "write-conflict", delay=FIRST_WAIT, longest_delay=LONGEST_WAIT,
        advice="a writer was faster: the next attempt plans anew",
    ),
    kit.table_missing(r"NoSuchTableException|NoSuchNamespaceException|Table does not exist", "Iceberg"),
    kit.class_missing(r"UnsupportedFileSystem|No FileSystem for scheme|Cannot initialize (Catalog|FileIO)"),
    kit.rule(r"(?<!Class)NotFoundException", "file-missing"),
)  # fmt: skip


def totals(effect: IcebergEffect) -> dict[str, Json]:
    return {"before": effect.parameters.get("seen") or {}, "after": effect.snapshot.totals()}


def removed_files(effect: IcebergEffect) -> dict[str, Json]:
    return kit.work_numbers(files_removed=effect.result.get("deleted_files"))
