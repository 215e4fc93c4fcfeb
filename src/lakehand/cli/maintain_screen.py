# SPDX-License-Identifier: Apache-2.0
"""Shows one table's maintenance: what is to be done and why, how far it is, and the table before and after."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lakehand.cli.check_views import card
from lakehand.cli.problems import complain
from lakehand.cli.screen import console, data, joined
from lakehand.cli.times import span
from lakehand.cli.views import coloured, grid, listing_view
from lakehand.domain.texts import visible
from lakehand.spi.health import amount

if TYPE_CHECKING:
    from lakehand.app.checkup import Checked
    from lakehand.domain.actions import Action
    from lakehand.domain.operations import Operation

COMPARED = {
    "files": "files", "bytes": "bytes", "small_files": "small files", "delete_files": "delete files",
    "deletion_vectors": "deletion vectors", "log_files": "log files", "snapshots": "snapshots",
    "pending_plans": "pending plans", "rows": "rows",
}  # fmt: skip
SIZES = frozenset({"bytes"})
GOOD = frozenset({"succeeded", "dropped"})


class MaintainScreen:
    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.began = time.monotonic()
        self.out = console()
        self._bar: Progress | None = None
        self._bars: dict[int, TaskID] = {}
        self._told: dict[int, str] = {}

    def say(self, text: str) -> None:
        if not self.as_json:
            at = data(f"{time.monotonic() - self.began:6.1f} s", "dim")
            self.out.print(joined(at, f"  {text}"), soft_wrap=True)

    def show_decisions(self, before: "Checked", asked: "tuple[Action, ...]") -> None:
        if not self.as_json:
            self.out.print(card(before.document))
            if asked:
                self.out.print(f"asked for: {', '.join(asked)}")

    def end_without_work(self, before: "Checked") -> None:
        if self.as_json:
            print(json.dumps({"before": before.document, "after": before.document, "operations": []}, indent=2))
        elif not before.needs:
            self.out.print("nothing to do")

    @contextmanager
    def progress(self) -> Iterator[None]:
        if self.as_json or not self.out.is_terminal:
            yield
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[phase]}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.out) as self._bar:
            yield
        self._bar = None

    def on_change(self, operations: "Sequence[Operation]") -> None:
        for operation in operations:
            text = described(operation)
            if self._bar is not None:
                self._move(self._bar, operation, text)
            elif text != self._told.get(operation.id):
                self._told[operation.id] = text
                self.say(f"{operation.process.action}: {text}")

    def _move(self, bar: Progress, operation: "Operation", text: str) -> None:
        if operation.id not in self._bars:
            self._bars[operation.id] = bar.add_task(str(operation.process.action), total=None, phase="")
        done, total = tasks_of(operation)
        is_over = operation.status.is_final
        bar.update(
            self._bars[operation.id],
            phase=visible(text),
            total=1 if is_over else total,
            completed=1 if is_over else done,
        )
        if is_over:
            bar.stop_task(self._bars[operation.id])

    def show_outcome(self, before: "Checked", after: "Checked", done: "Sequence[Operation]", *, folder: Path) -> bool:
        """Whether all went well."""
        bad = [operation for operation in done if str(operation.status) not in GOOD]
        if self.as_json:
            print(json.dumps(outcome(before, after, done), indent=2))
        else:
            self.out.print()
            self.out.print(operations_table(done))
            for operation in done:
                if operation.result.get("would_delete") is not None:
                    self.out.print(listing_view(dict(operation.result)))
            self.out.print()
            self.out.print(comparison(before, after))
        for operation in bad:
            complain(advice(operation, folder))
        if after.problem:
            complain(f"the table cannot be read any more: {after.problem}")
        return not bad and not after.problem


def described(operation: "Operation") -> str:
    status, progress = operation.status, operation.progress
    if status.is_final:
        return f"{status}: {operation.reason}"
    if not status.is_live:
        return f"waits: {operation.reason}" if operation.reason else "waits"
    phase = progress.get("phase") or str(status)
    done, total = tasks_of(operation)
    return f"{phase} ({done} of {total} tasks)" if total else str(phase)


def tasks_of(operation: "Operation") -> tuple[int, int | None]:
    done, total = operation.progress.get("tasks_done"), operation.progress.get("tasks_total")
    return (done if isinstance(done, int) else 0), (total if isinstance(total, int) and total else None)


def operations_table(done: "Sequence[Operation]") -> Any:
    rows = grid("ACTION", "STATUS", "TOOK", "WHY")
    for one in done:
        begun = one.started_at or one.submitted_at
        took = span((one.finished_at - begun).total_seconds()) if begun and one.finished_at else "–"
        rows.add_row(str(one.process.action), coloured(str(one.status)), took, one.reason)
    return rows


def comparison(before: "Checked", after: "Checked") -> Any:
    rows = grid("", "BEFORE", "AFTER")
    for name, words in COMPARED.items():
        if name in before.numbers or name in after.numbers:
            rows.add_row(words, shown(name, before.numbers.get(name)), shown(name, after.numbers.get(name)))
    return rows


def shown(name: str, value: Any) -> str:
    if isinstance(value, int | float) and name in SIZES:
        return amount(value)
    return f"{value:,}" if isinstance(value, int) else "–"


def outcome(before: "Checked", after: "Checked", done: "Sequence[Operation]") -> dict[str, Any]:
    operations = [
        {
            "action": str(one.process.action),
            "status": str(one.status),
            "reason": one.reason,
            "attempts": one.run_times,
            "result": dict(one.result),
        }
        for one in done
    ]
    return {"before": before.document, "after": after.document, "operations": operations}


def advice(operation: "Operation", folder: Path) -> str:
    """Why it failed, and what to do next."""
    logs = f"its log is in {folder / 'engines'}"
    return f"{operation.process.action} ended {operation.status}: {operation.reason}; {logs}"
