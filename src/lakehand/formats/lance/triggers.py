# SPDX-License-Identifier: Apache-2.0
"""What a table needs now, with its numbers: fragments that Lance would merge, rows that are deleted, old versions."""

from datetime import timedelta

from lakehand.formats.lance import settings
from lakehand.formats.lance.fragments import FULL, Plan
from lakehand.formats.lance.settings import Floors, Goals
from lakehand.formats.lance.snapshot import CLEAN_VERSIONS, COMPACT, LanceSnapshot
from lakehand.spi import Action, Skip, TableConfig, TableProcess, TableRuntime, amount, pause

JOBS = {COMPACT: "lance.compact", CLEAN_VERSIONS: "lance.clean_versions"}
DRAG = 10  # one large fragment is not rewritten for the sake of others with less than a tenth of its bytes ...
MANY = 10  # ... unless they are this many times the number that is worth while


def decide(table: TableRuntime, snapshot: LanceSnapshot, action: Action, floors: Floors) -> TableProcess | Skip:
    answer = need(table, snapshot, action, floors)
    if isinstance(answer, Skip):
        return answer
    return TableProcess(action=action, job=JOBS[action], reason=answer)


def need(table: TableRuntime, snapshot: LanceSnapshot, action: Action, floors: Floors) -> str | Skip:
    """Why the action is needed, or why not."""
    if off := settings.switched_off(table.config, action):
        return Skip(reason=off)
    if action == COMPACT:
        return need_to_compact(snapshot, settings.goals(table.config, snapshot))
    return need_to_clean(table, snapshot, floors)


def need_to_compact(snapshot: LanceSnapshot, goals: Goals) -> str | Skip:
    plan = snapshot.plan(goals.target_rows, goals.deleted_share)
    share = f"{goals.deleted_share * 100:.3g} %"
    heavy = [f for f in plan.fragments if f.deleted_share > goals.deleted_share]
    merged = f"{len(plan.fragments)} of {len(snapshot.fragments)} fragments"
    if heavy:
        rows = sum(f.deleted for f in heavy)
        return (
            f"{len(heavy)} of {len(snapshot.fragments)} fragments have more than {share} of their rows deleted "
            f"({rows} rows): {merged} to rewrite, {amount(plan.bytes)}"
        )
    if why := why_too_few(plan, goals):
        return Skip(reason=f"{merged} can be merged: {why}; none has more than {share} of its rows deleted")
    return f"{merged} are under {goals.target_rows * FULL:.0f} rows and can be merged: {amount(plan.bytes)} to rewrite"


def why_too_few(plan: Plan, goals: Goals) -> str | None:
    count, largest = len(plan.fragments), max((f.bytes for f in plan.fragments), default=0)
    if count < goals.min_fragments:
        return f"{goals.min_fragments} make it worth while"
    if count < goals.min_fragments * MANY and (plan.bytes - largest) * DRAG < largest:
        return f"{amount(plan.bytes - largest)} are not worth rewriting the {amount(largest)} of the largest"
    return None


def need_to_clean(table: TableRuntime, snapshot: LanceSnapshot, floors: Floors) -> str | Skip:
    kept = settings.retention(table.config, floors)
    expired = snapshot.expired(table.now - kept.max_age, kept.versions)
    told = f"{len(expired)} of {len(snapshot.history)} versions are older than {days(kept.max_age)} and held by nothing"
    if len(expired) >= (needed := settings.min_versions(table.config)):
        return told
    why = f"{told}; {needed} make it worth while"
    return Skip(reason=f"{why}; {len(snapshot.held)} held by tags and branches" if snapshot.held else why)


def waiting(table: TableRuntime, action: Action) -> Skip | None:
    return pause(table, action, cool_down=cool_down(table.config, action))


def cool_down(config: TableConfig, action: Action) -> timedelta:
    return config.duration(f"lance.{action}.cool-down", timedelta(hours=6))


def days(span: timedelta) -> str:
    return f"{span.total_seconds() / 86400:.3g} days"
