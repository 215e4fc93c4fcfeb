# SPDX-License-Identifier: Apache-2.0
"""Options that make an execution treat a table as it is: with Hudi's defaults it would change it and hide commits."""

from collections.abc import Mapping

from lakehand.formats.hudi.snapshot import HudiSnapshot

KNOWN_VERSIONS = frozenset({6, 8, 9})  # what Hudi 1.2 writes without an upgrade
KNOWN_LAYOUTS = frozenset({1, 2})
KNOWN_BASE_FILES = frozenset({"PARQUET", "ORC"})

# An execution does its one thing: no other service, no call to the outside, no upgrade on the way.
ALONE: Mapping[str, str] = {
    "hoodie.write.auto.upgrade": "false",
    "hoodie.table.service.manager.enabled": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.clustering.inline": "false",
    "hoodie.clustering.schedule.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.clean.async.enabled": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.write.commit.callback.on": "false",
    "hoodie.embed.timeline.server": "false",  # it listens on all interfaces, for whoever comes
}

# Never build and never drop an index, and leave the metadata table's own compaction to the writer.
METADATA_AS_IT_IS: Mapping[str, str] = {
    "hoodie.metadata.index.async": "true",
    "hoodie.metadata.auto.delete.partitions": "false",
    "hoodie.metadata.compact.max.delta.commits": "1000000",
}

_COLUMN_STATS = "hoodie.metadata.index.column.stats.column.list"
_RECORD_INDEX_SWITCHES = ("hoodie.metadata.global.record.level.index.enable", "hoodie.metadata.record.index.enable")
_PARTITIONED_RECORD_INDEX_SWITCH = "hoodie.metadata.record.level.index.enable"
_SWITCHES = {
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "expr_index_": "hoodie.metadata.index.expression.enable",
    "secondary_index_": "hoodie.metadata.index.secondary.enable",
}

# What the table calls it → what a writer calls it.
_SAME_THING = {
    "hoodie.table.recordkey.fields": ("hoodie.datasource.write.recordkey.field",),
    "hoodie.table.partition.fields": ("hoodie.datasource.write.partitionpath.field",),
    "hoodie.table.precombine.field": ("hoodie.datasource.write.precombine.field",),
    "hoodie.table.ordering.fields": ("hoodie.datasource.write.precombine.field",),
    "hoodie.compaction.payload.class": ("hoodie.datasource.write.payload.class", "hoodie.compaction.payload.class"),
    "hoodie.record.merge.mode": ("hoodie.write.record.merge.mode",),
    "hoodie.record.merge.strategy.id": ("hoodie.write.record.merge.strategy.id",),
    "hoodie.table.keygenerator.class": ("hoodie.datasource.write.keygenerator.class",),
    "hoodie.table.keygenerator.type": ("hoodie.datasource.write.keygenerator.type",),
}
_KEY_GENERATORS = {
    "SIMPLE": "SimpleKeyGenerator",
    "COMPLEX": "ComplexKeyGenerator",
    "TIMESTAMP": "TimestampBasedKeyGenerator",
    "CUSTOM": "CustomKeyGenerator",
    "NON_PARTITION": "NonpartitionedKeyGenerator",
    "GLOBAL_DELETE": "GlobalDeleteKeyGenerator",
}


def why_unknown(table: HudiSnapshot, versions: frozenset[int] = KNOWN_VERSIONS) -> str | None:
    """Why our engine's Hudi must not touch this table; None when it knows all that the table uses."""
    if table.version not in versions:
        known = ", ".join(str(version) for version in sorted(versions))
        return f"the table has hoodie.table.version {table.version}; this service writes versions {known}"
    if table.layout not in KNOWN_LAYOUTS:
        return f"the table has timeline layout {table.layout}; this service knows 1 and 2"
    if (kind := table.properties.get("hoodie.table.format", "native")) != "native":
        return f"the table's format is {kind!r}; this service knows 'native'"
    if (files := table.properties.get("hoodie.table.base.file.format", "PARQUET").upper()) not in KNOWN_BASE_FILES:
        return f"the table's base files are {files}; this service knows {', '.join(sorted(KNOWN_BASE_FILES))}"
    unknown = [name for name in table.metadata_partitions if not is_known_index(name)]
    return f"the table has the metadata index {unknown[0]!r}, which this service does not know" if unknown else None


def is_known_index(name: str) -> bool:
    return name in ("files", "record_index") or any(has_index(kind, (name,)) for kind in _SWITCHES)


def writer_options(table: HudiSnapshot) -> dict[str, str]:
    """All options of an execution that come from the table itself."""
    return {**ALONE, "hoodie.write.table.version": str(table.version), **identity(table.properties), **metadata(table)}


def identity(properties: Mapping[str, str]) -> dict[str, str]:
    """Keys, ordering and merging, under the names that a writer reads."""
    options: dict[str, str] = {}
    for key, names in _SAME_THING.items():
        if properties.get(key):
            options.update(dict.fromkeys(names, properties[key]))
    generator = _KEY_GENERATORS.get(properties.get("hoodie.table.keygenerator.type", ""))
    if generator:
        options.setdefault("hoodie.datasource.write.keygenerator.class", f"org.apache.hudi.keygen.{generator}")
    return options


def metadata(table: HudiSnapshot) -> dict[str, str]:
    """The metadata table and each index: on when the table has it, off when not."""
    present = table.metadata_partitions
    return {
        **METADATA_AS_IT_IS,
        "hoodie.metadata.enable": on_off("files" in present),
        **{switch: on_off(has_index(kind, present)) for kind, switch in _SWITCHES.items()},
        **column_stats(table),
        **record_index(table),
    }


def column_stats(table: HudiSnapshot) -> dict[str, str]:
    """Exactly the columns that are indexed. Hudi 1.2 has one switch for this index and the partitions' one.

    A table with only this one has the switch off: an index that is there is kept up to date all the same, and never
    dropped, since ``auto.delete.partitions`` is off.
    """
    present = table.metadata_partitions
    columns = (table.index_definitions.get("column_stats") or {}).get("sourceFields") or ()
    own = [column for column in columns if not column.startswith("_hoodie_")]
    both = "partition_stats" in present or not table.properties.get("hoodie.table.partition.fields")
    switch = {_SWITCHES["column_stats"]: on_off("column_stats" in present and both)}
    return {**switch, _COLUMN_STATS: ",".join(own)} if own else switch


def record_index(table: HudiSnapshot) -> dict[str, str]:
    has_it = "record_index" in table.metadata_partitions
    definition = table.index_definitions.get("record_index") or {}
    partitioned = str((definition.get("indexOptions") or {}).get("isPartitioned", "false")) == "true"
    return {
        **dict.fromkeys(_RECORD_INDEX_SWITCHES, on_off(has_it and not partitioned)),
        _PARTITIONED_RECORD_INDEX_SWITCH: on_off(has_it and partitioned),
    }


def has_index(kind: str, present: tuple[str, ...]) -> bool:
    return any(name.startswith(kind) if kind.endswith("_") else name == kind for name in present)


def on_off(value: bool) -> str:
    return "true" if value else "false"
