# SPDX-License-Identifier: Apache-2.0
"""Thousands of tiny Hudi tables: real properties and a timeline with one completed instant, without data."""

from pathlib import Path

INSTANT = "20240501120000000"
COMPLETED = "20240501120001000"
PROPERTIES = """\
#Properties saved on 2024-05-01T12:00:00.000Z
hoodie.table.name={name}
hoodie.table.type=MERGE_ON_READ
hoodie.table.version=8
hoodie.table.initial.version=8
hoodie.timeline.layout.version=2
hoodie.timeline.path=timeline
hoodie.timeline.history.path=history
hoodie.table.recordkey.fields=id
hoodie.table.partition.fields=p
hoodie.table.precombine.field=ts
hoodie.table.base.file.format=PARQUET
hoodie.table.metadata.partitions=files
hoodie.record.merge.mode=EVENT_TIME_ORDERING
hoodie.table.checksum=1234567890
"""
STEPS = (
    f"{INSTANT}.deltacommit.requested",
    f"{INSTANT}.deltacommit.inflight",
    f"{INSTANT}_{COMPLETED}.deltacommit",
)


def make_tables(folder: Path, count: int) -> list[Path]:
    paths = [folder / f"d{number // 100:03d}" / f"events_{number:05d}" for number in range(count)]
    for path in paths:
        timeline = path / ".hoodie" / "timeline"
        timeline.mkdir(parents=True)
        (path / ".hoodie" / "hoodie.properties").write_text(PROPERTIES.format(name=path.name))
        for step in STEPS:
            (timeline / step).touch()
    return paths
