# SPDX-License-Identifier: Apache-2.0
"""Turns errors into statuses, once for all calls: a code, a message, and details for machines."""

import logging
from collections.abc import Mapping

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from lakehand.domain.errors import LakehandError, Unavailable

log = logging.getLogger(__name__)
DOMAIN = "lakehand"
RETRY_SECONDS = 2
LONGEST_MESSAGE = 2000  # characters: clients bound the size of metadata
Code = grpc.StatusCode
CODES: Mapping[str, grpc.StatusCode] = {
    "not-found": Code.NOT_FOUND,
    "invalid": Code.INVALID_ARGUMENT,
    "location-refused": Code.INVALID_ARGUMENT,
    "conflict": Code.FAILED_PRECONDITION,
    "location-taken": Code.FAILED_PRECONDITION,
    "illegal-step": Code.FAILED_PRECONDITION,
    "lease-lost": Code.ABORTED,
    "unauthorized": Code.UNAUTHENTICATED,
    "forbidden": Code.PERMISSION_DENIED,
    "unavailable": Code.UNAVAILABLE,
    "too-many": Code.RESOURCE_EXHAUSTED,
    "deadline": Code.DEADLINE_EXCEEDED,
}


class TooManyCalls(Unavailable):
    """The server has as many streams as it may have."""

    code = "too-many"


class Stopping(Unavailable):
    """The service is stopping: watch again."""


class DeadlinePassed(LakehandError):
    """The deadline of the call passed before it was begun."""

    code = "deadline"


def code_of(error: BaseException) -> grpc.StatusCode:
    return CODES.get(error.code, Code.INTERNAL) if isinstance(error, LakehandError) else Code.INTERNAL


def status_of(error: Exception, rpc: str) -> grpc.Status:
    """What the caller gets. Of an unexpected error it learns nothing; the log has it."""
    code = code_of(error)
    if not isinstance(error, LakehandError):
        log.error("a call failed unexpectedly", extra={"rpc": rpc}, exc_info=error)
        return plain_status(code, "the request failed unexpectedly: see the log of the service")
    if code in (Code.INTERNAL, Code.UNAVAILABLE) and not isinstance(error, Stopping):
        log.warning("a call failed", extra={"rpc": rpc, "code": error.code, "error": str(error)})
    number: int = code.value[0]
    message = str(error).encode("utf-8", "replace").decode()[:LONGEST_MESSAGE]
    return rpc_status.to_status(Status(code=number, message=message, details=details_of(error)))


def plain_status(code: grpc.StatusCode, message: str) -> grpc.Status:
    number: int = code.value[0]
    return rpc_status.to_status(Status(code=number, message=message))


def details_of(error: LakehandError) -> list[Any]:
    """ErrorInfo: its reason is our code in the letters that it prescribes; the code as REST has it comes along."""
    reason = error.code.upper().replace("-", "_")
    found = [packed(error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata={"code": error.code}))]
    if error.retryable:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromSeconds(RETRY_SECONDS)
        found.append(packed(retry))
    return found


def packed(detail: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> Any:
    wrapped = Any()
    wrapped.Pack(detail)
    return wrapped
