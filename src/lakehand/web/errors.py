# SPDX-License-Identifier: Apache-2.0
"""The HTTP status and the sentence of an error, for a page that shows it."""

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from lakehand.domain.errors import LakehandError

STATUSES = {
    "not-found": 404, "invalid": 422, "location-refused": 422, "conflict": 409, "location-taken": 409,
    "illegal-step": 409, "forbidden": 403, "unavailable": 503,
}  # fmt: skip


def status_of(error: LakehandError) -> int:
    return STATUSES.get(error.code, 500)


def describe(error: Exception) -> tuple[int, str]:
    if isinstance(error, LakehandError):
        return status_of(error), str(error)
    if isinstance(error, RequestValidationError):
        return 422, "the address has a value that does not make sense"
    if isinstance(error, HTTPException):
        return error.status_code, "there is no such page" if error.status_code == 404 else str(error.detail)
    return 500, "the page failed unexpectedly: see the log of the service"
