# SPDX-License-Identifier: Apache-2.0
"""Whether a table is worth z-ordering: by how much of each partition was written since the last time."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehand.formats.delta import partitions, settings
from lakehand.formats.delta.clusters import CLUSTERED, Clusters, clusters_of
from lakehand.formats.delta.files import Partition
from lakehand.formats.delta.look import Look, Need
from lakehand.formats.delta.optimize import MAX_BYTES, UNCLUSTERED_SHARE
from lakehand.formats.delta.settings import Z_ORDER
from lakehand.formats.delta.snapshot import MB, DeltaSnapshot
from lakehand.spi import Skip, amount

MIN_BYTES = 256 * MB  # a smaller partition is one file or two, in which no order can leave anything out


@dataclass(slots=True, kw_only=True)
class Share:
    """How much of a partition is in order."""

    partition: Partition
    files: int = 0
    size: int = 0
    loose_files: int = 0
    loose_size: int = 0


def decide(look: Look) -> Need | Skip:
    columns = settings.z_order_columns(look.config, look.options.get("columns"))
    if why := why_impossible(look.snapshot, columns):
        return Skip(reason=why)
    if look.by_person:
        return need(look, columns, f"asked for; {amount(look.snapshot.size)} to rewrite", None)
    least = look.config.number("delta.z-order.min-bytes", MIN_BYTES)
    if look.snapshot.size < least:
        return Skip(reason=f"{amount(look.snapshot.size)} in all; {amount(least)} in a partition would be worth it")
    clusters = clusters_of(look.snapshot, columns, look.table.state(CLUSTERED))
    return decide_by_share(look, columns, shares_of(look.snapshot, clusters), least)


def decide_by_share(look: Look, columns: Sequence[str], shares: Sequence[Share], least: int) -> Need | Skip:
    wanted = look.config.ratio("delta.z-order.unclustered-share", UNCLUSTERED_SHARE)
    loose, files = sum(one.loose_files for one in shares), sum(one.files for one in shares)
    size, total = sum(one.loose_size for one in shares), sum(one.size for one in shares)
    told = (
        f"{loose} of {files} files with {amount(size)} of {amount(total)} are not in the order of {', '.join(columns)}"
    )
    due = [one for one in shares if one.size >= least and one.loose_size and one.loose_size >= wanted * one.size]
    if not due:
        where = f"no partition of at least {amount(least)} has" if len(shares) > 1 else "not"
        return Skip(reason=f"{told}: {where} {wanted:.0%} of it")
    chosen = within(due, look.config.number("delta.z-order.max-bytes", MAX_BYTES))
    rewritten = amount(sum(one.size for one in chosen))
    where = f" in {len(chosen)} of {len(shares)} partitions" if len(shares) > 1 else ""
    return need(look, columns, f"{told}: {rewritten} to rewrite{where}", [one.partition for one in chosen])


def need(look: Look, columns: Sequence[str], reason: str, chosen: Sequence[Partition] | None) -> Need:
    target = settings.target_bytes(look.config, look.snapshot, Z_ORDER, look.options.get("target_file_bytes"))
    return Need(
        reason=reason,
        parameters={
            "columns": list(columns),
            "small_bytes": target,
            "target_bytes": target,
            "partitions": partitions.named(look.snapshot, chosen) if chosen is not None else None,
        },
    )


def why_impossible(snapshot: DeltaSnapshot, columns: Sequence[str]) -> str | None:
    if not columns:
        return "delta.z-order.columns names no columns"
    if snapshot.clustering_columns:
        return f"the table has liquid clustering by {', '.join(snapshot.clustering_columns)}: optimize keeps it"
    if not snapshot.files:
        return "the table has no files"
    known = {str(column.get("name")).lower() for column in snapshot.schema}
    missing = [column for column in columns if column.split(".")[0].lower() not in known]
    if missing:
        return f"the columns to order by include {', '.join(missing)}, which the table does not have"
    ordered = {column.lower() for column in snapshot.partition_columns}
    if by_partition := [column for column in columns if column.lower() in ordered]:
        return f"{', '.join(by_partition)} is a partition column: files cannot be ordered by it"
    return None


def shares_of(snapshot: DeltaSnapshot, clusters: Clusters) -> list[Share]:
    shares: dict[Partition, Share] = {}
    for file in snapshot.files.values():
        share = shares.setdefault(file.partition, Share(partition=file.partition))
        is_loose = not clusters.hold(file)
        share.files += 1
        share.size += file.size
        share.loose_files += is_loose
        share.loose_size += file.size if is_loose else 0
    return list(shares.values())


def within(due: Sequence[Share], most: int) -> list[Share]:
    """The partitions with the most to order, as many as one run may rewrite; the next run takes the others."""
    chosen: list[Share] = []
    size = 0
    for share in sorted(due, key=lambda one: -one.loose_size)[: partitions.MOST]:
        if chosen and size + share.size > most:
            break
        chosen.append(share)
        size += share.size
    return chosen
