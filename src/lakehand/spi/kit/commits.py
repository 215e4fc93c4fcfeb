# SPDX-License-Identifier: Apache-2.0
"""Where two drivers may commit to one table at once: a lost commit shows no error, so that doubt is a refusal."""

from lakehand.domain.locations import storage_scheme
from lakehand.spi.kit.rows import SettingRow, flag_setting

LOCAL = ""
# One of two that rename to the same name fails. Object stores overwrite instead.
ATOMIC_RENAME = frozenset({LOCAL, "hdfs", "viewfs"})


def only_writer_setting(format: str, **more: tuple[str, ...]) -> SettingRow[bool]:
    return flag_setting(
        f"{format}.only-writer",
        "nobody but Lakehand writes to the table, so that its commits need no protection from those of others", False,
        **more,
    )  # fmt: skip


def commit_risk(location: str, safe: frozenset[str], only_writer: SettingRow[bool], *, what: str, way_out: str) -> str:
    """Empty where commits are safe. ``what`` happens to two commits, and the ``way_out``, are the format's to say."""
    scheme = storage_scheme(location)
    if scheme in safe:
        return ""
    return (
        f"on {scheme}:// {what}, without an error, when a writer commits at the same moment. {way_out}; "
        f"or set {only_writer.key}=true for this table if nobody but Lakehand writes to it"
    )
