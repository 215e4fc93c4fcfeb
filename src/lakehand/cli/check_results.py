# SPDX-License-Identifier: Apache-2.0
"""The result of one check of lakehand doctor."""

from collections.abc import Callable
from typing import NamedTuple

from lakehand.domain.errors import LakehandError


class CheckResult(NamedTuple):
    part: str
    is_fine: bool
    detail: str
    fix: str = ""


class CheckFailed(Exception):
    """What is wrong, and the fix."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.fix = fix


def result_of(part: str, check: Callable[..., str], *given: object) -> CheckResult:
    try:
        return CheckResult(part=part, is_fine=True, detail=check(*given))
    except CheckFailed as failed:
        return CheckResult(part=part, is_fine=False, detail=str(failed), fix=failed.fix)
    except Exception as error:
        fix = "" if isinstance(error, LakehandError) else "see the message"
        return CheckResult(part=part, is_fine=False, detail=str(error) or type(error).__name__, fix=fix)
