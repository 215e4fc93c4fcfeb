# SPDX-License-Identifier: Apache-2.0
"""Errors as the engine reports them, and what follows from each."""

from datetime import timedelta

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.spi import EngineState, EngineStatus, Failure, Remedy
from lakehand.spi.kit.failures import LONGEST_MESSAGE
from tests.formats.classifying import failure_of
from tests.kit.sentences import Sentences

HUDI = "org.apache.hudi.exception"


def failed(error_class: str, message: str) -> EngineStatus:
    return EngineStatus(state=EngineState.FAILED, error_class=error_class, message=message)


def classify(status: EngineStatus) -> Failure:
    return failure_of(HudiProcessFactory(), "compaction", status)


@pytest.mark.parametrize(
    ("error_class", "message", "reason", "remedy"),
    [
        (
            f"{HUDI}.HoodieLockException",
            "Cannot execute instant 20261115190727231 due to heartbeat by concurrent writer/job",
            "heartbeat",
            Remedy.NOT_YET,
        ),
        (f"{HUDI}.HoodieLockException", "Unable to acquire the lock. Current lock owner", "lock-held", Remedy.NOT_YET),
        (f"{HUDI}.HoodieException", "specific 2026 instants is not exist", "plan-not-pending", Remedy.RETRY),
        (f"{HUDI}.TableNotFoundException", "Hoodie table not found in path /x", "table-missing", Remedy.FATAL),
        ("java.lang.ClassNotFoundException", "com.example.Payload", "class-missing", Remedy.FATAL),
        (f"{HUDI}.HoodieException", "Unknown versionCode:11", "version-unknown", Remedy.FATAL),
        (f"{HUDI}.HoodieClusteringUpdateException", "Not allowed to update", "write-conflict", Remedy.RETRY),
        (
            f"{HUDI}.HoodieLogCompactException",
            "Cannot log compact since a compaction instant with greater timestamp exists. Instant details [==>2026]",
            "stale-plan",
            Remedy.FATAL,
        ),
        (
            f"{HUDI}.HoodieDeletePartitionPendingTableServiceException",
            "Failed to drop partitions. Please ensure that there are no pending table service actions",
            "plan-pending",
            Remedy.NOT_YET,
        ),
        ("java.lang.OutOfMemoryError", "Java heap space", "out-of-memory", Remedy.RETRY),
        ("java.io.FileNotFoundException", "File x does not exist", "file-missing", Remedy.RETRY),
        (f"{HUDI}.HoodieIOException", "something else", "HoodieIOException", Remedy.RETRY),
        ("", "", "failed", Remedy.RETRY),
    ],
)
def test_each_error_has_its_remedy(error_class: str, message: str, reason: str, remedy: Remedy) -> None:
    failure = classify(failed(error_class, message))

    assert (failure.reason, failure.remedy) == (reason, remedy)


def test_a_heartbeat_defers_the_attempt_and_explains_why(sentences: Sentences) -> None:
    failure = classify(failed("x", "due to heartbeat by concurrent writer/job"))

    assert (failure.reason, failure.delay) == ("heartbeat", timedelta(seconds=30))
    sentences.check("another runner has the plan", failure.message)


def test_a_long_message_is_cut() -> None:
    assert len(classify(failed("x", "y" * 10_000)).message) == LONGEST_MESSAGE
