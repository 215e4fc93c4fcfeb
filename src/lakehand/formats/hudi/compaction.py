# SPDX-License-Identifier: Apache-2.0
"""Compaction: merges the log files of a merge-on-read table into its base files, and heals keys that stray by it.

Beside a pending compaction plan, an index that looks only into base files loses sight of keys that were deleted and
written again: see ``jobs/hudi/stray_keys.py``.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import islice

from lakehand.formats.hudi.context import HudiContext, HudiEffect
from lakehand.formats.hudi.locks import FILE_LOCK, PREFIX, PROVIDER, NoLock, shared_lock
from lakehand.formats.hudi.planned import PlannedAction, enough_commits, verify_plans
from lakehand.formats.hudi.snapshot import CLUSTERING, COMPACTION, HudiSnapshot
from lakehand.formats.hudi.timeline import in_order
from lakehand.formats.hudi.turns import clustering_first
from lakehand.formats.hudi.writers import INDEX_TYPE, write_stats, writers_index
from lakehand.spi import Finding, Instant, Json, Skip, TableConfig, TableProcess, Verdict, kit
from lakehand.spi.kit.conversions import fields, items
from lakehand.spi.kit.verdicts import not_done

DELTA_COMMITS = kit.count_setting(
    "hudi.compaction.delta-commits", "service scheduling: delta commits that make a compaction worth it", 5, floor=1
)
TRIGGER = kit.trigger_settings("hudi.compaction", "the oldest delta commit that is not compacted")
STRAY_KEYS = kit.choice_setting(
    "hudi.compaction.stray-keys",
    "what a compaction does about keys that an index of base files would not find after it (`lock`: as `heal`)",
    "heal", "lock", "none",
)  # fmt: skip
LOCK_LIMIT = kit.duration_setting(
    "hudi.compaction.lock-limit", "how long stray keys are looked for and compacted while the writers wait",
    timedelta(minutes=1), floor=timedelta(seconds=10),
)  # fmt: skip

HEAL, LOCK, NONE, REPORT = "heal", "lock", "none", "report"
# They know the file group of a key that is in a log file. All others look only into base files, or are not known.
SEE_LOGS = frozenset(
    {"BUCKET", "RECORD_INDEX", "RECORD_LEVEL_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", "HBASE", "FLINK_STATE"}
)
COMMITS_READ = 5  # delta commits, newest first
LEAST_LIMIT = timedelta(seconds=10)
BEFORE_EXPIRY = timedelta(minutes=1)
SEE = "see 'Stray keys' in docs/hudi.md"
DONE_ABOUT_IT = {
    HEAL: "Lakehand looks for such keys when it commits a compaction, and compacts again before the next write",
    REPORT: "no lock is shared with the writers, so Lakehand only counts such keys",
    NONE: f"{STRAY_KEYS.key}=none, so nothing is done about it",
}


def is_at_risk(snapshot: HudiSnapshot, config: TableConfig) -> bool:
    return snapshot.is_merge_on_read and writers_index(snapshot, config) not in SEE_LOGS


def deletes_in_logs(snapshot: HudiSnapshot) -> int:
    """Deletes that no compaction has merged yet, in the newest commits."""
    done = snapshot.instants_of(COMPACTION)
    since = in_order(done[-1]) if done else ""
    commits = (file for file in reversed(snapshot.timeline.completed("deltacommit")) if in_order(file.instant) > since)
    stats = write_stats(snapshot, islice(commits, COMMITS_READ))
    return sum(int(stat.get("numDeletes") or 0) for stat in stats)


def decide(context: HudiContext) -> kit.Need | Skip:
    return enough_commits(context, DELTA_COMMITS, TRIGGER)


def warning(context: HudiContext) -> str | None:
    """Why compactions of this table can make keys stray; None: they cannot, or there are no deletes."""
    snapshot, config = context.snapshot, context.table.config
    if not is_at_risk(snapshot, config) or not has_other_writers(config):
        return None
    if not (deletes := deletes_in_logs(snapshot)):
        return None
    index = writers_index(snapshot, config) or "not known, and SIMPLE unless they set one"
    return (
        f"{deletes} deletes are in log files, and the writers' index ({index}) looks only into base files: such a key, "
        "written again before the compaction is executed, can become two rows, or lose its next delete; "
        f"{DONE_ABOUT_IT[measure(context)]}; a record index, or for new tables a bucket index, has no such keys: set "
        f"{INDEX_TYPE.key} in the writers and in the table's properties here; {SEE}"
    )


def measure(context: HudiContext) -> str:
    """What is done about stray keys. Without a shared lock nothing can be: planning would race with the writer."""
    wanted = context.values[STRAY_KEYS]
    if wanted != NONE and isinstance(shared_lock(context.table.config), NoLock):
        return REPORT
    return HEAL if wanted == LOCK else wanted


def has_other_writers(config: TableConfig) -> bool:
    return shared_lock(config) != {}


def lock_limit(context: HudiContext) -> timedelta:
    """How long the lock may be held: well below the time after which others take a file lock for dead."""
    config, limit = context.table.config, context.values[LOCK_LIMIT]
    expiry = timedelta(minutes=config.number(f"{PREFIX}filesystem.expire", 0))
    if config.text(PROVIDER).endswith(FILE_LOCK.rpartition(".")[2]) and expiry:
        return max(LEAST_LIMIT, min(limit, expiry - BEFORE_EXPIRY))
    return limit


def limits(context: HudiContext) -> dict[str, Json]:
    """What the job of a compaction does about stray keys; empty where there can be none."""
    how, config = measure(context), context.table.config
    if how == NONE or not is_at_risk(context.snapshot, config) or not has_other_writers(config):
        return {}
    return {"stray_keys": how, "lock_limit": lock_limit(context).total_seconds()}


def unsearched(snapshot: HudiSnapshot, process: TableProcess) -> Instant | None:
    """The completed compaction of an attempt without a result: its driver may not have looked for stray keys after it.

    An attempt that has several plans searches after each, so that only the newest is in doubt.
    """
    own, before = process.parameters.get("instant"), process.parameters.get("before")
    if "stray_keys" not in process.parameters:
        return None
    new = (one for one in snapshot.instants_of(COMPACTION) if (one == own if own else one not in items(before)))
    newest = max(new, key=in_order, default=None)
    return newest if newest and may_have_deletes(snapshot, newest) else None


def may_have_deletes(snapshot: HudiSnapshot, plan: Instant) -> bool:
    """Whether its log files have deletes, by the commits that wrote them; a commit that is gone may have some."""
    operations = snapshot.requested_document(plan).get("operations") or ()
    left = {name.rpartition("/")[2] for one in operations for name in one.get("deltaFilePaths") or ()}
    for stat in write_stats(snapshot, reversed(snapshot.timeline.completed("deltacommit"))):
        if not left:
            break
        written = left & {str(stat.get("path") or "").rpartition("/")[2], *(stat.get("logFiles") or ())}
        if written and int(stat.get("numDeletes") or 0):
            return True
        left -= written
    return bool(left)


def about_stray_keys(result: Mapping[str, Json]) -> str:
    """What a compaction found, for people; empty when there were none."""
    counted = fields(result.get("stray_keys"))
    if not counted:
        return ""
    if counted.get("left") or not counted.get("found"):
        what = f"{counted['left']} keys are" if counted.get("left") else "it is not known whether keys are"
        return (
            f"; {what} in log files alone, and their next write can make a second row ({counted.get('why')}): compact "
            f"again before it; {SEE}"
        )
    return f"; {counted['found']} keys were in log files alone, and a second compaction took them into base files"


def why_impossible(context: HudiContext) -> str | None:
    return None if context.snapshot.is_merge_on_read else "a copy-on-write table has nothing to compact"


def verify(effect: HudiEffect) -> Verdict:
    verdict = verify_plans(effect)
    is_lost = verdict.finding is Finding.DONE and "instants" not in effect.result
    if is_lost and (instant := unsearched(effect.snapshot, effect.process)):
        return not_done(
            f"{verdict.reason}; nobody has looked yet whether {instant} left keys in log files alone; {SEE}"
        )
    return replace(verdict, reason=f"{verdict.reason}{about_stray_keys(effect.result)}")


ACTION = PlannedAction(
    name=COMPACTION, settings=(DELTA_COMMITS, *TRIGGER, STRAY_KEYS, LOCK_LIMIT, INDEX_TYPE), decide=decide,
    warning=warning, impossible=why_impossible, after=(CLUSTERING,), not_now=clustering_first, limits=limits,
    unfinished=unsearched, verify=verify, writes_base_files=True,
)  # fmt: skip
