# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a request, by what the caller can do about it."""

from typing import TYPE_CHECKING, Any

from lakehand.domain.errors import LakehandError

if TYPE_CHECKING:
    from lakehand.client.answers import OperationDetail


class RequestFailed(LakehandError):
    """The service refused a request, or did not answer."""

    code = "request-failed"

    def __init__(self, message: str | None = None, *, code: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code  # the service's own word, if it gave one
        self.status = status  # of HTTP; None if there was no answer

    @property
    def message(self) -> str:
        return str(self)

    def __reduce__(self) -> Any:  # so that it can come back from another process
        return type(self), (str(self),), self.__dict__


class NotFound(RequestFailed):
    """There is no such thing."""

    code = "not-found"


class Conflict(RequestFailed):
    """The request contradicts what is stored."""

    code = "conflict"


class Invalid(RequestFailed):
    """The request does not make sense to the service."""

    code = "invalid"


class Unauthorized(RequestFailed):
    """The service requires a valid token."""

    code = "unauthorized"


class Forbidden(RequestFailed):
    """The token does not allow this."""

    code = "forbidden"


class Unavailable(RequestFailed):
    """The service, or its database, does not answer right now."""

    code = "unavailable"
    retryable = True


class OperationFailed(LakehandError):
    """An operation ended, and its work is not done."""

    code = "operation-failed"


class StillRunning(LakehandError):
    """An operation has not ended in the time that was given."""

    code = "still-running"

    def __init__(self, message: str | None = None, operation: "OperationDetail | None" = None) -> None:
        super().__init__(message)
        self.operation = operation  # as it was last seen
