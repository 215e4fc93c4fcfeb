# SPDX-License-Identifier: Apache-2.0
"""The charts of one table: its files over time with each operation, and the sizes of its files. Pure."""

from collections.abc import Mapping, Sequence

from lakehand.core.ports import OperationEnd
from lakehand.core.services.health import TableHistory
from lakehand.domain.health import HealthPoint
from lakehand.spi import health
from lakehand.web.charts import Annotation, Chart, Series
from lakehand.web.texts import iso

LINES = {
    "files": (health.FILES, "working"),
    "small files": (health.SMALL_FILES, "needs-work"),
    "delete files": (health.DELETE_FILES, "failed"),
    "deletion vectors": (health.DELETION_VECTORS, "failed"),
    "log files": (health.LOG_FILES, "unreadable"),
    "snapshots": (health.SNAPSHOTS, "paused"),
}
ANNOTATION_COLOURS = {"succeeded": "healthy", "failed": "failed"}
REWRITES = frozenset(
    {"compaction", "clustering", "log-compaction", "rewrite-data", "optimize", "z-order", "compact", "purge"}
)


def files_chart(history: TableHistory) -> Chart:
    points = history.points
    times = [iso(point.at) for point in points]
    series = [
        Series(name=name, colour=colour, x=times, y=[point.count(key) for point in points])
        for name, (key, colour) in LINES.items()
        if any(point.count(key) for point in points)
    ]
    return Chart(
        id="files", title="Files over time", unit="files", series=series,
        annotations=[annotation_of(end) for end in history.operations],
        nothing="The first point is stored when the table is inspected for the first time.",
    )  # fmt: skip


def annotation_of(end: OperationEnd) -> Annotation:
    text = f"{end.action} {end.status} (operation {end.id})"
    return Annotation(at=end.finished_at, text=text, colour=ANNOTATION_COLOURS.get(str(end.status), "paused"))


def sizes_chart(history: TableHistory) -> Chart:
    """The sizes now, and before the last rewrite that succeeded."""
    now = sizes(history.points[-1]) if history.points else {}
    before = sizes_before(history)
    series = [
        Series(name="before the last rewrite", colour="paused", x=list(before), y=list(before.values()), bars=True)
    ]
    series = [
        *(series if before else []),
        Series(name="now", colour="working", x=list(now), y=list(now.values()), bars=True),
    ]
    return Chart(
        id="sizes", title="File sizes", kind="category", unit="files", series=series, first_column="size",
        nothing="They are known when the table was inspected.",
    )  # fmt: skip


def sizes_before(history: TableHistory) -> Mapping[str, int]:
    rewrites = [end for end in history.operations if end.action in REWRITES and str(end.status) == "succeeded"]
    if not rewrites:
        return {}
    earlier: Sequence[HealthPoint] = [p for p in history.points if p.at < rewrites[-1].finished_at]
    return sizes(earlier[-1]) if earlier else {}


def sizes(point: HealthPoint) -> Mapping[str, int]:
    found = point.numbers.get(health.HISTOGRAM)
    counts = found if isinstance(found, Mapping) else {}
    return {name: count for name in health.SIZE_CLASSES if isinstance(count := counts.get(name), int)}
