# SPDX-License-Identifier: Apache-2.0
"""What the actions of Lance share: their context, known failures, and what every verdict tells."""

from datetime import timedelta

from lakehand.formats.lance.snapshot import LanceSnapshot
from lakehand.spi import Json, Remedy, kit
from lakehand.spi.kit import SettingRow
from lakehand.spi.kit.conversions import fields, whole_number

VERSIONS_READ = 10_000  # versions
LanceContext = kit.DecisionContext[LanceSnapshot]
LanceEffect = kit.Effect[LanceSnapshot]
RULES = (
    kit.rule(r"LiveFileInDanger", "live-file", Remedy.FATAL, advice="nothing was deleted: report this table to us"),
    kit.rule(
        r"ConditionsIgnored", "conditions-ignored", Remedy.FATAL,
        advice="use a store that keeps If-None-Match, or let the table's writers compact it",
    ),
    kit.rule(
        r"commit conflict|CommitConflictError|incompatible transaction|preempted by|too many concurrent writers",
        "write-conflict", delay=timedelta(minutes=1), advice="a writer committed first; the next attempt plans anew",
    ),
    kit.rule(
        r"No module named '?lance|ModuleNotFoundError", "library-missing", Remedy.FATAL,
        advice="pylance must be installed where the driver and its executors run",
    ),
    kit.table_missing(r"Dataset at path .{0,1024} was not found|TableNotFound", "Lance"),
    kit.rule(r"Not found|NoSuchFile|FileNotFound", "file-missing", advice="a file went while it was read"),
)  # fmt: skip


def cool_down(action: str) -> SettingRow[timedelta]:
    return kit.duration_setting(
        f"lance.{action}.cool-down", "pause after a run that changed nothing", timedelta(hours=6)
    )


def why_gone(effect: LanceEffect) -> str | None:
    before, version = whole_number(effect.parameters.get(kit.BEFORE)), effect.snapshot.version
    return (
        f"version {before} was seen and the latest is {version}: the table was made anew" if version < before else None
    )


def change(effect: LanceEffect) -> dict[str, Json]:
    return {
        **{f"{key}_before": value for key, value in fields(effect.parameters.get("seen")).items()},
        **{f"{key}_after": value for key, value in effect.snapshot.totals().items()},
    }
