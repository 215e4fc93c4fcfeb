# SPDX-License-Identifier: Apache-2.0
"""Renders tables, their health, operations and explanations for a terminal. Pure: a document in, a renderable out."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lakehand.client import FINAL, Document
from lakehand.domain.texts import amount, visible
from lakehand.output import data, join, took, when

COLOURS = {
    "pending": "yellow",
    "submitted": "cyan",
    "running": "cyan",
    "canceling": "magenta",
    "unknown": "magenta",
    "succeeded": "green",
    "failed": "red",
    "canceled": "dim",
    "dropped": "dim",
    "on": "green",
    "off": "dim",
    "broken": "red",
    "failing": "red",
    "stuck": "red",
    "slow": "yellow",
}
LISTED = 50  # files of a dry run that are shown
BRIEF = 160  # characters of a reason in a list
HEALTH_COLOURS = {"healthy": "green", "needs": "yellow", "broken": "red"}
BAR = 20  # columns
SHOWN = frozenset(
    {
        "files", "bytes", "small_files", "small_bytes", "histogram", "delete_files", "deletion_vectors", "log_files",
        "log_bytes", "snapshots", "oldest_snapshot", "savepoints", "pending_plans", "oldest_pending", "rows",
    }
)  # fmt: skip


def coloured(word: str) -> Text:
    return data(word, COLOURS.get(word, ""))


def brief(text: str) -> str:
    """A reason for a list: errors of engines can fill a screen, so only their first sentence."""
    if len(text) <= BRIEF and "\n" not in text.strip():
        return text.strip()
    sentence = re.split(r"(?<=[.!?])\s|\n", text.strip(), maxsplit=1)[0]
    return f"{sentence[:BRIEF].rstrip()} …"


def grid(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        words = column in ("NOW", "WHY", "FAILURE", "")
        table.add_column(column, no_wrap=not words, overflow="fold")
    return table


def facts(pairs: Iterable[tuple[str, str | Text]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            table.add_row(name, value)
    return table


def name_of(table: Document) -> str:
    return visible(f"{table['db_name']}.{table['table_name']}" if table.get("db_name") else table["table_name"])


def tables_view(document: Document) -> RenderableType:
    if not document["items"]:
        return Text("no tables: register one with lakehand tables add LOCATION")
    rows = grid("ID", "TABLE", "FORMAT", "ACTIONS", "SCHEDULING", "OWNER", "QUEUE", "CHANGED", "CHECKED")
    for table in document["items"]:
        paused = data(" (paused)", "yellow") if table.get("paused") else ""
        unreadable = data(" (unreadable)", "red") if table.get("problem") else ""
        name = join(name_of(table), paused, unreadable)
        rows.add_row(
            str(table["id"]), name, table["format"], ", ".join(table["action_types"]),
            table["scheduling"], table["owner"], table["queue"], when(table.get("changed_at")),
            when(table.get("probed_at")),
        )  # fmt: skip
    return with_more(rows, document)


def limited(items: list[Document], limit: int) -> Document:
    """The document of a list of which one more item than the limit was requested."""
    return {"items": items[:limit], "next": "more" if len(items) > limit else None}


def with_more(rows: Table, document: Document) -> RenderableType:
    return Group(rows, Text("there are more: raise --limit", style="dim")) if document.get("next") else rows


def table_view(table: Document) -> RenderableType:
    properties = "\n".join(visible(f"{key} = {value}") for key, value in sorted(table.get("properties", {}).items()))
    return facts(
        [
            ("table", f"{name_of(table)} (id {table['id']}, {table['format']})"),
            ("location", data(table["location"])),
            ("actions", ", ".join(table["action_types"])),
            ("scheduling", table["scheduling"]),
            ("owner, queue", f"{table['owner']}, {table['queue']}"),
            ("priority", str(table["priority"])),
            ("heartbeat timeout", f"{table['heartbeat_timeout']:g} s"),
            ("state", data("paused", "yellow") if table.get("paused") else "active"),
            ("paused because", data(table.get("pause_reason") or "", "red")),
            ("problem", problem_text(table)),
            ("health", health_text(table.get("health") or {})),
            ("properties", properties),
            ("notified", when(table.get("notified_at"))),
            ("changed", when(table.get("changed_at"))),
            ("checked", when(table.get("probed_at"))),
            ("registered", when(table.get("created_at"))),
        ]
    )


def problem_text(table: Document) -> Text:
    since = f" ({when(table['problem_since'])})" if table.get("problem_since") else ""
    return data(f"{table['problem']}{since}", "red") if table.get("problem") else Text()


def health_text(point: Document) -> str:
    """The newest numbers: 120 files (5.0 GB), 40 small (8.0 MB), 3 min ago."""
    numbers = point.get("numbers", {})
    words = {"files": "files", "small_files": "small"}
    sizes = {name: numbers.get(name.replace("files", "bytes")) for name in words}
    parts = [
        f"{numbers[name]:,} {word}" + (f" ({amount(sizes[name])})" if sizes[name] is not None else "")
        for name, word in words.items()
        if name in numbers
    ]
    return ", ".join([*parts, when(point["at"])]) if parts else ""


def operations_view(document: Document) -> RenderableType:
    if not document["items"]:
        return Text("no operations")
    rows = grid("ID", "TABLE", "ACTION", "INSTANT", "STATUS", "ATTEMPTS", "AGE", "WHY")
    for one in document["items"]:
        rows.add_row(
            str(one["id"]), name_of(one["table"]), one["action"], one["instant"], status_of(one),
            str(one["attempts"]), when(one["created_at"]), brief(one.get("reason") or ""),
        )  # fmt: skip
    return with_more(rows, document)


def status_of(operation: Document) -> Text:
    percent = (operation.get("progress") or {}).get("percent")
    live = operation["status"] not in FINAL
    return join(coloured(operation["status"]), f" {percent:.0f} %" if live and percent is not None else "")


def operation_view(operation: Document) -> RenderableType:
    parts: list[RenderableType] = [operation_facts(operation)]
    if (operation.get("result") or {}).get("would_delete") is not None:
        parts += [Text(), listing_view(operation["result"])]
    if operation.get("attempt_list"):
        attempts = operation["attempt_list"]
        parts += [Text(), attempts_view(attempts), *external_ids(attempts), *long_failures(operation)]
    if operation.get("events"):
        parts += [Text(), events_view(operation["events"])]
    return Group(*parts)


def listing_view(result: Document) -> RenderableType:
    """What a dry run would delete."""
    listed = result["would_delete"]
    count, size = result.get("would_delete_files", len(listed)), result.get("would_delete_bytes")
    head = f"would delete {count} files" + (f", {amount(size)}" if size else "")
    more = [f"... and {count - LISTED} more: --json has up to 1000"] if count > LISTED else []
    return Group(Text(head, style="bold"), *(data(path) for path in listed[:LISTED]), *map(Text, more))


def operation_facts(operation: Document) -> Table:
    failure = failure_of(operation)
    return facts(
        [
            ("operation", f"{operation['id']}, {operation['action']} of {name_of(operation['table'])}"),
            ("location", data(operation["table"]["location"])),
            ("instant", operation["instant"]),
            ("status", coloured(operation["status"])),
            ("why", operation.get("reason") or ""),
            ("progress", progress_text(operation)),
            ("queue", data(queue_text(operation))),
            ("next attempt", when(operation["next_try"]) if operation.get("next_try") else ""),
            ("retries", "" if operation.get("retry_on_error", True) else "none after an error"),
            ("failure", f"{failure['reason']}: {failure['message']}" if failure else ""),
            ("rows", rows_text((operation.get("result") or {}).get("verified_rows") or {})),
            ("result", plain(operation.get("result") or {})),
            ("created", when(operation["created_at"])),
            ("took", took(operation.get("started_at"), operation.get("finished_at"))),
        ]
    )


def queue_text(operation: Document) -> str:
    if "queue" not in operation:
        return ""
    return f"{operation['queue']}, of {operation['owner']}, priority {operation['priority']}"


def rows_text(report: Document) -> Text:
    """Whether the rows are the same before and after, with the numbers of both."""
    outcome = str(report.get("outcome") or "")
    lines = [f"{outcome}: {report.get('reason')}"] if outcome else []
    for name in ("before", "after"):
        if found := report.get(name):
            value = f", checksum {found['checksum']}" if found.get("checksum") else ""
            lines.append(f"{name}: {found['rows']} rows at {found['state']}, from {found['from']}{value}")
    return data("\n".join(lines), "red" if outcome == "unequal" else "")


def failure_of(operation: Document) -> Document:
    """A succeeded operation keeps the failure of an earlier attempt, which is not its own."""
    return {} if operation["status"] == "succeeded" else operation.get("failure") or {}


def external_ids(attempts: Sequence[Document]) -> list[RenderableType]:
    """Where the attempts ran: an id as the cluster has it, and a page about it."""
    rows = [
        (f"attempt {one['number']} ran as", data(f"{one['external_id']}  {one.get('external_url') or ''}".rstrip()))
        for one in attempts
        if one.get("external_id")
    ]
    return [Text(), facts(rows)] if rows else []


def long_failures(operation: Document) -> list[RenderableType]:
    """The whole texts of failures that the list of attempts shortens, except the one that is shown already."""
    shown = failure_of(operation).get("message")
    texts = {
        f"attempt {one['number']}": (one.get("failure") or {}).get("message", "") for one in operation["attempt_list"]
    }
    long = [(name, text) for name, text in texts.items() if text != shown and brief(text) != text.strip()]
    return [Text(), facts(long)] if long else []


def progress_text(operation: Document) -> str:
    progress = operation.get("progress") or {}
    if operation["status"] in FINAL or not progress:
        return ""
    total = progress.get("tasks_total")
    tasks = f", {progress.get('tasks_done', 0)} of {total} tasks" if total else ""
    return f"{progress.get('phase', '')}{tasks}"


def attempts_view(attempts: Sequence[Document]) -> Table:
    rows = grid("ATTEMPT", "ENGINE", "STARTED", "TOOK", "OUTCOME", "FAILURE")
    for one in attempts:
        failure = one.get("failure") or {}
        rows.add_row(
            str(one["number"]), one["engine"], when(one["started_at"]), took(one["started_at"], one.get("finished_at")),
            coloured(one.get("outcome") or ""), brief(failure.get("message", "")),
        )  # fmt: skip
    return rows


def events_view(events: Sequence[Document]) -> Table:
    rows = grid("WHEN", "EVENT", "")
    for one in events:
        times = data(f" ({one['times']} times)", "dim") if one.get("times", 1) > 1 else ""
        rows.add_row(when(one["at"]), one["kind"], join(brief(one["message"]), times))
    return rows


def explanation_view(document: Document) -> RenderableType:
    table = document["table"]
    head = facts(
        [
            ("table", f"{name_of(table)} (id {table['id']})"),
            ("now", document["summary"]),
            ("problem", problem_text(table)),
            ("health", health_text(table.get("health") or {})),
            ("next evaluation", when(document.get("next_evaluation"))),
        ]
    )
    rows = grid("ACTION", "WANTED", "NOW", "DECIDED", "LAST START", "NEXT")
    for one in document["actions"]:
        rows.add_row(
            one["action"], "yes" if one["wanted"] else "no", brief(one["now"]), when(one.get("last_decision")),
            when(one.get("last_start")), when(one.get("next_evaluation")),
        )  # fmt: skip
    parts: list[RenderableType] = [head, Text(), rows]
    if document.get("events"):
        parts += [Text(), events_view(document["events"][:10])]
    return Group(*parts)


def plain(values: Document) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if not isinstance(value, dict | list))


def card(document: Document) -> RenderableType:
    """All details of one table."""
    state = data(document["state"], HEALTH_COLOURS[document["state"]])
    head = facts(
        [
            ("table", join(document["name"], f" ({document['format']}, ", state, ")")),
            ("location", data(document["location"])),
            ("", data(f"can also be read as {', '.join(document['also'])}", "dim") if document["also"] else ""),
            ("problem", document["problem"] or ""),
            *health(document["numbers"]),
        ]
    )
    return Group(head, Text(), decisions(document), Text()) if document["actions"] else Group(head, Text())


def decisions(document: Document) -> RenderableType:
    rows = grid("ACTION", "NEEDED", "WHY")
    for one in document["actions"]:
        by_service = " (with --scheduling service)" if one.get("scheduling") == "service" and one["needed"] else ""
        needed = data("yes", "yellow") if one["needed"] else "no"
        rows.add_row(one["action"], needed, one["reason"] + by_service)
    return rows


def health(numbers: Document) -> Iterator[tuple[str, str]]:
    """Rows of label and text, in the same order for all formats."""
    yield "files", ", ".join(file_words(numbers))
    yield "sizes", histogram(numbers.get("histogram") or {})
    yield "deletes", ", ".join(counts(numbers, delete_files="delete files", deletion_vectors="deletion vectors"))
    yield "logs", f"{numbers['log_files']} log files{sized(numbers, 'log_bytes')}" if numbers.get("log_files") else ""
    yield "rows", f"{numbers['rows']:,}" if isinstance(numbers.get("rows"), int) else ""
    yield "snapshots", dated(numbers, "snapshots", "oldest_snapshot")
    yield "savepoints", savepoints(numbers)
    yield "pending plans", dated(numbers, "pending_plans", "oldest_pending")
    yield "other", others(numbers)


def file_words(numbers: Document) -> Iterator[str]:
    if "files" in numbers:
        yield some(numbers["files"], "files") + sized(numbers, "bytes")
    if numbers.get("small_files"):
        yield f"{numbers['small_files']} of them small{sized(numbers, 'small_bytes')}"


def sized(numbers: Document, name: str) -> str:
    return f" ({amount(numbers[name])})" if numbers.get(name) else ""


def counts(numbers: Document, **names: str) -> Iterator[str]:
    return (some(numbers[name], words) for name, words in names.items() if numbers.get(name))


def some(count: int, words: str) -> str:
    return f"{count} {words if count != 1 else words.removesuffix('s')}"


def dated(numbers: Document, count: str, oldest: str) -> str:
    if numbers.get(count) is None:
        return ""
    since = f", the oldest {when(numbers[oldest])}" if numbers.get(oldest) else ""
    return f"{numbers[count]}{since}"


def savepoints(numbers: Document) -> str:
    """Their instants; Lakehand never removes one, nor the files that it holds."""
    if not numbers.get("savepoints"):
        return ""
    found = str(numbers["savepoints"]).split(",")
    return f"{len(found)}, whose files every action keeps: {', '.join(found)}"


def histogram(classes: Document) -> str:
    """A bar for each size class that has files."""
    most = max((count for count in classes.values()), default=0)
    bars = [f"{name:>11} {'█' * max(1, round(BAR * n / most))} {n}" for name, n in classes.items() if n]
    return "\n".join(bars)


def others(numbers: Document) -> str:
    return plain({name.replace("_", " "): value for name, value in numbers.items() if name not in SHOWN and value})


def health_line(document: Document) -> Text:
    """One table of a list."""
    state, numbers = document["state"], document["numbers"]
    needed = [one["action"] for one in document["actions"] if one["needed"]]
    words = [*file_words(numbers), *counts(numbers, delete_files="delete files", deletion_vectors="deletion vectors")]
    words += counts(numbers, log_files="log files", pending_plans="pending plans")
    wanted = join(data(", ".join(needed), "yellow"), ": ") if needed else ""
    details = brief(document["problem"] or "") or ", ".join(words)
    where = document["location"] if ":" not in document["name"] else document["name"]
    shape = document["format"] or "?"
    return join(data(f"{state:<8}", HEALTH_COLOURS[state]), f" {shape:<8} {where}  ", wanted, details)


def list_counts(counts: Counter[str]) -> str:
    listed = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    return f" ({listed})" if listed else ""
