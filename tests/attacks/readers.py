# SPDX-License-Identifier: Apache-2.0
"""Who may still read what an action deletes, and the tests that prove it. To add an action, add a row to ``READERS``.

``test_readers.py`` compares the rows with the actions that exist, with the tests that exist and with the table of
docs/formats.md. Links, tables below and second registrations are the same for every action: ``BY_ALL``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Protected:
    """Each test is ``FILE::NAME``."""

    tests: Sequence[str]


@dataclass(frozen=True)
class Untested:
    """It cannot happen, or the format itself protects it: no test of ours."""

    why: str


@dataclass(frozen=True)
class Exposed:
    """Nobody protects it, or no test is sure of it: docs/formats.md says so, with the way out."""

    why: str


Cell = Protected | Untested | Exposed
# The columns of the table in docs/formats.md.
KINDS = ("snapshots", "tags and branches", "changelogs", "in use", "unknown")


def by(folder: str, *tests: str) -> Protected:
    """``FILE::NAME`` below ``tests/``."""
    return Protected([f"tests/{folder}/{test}".replace("//", "/") for test in tests])


def row(*cells: Cell) -> Mapping[str, Cell]:
    return dict(zip(KINDS, cells, strict=True))


UNKNOWN = Exposed("streams and shallow clones that no metadata of the table knows")
LATER = Untested("it drops rows in a commit: the files stay for another action")
STOPPED = Exposed("a stream that does not skip such commits stops at them")
SAVEPOINTS = by(
    "jobs/hudi",
    "test_archive.py::test_what_a_savepoint_holds_stays_readable_through_archive_clean_and_dropped_partitions",
)
UNCOMMITTED = "test_neither_requests_nor_properties_delete_files_of_the_last_three_days"
CHANGELOG = "test_expire_tags.py::test_a_stream_that_lags_reads_its_changelogs_after_a_tag_has_gone"
HELD = "test_tags_and_branches_and_consumers_keep_what_they_need"
CHANGE_DATA = "test_change_data_goes_by_its_own_age_and_stays_as_long_as_the_table_keeps_removed_files"
LANCE = "test_clean_versions.py::test_tagged_branched_young_and_uncommitted_files_stay"
OLD = "test_files_of_tags_branches_and_old_snapshots_are_no_orphans"

READERS: Mapping[str, Mapping[str, Cell]] = {
    "hudi-clean": row(
        by("formats/hudi", "test_planned_decisions.py::test_a_clean_keeps_what_is_retained"),
        SAVEPOINTS,
        Untested("change data lies in the files of its commits"),
        by("formats/hudi", "test_planned_decisions.py::test_no_clean_is_planned_while_a_compaction_is_pending"),
        UNKNOWN,
    ),
    "hudi-archive": row(
        by("formats/hudi", "test_archive.py::test_what_a_clean_retains_and_the_floor_stay_whatever_is_set"),
        Protected(
            [*SAVEPOINTS.tests, "tests/formats/hudi/test_archive.py::test_a_savepoint_keeps_all_from_there_on"],
        ),
        Untested("it deletes no data"),
        by(
            "formats/hudi",
            "test_archive.py::test_delta_commits_stay_until_they_are_compacted",
            "test_archive.py::test_files_that_were_replaced_must_be_cleaned_first",
        ),
        UNKNOWN,
    ),
    "hudi-partition-ttl": row(
        LATER,
        SAVEPOINTS,
        LATER,
        by(
            "jobs/hudi",
            "test_partition_ttl.py::test_a_partition_that_is_written_before_the_lock_is_taken_stays",
        ),
        LATER,
    ),
    "hudi-rollback-failed-writes": row(
        Untested("only files of a dead write"),
        Untested("they hold no files of a dead write"),
        Untested("they hold no files of a dead write"),
        by("jobs/hudi", "test_failed_writes.py::test_a_live_write_and_a_plan_beside_a_dead_write_are_left_alone"),
        Untested("nobody reads what was not committed"),
    ),
    "iceberg-expire-snapshots": row(
        by(
            "jobs/iceberg",
            "test_expiry.py::test_young_snapshots_stay_whatever_the_settings_and_the_request_say",
        ),
        by(
            "jobs/iceberg",
            "test_expiry.py::test_what_branches_and_tags_hold_stays_readable_whatever_the_table_says",
            "test_expiry.py::test_a_tag_or_branch_that_is_made_in_the_middle_is_honoured",
        ),
        Untested("they are made from snapshots"),
        by(
            "",
            "formats/iceberg/test_retention.py::test_the_newest_commit_of_each_flink_job_stays_with_all_after_it",
            "jobs/iceberg/test_expiry.py::test_what_an_unfinished_operation_started_from_stays",
            "jobs/iceberg/test_expiry.py::test_a_table_whose_files_may_be_others_is_left_alone",
        ),
        UNKNOWN,
    ),
    "iceberg-remove-orphans": row(
        by(
            "jobs/iceberg",
            "test_orphans.py::test_deletes_statistics_tags_and_logged_metadata_are_no_orphans",
        ),
        by(
            "jobs/iceberg",
            "test_orphans.py::test_deletes_statistics_tags_and_logged_metadata_are_no_orphans",
        ),
        Untested("they are made from snapshots"),
        by("jobs/iceberg", "test_orphans.py::test_young_files_stay_whatever_the_settings_and_the_request_say"),
        UNKNOWN,
    ),
    "iceberg-expire-data": row(
        LATER,
        by("jobs/iceberg", "test_expire_data.py::test_rows_go_in_one_commit_and_tags_keep_what_they_have"),
        LATER,
        by("jobs/iceberg", "test_expire_data.py::test_a_writer_that_changes_a_file_with_old_rows_wins"),
        STOPPED,
    ),
    "delta-vacuum": row(
        by(
            "jobs/delta",
            "test_vacuum.py::test_removed_files_go_when_their_time_has_come_and_the_younger_stay",
            "test_vacuum.py::test_a_list_that_names_a_live_file_stops_everything",
        ),
        Untested("Delta has none"),
        by("jobs/delta", f"test_vacuum.py::{CHANGE_DATA}"),
        Untested("nothing is known"),
        UNKNOWN,
    ),
    "delta-clean-log": row(
        by(
            "",
            "formats/delta/test_log_care.py::test_what_is_young_by_its_file_or_by_its_commit_stays",
            "jobs/delta/test_clean_log.py::test_exactly_what_was_listed_goes_and_what_is_left_can_be_read",
        ),
        Untested("Delta has none"),
        Untested("they are versions"),
        by(
            "formats/delta",
            "test_log_care.py::test_what_an_unfinished_operation_may_have_committed_stays_in_the_log",
        ),
        UNKNOWN,
    ),
    "delta-expire-data": row(
        LATER,
        Untested("Delta has none"),
        by(
            "formats/delta",
            "test_data_expiry.py::test_a_change_feed_shows_deletions_only_if_somebody_says_that_it_may",
        ),
        by("jobs/delta", "test_expire_data.py::test_a_writer_that_changes_a_file_with_old_rows_wins"),
        STOPPED,
    ),
    "paimon-expire-snapshots": row(
        by(
            "jobs/paimon",
            "test_expire_snapshots.py::test_neither_requests_nor_properties_expire_the_young_or_the_last",
        ),
        by(
            "jobs/paimon",
            f"test_expire_snapshots.py::{HELD}",
            "test_expire_snapshots.py::test_a_branch_that_lost_its_tag_reads_its_rows_after_an_expiry",
        ),
        by("jobs/paimon", CHANGELOG),
        by(
            "jobs/paimon",
            f"test_expire_snapshots.py::{HELD}",
            "test_expire_snapshots.py::test_a_snapshot_that_a_running_operation_began_with_stays",
        ),
        UNKNOWN,
    ),
    "paimon-expire-tags": row(
        by("jobs/paimon", "test_expire_tags.py::test_tags_past_their_time_go_with_the_files_that_only_they_keep"),
        by("jobs/paimon", "test_expire_tags.py::test_files_that_a_branch_took_from_a_deleted_tag_stay"),
        by(
            "",
            f"jobs/paimon/{CHANGELOG}",
            "attacks/test_paimon_guards.py::test_files_that_a_changelog_still_reads_do_not_go_with_a_tag",
        ),
        Untested("consumers read snapshots and changelogs"),
        UNKNOWN,
    ),
    "paimon-remove-orphans": row(
        by("jobs/paimon", f"test_remove_orphans.py::{OLD}"),
        by("jobs/paimon", f"test_remove_orphans.py::{OLD}"),
        by("jobs/paimon", CHANGELOG),
        by("jobs/paimon", f"test_remove_orphans.py::{UNCOMMITTED}"),
        UNKNOWN,
    ),
    "paimon-expire-partitions": row(
        LATER,
        LATER,
        LATER,
        by("jobs/paimon", "test_expire_partitions.py::test_a_writer_of_an_announced_partition_wins_and_we_plan_anew"),
        LATER,
    ),
    "paimon-compact": row(
        by("jobs/paimon", "test_compact.py::test_a_compaction_expires_and_tags_nothing_whatever_the_table_says"),
        Exposed("tags whose own time is over were not deleted in our runs, and no guard of ours keeps them"),
        Exposed("kept in a run: test_a_full_merge_does_not_delete_a_tag_while_a_changelog_reads_its_files"),
        by("jobs/paimon", "test_compact.py::test_a_compaction_expires_and_tags_nothing_whatever_the_table_says"),
        Untested("they read no files that it deletes"),
    ),
    "lance-clean-versions": row(
        by(
            "jobs/lance",
            "test_clean_versions.py::test_the_newest_versions_are_retained_whatever_their_age",
            "test_clean_versions.py::test_a_live_file_among_the_candidates_stops_everything",
        ),
        by("jobs/lance", LANCE),
        Untested("Lance has none"),
        by("jobs/lance", LANCE),
        UNKNOWN,
    ),
}

# What they replace stays until one of the actions above takes it.
DELETE_NOTHING = frozenset(
    {"hudi-clustering", "hudi-compaction", "hudi-find-duplicates", "hudi-indexing", "hudi-log-compaction"}
    | {"iceberg-compute-partition-statistics", "iceberg-compute-statistics", "iceberg-rewrite-data"}
    | {"iceberg-rewrite-manifests", "iceberg-rewrite-position-deletes"}
    | {"delta-checkpoint", "delta-optimize", "delta-purge", "delta-z-order"}
    | {"lance-compact", "lance-optimize-indices"}
)

BY_ALL: Mapping[str, Protected] = {
    "a link": by("attacks", "test_every_job.py::test_a_job_is_stopped_before_it_uses_its_session"),
    "a table below": by(
        "attacks",
        "test_every_job.py::test_a_job_is_stopped_before_it_uses_its_session",
        "test_iceberg_guards.py::test_a_table_below_stops_what_lists_and_is_left_out_by_what_deletes_by_name",
    ),
    "a second registration": by(
        "attacks",
        "test_registrations.py::test_somebody_elses_table_is_not_registered_again",
        "test_registrations.py::test_nothing_is_done_to_somebody_elses_table_whichever_way_it_was_registered",
    ),
}
