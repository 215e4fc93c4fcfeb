# SPDX-License-Identifier: Apache-2.0
"""What follows from the errors that Lance and its jobs raise, in their own words."""

import pytest

from lakehand.formats.lance import LanceProcessFactory
from lakehand.spi import EngineState, EngineStatus, Remedy
from tests.formats.classifying import failure_of

JOB = "lakehand.jobs.lance.clean_versions"


@pytest.mark.parametrize(
    ("error", "message", "reason", "remedy"),
    [
        (
            "OSError",
            "Retryable commit conflict for version 103: This Rewrite transaction was preempted by concurrent ...",
            "write-conflict", Remedy.RETRY,
        ),
        (
            "lance.commit.CommitConflictError", "Incompatible transaction: This Rewrite transaction is ...",
            "write-conflict", Remedy.RETRY,
        ),
        ("OSError", "Dataset at path /lake/t/_versions was not found: Not found", "table-missing", Remedy.FATAL),
        ("OSError", "LanceError(IO): Not found: /lake/t/data/0011.lance", "file-missing", Remedy.RETRY),
        (
            "org.apache.spark.api.python.PythonException", "ModuleNotFoundError: No module named 'lance'",
            "library-missing", Remedy.FATAL,
        ),
        ("lakehand.jobs.safety.BelowFloor", "versions younger than 1 day are not cleaned", "refused", Remedy.FATAL),
        (f"{JOB}.LiveFileInDanger", "1 files of version 7 would go", "live-file", Remedy.FATAL),
        ("OSError", "Permission denied (os error 13)", "denied", Remedy.RETRY),
        ("some.Strange", "error", "Strange", Remedy.RETRY),
    ],
)  # fmt: skip
def test_each_known_error_has_its_reason_and_remedy(error: str, message: str, reason: str, remedy: Remedy) -> None:
    status = EngineStatus(state=EngineState.FAILED, error_class=error, message=message)
    failure = failure_of(LanceProcessFactory(), "clean-versions", status)

    assert (failure.reason, failure.remedy) == (reason, remedy)
    assert failure.message.startswith(message)
