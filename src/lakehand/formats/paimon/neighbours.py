# SPDX-License-Identifier: Apache-2.0
"""Who else works on a table: a writer that compacts, or changes of rows that Paimon does not check against us."""

from lakehand.formats.paimon import settings
from lakehand.formats.paimon.layout import Document
from lakehand.formats.paimon.schema import Kind
from lakehand.formats.paimon.snapshot import OURS, PaimonSnapshot
from lakehand.spi import TableConfig


def why_beside(snapshot: PaimonSnapshot, config: TableConfig) -> str | None:
    """Why a compaction could hurt a writer, or the rows."""
    if not config.flag(settings.BESIDE_WRITER, False) and (why := who_compacts(snapshot)):
        return f"{why}; to compact beside it: {settings.BESIDE_WRITER}=true"
    if not config.flag(settings.BESIDE_ROW_CHANGES, False) and (why := who_changes_rows(snapshot)):
        return (
            f"{why}. Paimon 0.9 does not check a DELETE, UPDATE or MERGE of a table without a key against a compaction "
            f"at the same time: rows would come back or double. If none runs meanwhile: "
            f"{settings.BESIDE_ROW_CHANGES}=true"
        )
    return None


def who_compacts(snapshot: PaimonSnapshot) -> str | None:
    """Without buckets no Spark writer compacts: there it is told by the history."""
    if snapshot.schema.is_write_only:
        return None
    if snapshot.schema.kind is not Kind.APPEND:
        return "its writers compact, since the table is not write-only, and the later of two compactions fails"
    others = [one for one in snapshot.recent if one.get("commitKind") == "COMPACT" and not is_ours(one)]
    if others:
        return f"a writer compacts: snapshot {others[0]['id']} is its work, and the table is not write-only"
    return None


def who_changes_rows(snapshot: PaimonSnapshot) -> str | None:
    if snapshot.schema.primary_keys:
        return None
    if snapshot.schema.has_deletion_vectors:
        return "the table has deletion vectors"
    for document in snapshot.recent:
        if document.get("commitKind") == "APPEND" and deleted(snapshot, document):
            return f"snapshot {document['id']} changed rows in place"
    return None


def deleted(snapshot: PaimonSnapshot, document: Document) -> int:
    try:
        return snapshot.manifests.deleted_files(document)
    except FileNotFoundError:  # expired since it was listed
        return 0


def is_ours(document: Document) -> bool:
    return str(document.get("commitUser")).startswith(OURS)
