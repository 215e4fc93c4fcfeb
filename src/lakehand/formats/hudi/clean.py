# SPDX-License-Identifier: Apache-2.0
"""Clean: deletes files that newer ones have replaced, as far as nobody may still read them."""

from lakehand.formats.hudi.context import HudiContext
from lakehand.formats.hudi.locks import FAILED_WRITES, MODE, is_lazy
from lakehand.formats.hudi.planned import PlannedAction, enough_commits, verify_plans
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION
from lakehand.formats.hudi.timeline import WRITES
from lakehand.formats.hudi.turns import compaction_first
from lakehand.spi import Json, Skip, kit

COMMITS = kit.count_setting("hudi.clean.commits", "commits that make a clean worth it", 10, floor=1)
TRIGGER = kit.trigger_settings("hudi.clean", "the oldest commit since the last clean")
RETAIN = kit.retained_count_setting("hudi.clean.retain-commits", "commits whose files stay readable", 10, 2)


def decide(context: HudiContext) -> kit.Need | Skip:
    need, retained = enough_commits(context, COMMITS, TRIGGER), context.values[RETAIN]
    commits = len(context.snapshot.timeline.completed(*WRITES))
    if commits <= retained and (isinstance(need, kit.Need) or need.look_again):  # which no time changes
        return Skip(reason=f"{commits} commits, and {retained} are retained")
    return need


def limits(context: HudiContext) -> dict[str, Json]:
    return {"retain_commits": context.values[RETAIN]}


def options(context: HudiContext) -> dict[str, str]:
    """A clean under LAZY rolls back every write without a heartbeat, and most single writers send none.

    So failed writes are left alone, unless the table says that its writers work under LAZY too.
    """
    return {} if is_lazy(context.table.config) else {MODE: "single_writer", FAILED_WRITES: "NEVER"}


ACTION = PlannedAction(
    name=CLEAN, settings=(COMMITS, *TRIGGER, RETAIN), decide=decide, after=(CLUSTERING, COMPACTION),
    not_now=compaction_first, limits=limits, options=options, verify=verify_plans,
)  # fmt: skip
