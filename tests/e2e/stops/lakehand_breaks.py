# SPDX-License-Identifier: Apache-2.0
"""Jobs that are broken on purpose: each leaves a real commit of its operation that loses or changes rows."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Break = Callable[[Any], None]


def run_broken(job: Any, name: str) -> Any:
    """The real job, made wrong before it or right after it, with its rows compared as ever."""
    from lakehand.jobs.attempt import function_called
    from lakehand.jobs.rows import run_verified

    real, (before, after) = function_called(name), BREAKS[name.partition(".")[0]]

    def wrong(own: Any) -> Any:
        before(own)
        result = real(own)
        after(own)
        return result

    return run_verified(name, wrong, job)


def nothing(job: Any) -> None:
    """Nothing is broken here."""


def forget_a_log_file(job: Any) -> None:
    """The plan of a compaction loses the newest log file of a group: its update is not merged, and is lost for good."""
    from fastavro import reader, writer

    instant, timeline = job.parameters["instant"], Path(job.boundary.real) / ".hoodie" / "timeline"
    [file] = timeline.glob(f"{instant}.compaction.requested")
    with file.open("rb") as stream:
        plan: Any = reader(stream)
        [document], schema = list(plan), plan.writer_schema
    names = document["operations"][0]["deltaFilePaths"]
    names.remove(max(names, key=lambda name: name.rpartition("_")[0].rpartition(".log")[0].rpartition("_")[2]))
    with file.open("wb") as stream:
        writer(stream, schema, [document])
    (timeline / f".{file.name}.crc").unlink(missing_ok=True)


def delete_a_row(job: Any) -> None:
    """Delta: a commit with the tag of the operation, which the session gives to every commit."""
    from lakehand.jobs.delta.tables import table_name

    job.session.sql(f"DELETE FROM {table_name(job)} WHERE id = 7").collect()


def drop_a_data_file(job: Any) -> None:
    """Iceberg: a snapshot with the tag of the operation that is without one of the files."""
    from lakehand.jobs.iceberg import tables
    from lakehand.jobs.safety import operation_tag

    table = tables.load(job)
    file = table.newScan().planFiles().iterator().next().file()
    table.newDelete().deleteFile(file).set(tables.TAG, operation_tag(job.parameters)).commit()


def compact_to_nothing(job: Any) -> None:
    """Paimon: a compaction that takes files away and brings none."""
    from lakehand.jobs.paimon.rewrites import as_compaction, commit
    from lakehand.jobs.paimon.tables import target_of, user_of

    target = target_of(job)
    table = target.load(write_only="true")
    splits = list(table.newSnapshotReader().read().dataSplits())[:1]
    commit(table, f"{user_of(job)}_broken", as_compaction(target, splits, []))


def rewrite_with_another_value(job: Any) -> None:
    """Lance: a rewrite of all fragments in which one value is another one."""
    import lance
    import pyarrow as pa
    from lance import LanceOperation, Transaction
    from lance.fragment import write_fragments

    from lakehand.jobs.lance.commits import TAG
    from lakehand.jobs.safety import operation_tag

    dataset = lance.dataset(job.boundary.real)
    rows = dataset.to_table()
    wrong = pa.array([-1, *rows.column("v").to_pylist()[1:]], rows.schema.field("v").type)
    changed = rows.set_column(rows.schema.get_field_index("v"), "v", wrong)
    new = write_fragments(changed, dataset, mode="append")
    old = [fragment.metadata for fragment in dataset.get_fragments()]
    group = LanceOperation.RewriteGroup(old_fragments=old, new_fragments=list(new))
    rewrite = LanceOperation.Rewrite(groups=[group], rewritten_indices=[])
    tag = {TAG: operation_tag(job.parameters)}
    lance.LanceDataset.commit(
        dataset, Transaction(read_version=dataset.version, operation=rewrite, transaction_properties=tag)
    )


BREAKS: Mapping[str, tuple[Break, Break]] = {
    "hudi": (forget_a_log_file, nothing),
    "iceberg": (nothing, drop_a_data_file),
    "delta": (nothing, delete_a_row),
    "paimon": (nothing, compact_to_nothing),
    "lance": (nothing, rewrite_with_another_value),
}
