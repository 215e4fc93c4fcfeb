# SPDX-License-Identifier: Apache-2.0
"""What the actions of Hudi share: their context, settings, switches and known failures."""

from datetime import timedelta

from lakehand.formats.hudi import properties
from lakehand.formats.hudi.snapshot import HudiSnapshot
from lakehand.formats.hudi.writer_options import KNOWN_VERSIONS
from lakehand.spi import Action, Invalid, Remedy, kit

HudiContext = kit.DecisionContext[HudiSnapshot]
HudiEffect = kit.Effect[HudiSnapshot]
VERSIONS = kit.text_setting(
    "hudi.table-versions", "the table versions that the engine's Hudi may write, with commas",
    ",".join(str(version) for version in sorted(KNOWN_VERSIONS)), set_by=kit.SetBy.OPERATOR,
)  # fmt: skip
LOCK_FOLDERS = kit.text_setting(
    "hudi.lock-folders",
    "folders outside of all tables, with commas, in which a table's properties may name the folder of its file lock",
    "", set_by=kit.SetBy.OPERATOR,
)  # fmt: skip
ONLY_WRITER = kit.only_writer_setting("hudi", replaces=("hudi.lock",))
# RFC-43's switches, as writers know them.
ALL_SERVICES = kit.flag_setting("hoodie.table.services.enable", "RFC-43's switch for all services of a table")
METASERVER = kit.flag_setting(
    properties.METASERVER, "true: Hudi's metaserver keeps the table's timeline, so that nothing is done to the table",
    default=False,
)  # fmt: skip
ROWS = kit.rows_in(globals())

RULES = (
    kit.rule(
        r"due to heartbeat by concurrent writer/job", "heartbeat", Remedy.NOT_YET, delay=timedelta(seconds=30),
        advice="another runner has the plan, or one that was killed in the last two minutes had it",
    ),
    kit.rule(
        r"unable to acquire (the )?lock|HoodieLockException|FAILED_TO_ACQUIRE", "lock-held", Remedy.NOT_YET,
        delay=timedelta(seconds=30), advice="someone holds the table's lock",
    ),
    kit.rule(r"rollbacks\.WriterBusy", "writer-busy", Remedy.NOT_YET, delay=timedelta(seconds=15)),
    kit.rule(
        r"instants is not exist|is not present as pending or already completed", "plan-not-pending",
        delay=timedelta(seconds=5),
    ),
    kit.rule(
        r"compaction instant with greater timestamp", "stale-plan", Remedy.FATAL,
        advice="a compaction is newer than this log compaction, which was begun: Hudi neither runs nor removes it",
    ),
    kit.rule(
        r"DeletePartition(PendingTableService)?Exception.*pending table service", "plan-pending", Remedy.NOT_YET,
        delay=timedelta(minutes=1), advice="a pending plan names the partition, and goes first",
    ),
    kit.table_missing(r"TableNotFoundException", "Hudi"),
    kit.class_missing(r"Unable to (instantiate|load) class"),
    kit.rule(
        r"HoodieUpgradeDowngradeException|unknown.{0,40}version|version.{0,60}not supported|unsupported.{0,40}version",
        "version-unknown", Remedy.FATAL, advice="the table is newer or older than the engine's Hudi can write",
    ),
    kit.rule(
        r"HoodieClusteringUpdateException|WriteConflictException|ConcurrentModificationException", "write-conflict"
    ),
)  # fmt: skip


def switch(action: Action) -> kit.SettingRow[bool]:
    return kit.flag_setting(f"hoodie.table.service.{action}.enable", "the same for one action")


def switched_off(context: HudiContext, action: Action) -> str | None:
    return context.values.switched_off(ALL_SERVICES, switch(action))


def versions(values: kit.Values) -> frozenset[int]:
    try:
        return frozenset(int(text) for text in values[VERSIONS].split(",") if text.strip()) or KNOWN_VERSIONS
    except ValueError:
        raise Invalid(f"{VERSIONS.key} is {values[VERSIONS]!r}: use numbers such as 6,8,9") from None
