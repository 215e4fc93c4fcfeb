# SPDX-License-Identifier: Apache-2.0
"""The numbers of verdicts that are added up over all operations."""

import pytest

from lakehand.spi import Json, kit


def test_shared_numbers_are_left_out_where_they_are_not_known() -> None:
    assert kit.work_numbers(files_removed=3) == {"files_removed": 3}
    assert kit.work_numbers(bytes_rewritten=0) == {"bytes_rewritten": 0}


@pytest.mark.parametrize("reported", [None, True, "3", 3.5, [3]])
def test_what_a_job_reports_instead_of_a_count_is_left_out(reported: Json) -> None:
    assert kit.work_numbers(files_removed=reported) == {}
