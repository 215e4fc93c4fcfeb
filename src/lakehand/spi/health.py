# SPDX-License-Identifier: Apache-2.0
"""Health in numbers: the names that formats share, so that one screen can show tables of all formats."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from lakehand.domain.processes import Json

# A snapshot's ``numbers`` uses these names where they apply, and may add its own.
FILES = "files"  # live data files
BYTES = "bytes"  # of live data files
SMALL_FILES = "small_files"  # worth rewriting by the format's default target size
SMALL_BYTES = "small_bytes"
HISTOGRAM = "histogram"  # size class → data files, see size_histogram
DELETE_FILES = "delete_files"  # position and equality delete files
DELETION_VECTORS = "deletion_vectors"  # or deletion files: one per data file that has deleted rows
LOG_FILES = "log_files"
SNAPSHOTS = "snapshots"  # versions, commits: whatever a reader can travel to
OLDEST_SNAPSHOT = "oldest_snapshot"  # ISO 8601, UTC
SAVEPOINTS = "savepoints"  # their names, with commas: files that no action deletes
PENDING_PLANS = "pending_plans"
OLDEST_PENDING = "oldest_pending"  # ISO 8601, UTC
ROWS = "rows"

# A verdict's ``numbers`` uses these names where they are known; they are added up over all operations.
FILES_REMOVED = "files_removed"  # taken out of the table by a rewrite, or deleted by a clean-up
BYTES_REWRITTEN = "bytes_rewritten"  # read by a rewrite; where only that is known, written by it

MB = 1024 * 1024
_EDGES = (1 * MB, 8 * MB, 32 * MB, 128 * MB, 512 * MB)
SIZE_CLASSES = ("< 1 MB", "1-8 MB", "8-32 MB", "32-128 MB", "128-512 MB", ">= 512 MB")


def size_histogram(sizes: Iterable[int]) -> Mapping[str, Json]:
    """How many files there are of each size class, smallest first."""
    counts = [0] * len(SIZE_CLASSES)
    for size in sizes:
        counts[bisect_right(_EDGES, size)] += 1
    return dict(zip(SIZE_CLASSES, counts, strict=True))


def file_numbers(sizes: Sequence[int], small: Sequence[int]) -> dict[str, Json]:
    """The numbers of live data files by their sizes; ``small``: the sizes of those worth rewriting."""
    return {
        FILES: len(sizes),
        BYTES: sum(sizes),
        SMALL_FILES: len(small),
        SMALL_BYTES: sum(small),
        HISTOGRAM: size_histogram(sizes),
    }
