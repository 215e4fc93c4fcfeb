# SPDX-License-Identifier: Apache-2.0
"""What became of one request: an answer of any status, or none. A sentence for each failure, and when to try again."""

import json
import random
from dataclasses import dataclass
from typing import Any

from lakehand.client.errors import Conflict, Forbidden, Invalid, NotFound, RequestFailed, Unauthorized, Unavailable

TYPES: dict[int, type[RequestFailed]] = {
    400: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound, 405: Invalid, 409: Conflict, 413: Invalid,
    415: Invalid, 421: Invalid, 422: Invalid, 502: Unavailable, 503: Unavailable, 504: Unavailable,
}  # fmt: skip
CREATED = 201


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Bounded, with exponential back-off and jitter. Only requests whose repetition is safe are sent again."""

    attempts: int = 4  # in all; 1: never again
    first: float = 0.25  # seconds of back-off after the first attempt; doubles with each
    longest: float = 10.0  # seconds; a service that asks for more time is not asked again

    def delay(self, attempt: int, retry_after: float | None = None) -> float | None:
        """Seconds to wait after this attempt, counted from 1; None: give up."""
        if attempt >= self.attempts or (retry_after or 0.0) > self.longest:
            return None
        back_off = min(self.longest, self.first * 2.0 ** (attempt - 1))
        return max(retry_after or 0.0, back_off * random.uniform(0.5, 1.0))


NO_RETRIES = Retries(attempts=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    url: str  # of the service
    retries: Retries
    status: int | None = None  # None: there was no answer
    phrase: str = ""  # HTTP's text for the status
    body: bytes = b""
    retry_after: float | None = None  # seconds, as the service asked
    problem: str = ""  # why there was no answer
    is_late: bool = False  # no answer in time
    was_sent: bool = True  # False: nothing of the request can have reached the service

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_new(self) -> bool:
        return self.status == CREATED

    @property
    def is_outage(self) -> bool:
        """The service or something before it is away: the same request may succeed later."""
        return self.status is None or TYPES.get(self.status) is Unavailable

    def document(self) -> Any:
        try:
            return json.loads(self.body) if self.body else {}
        except ValueError:
            raise RequestFailed(
                f"{self.url} did not answer with JSON: is it the address of a Lakehand service?", status=self.status
            ) from None

    def error(self) -> RequestFailed:
        if self.status is None:
            return Unavailable(late(self.url) if self.is_late else unreachable(self.url, self.problem))
        code, message = self.code_and_message()
        return TYPES.get(self.status, RequestFailed)(self.text(self.status, message), code=code, status=self.status)

    def text(self, status: int, message: str) -> str:
        if status == 401:
            return f"{self.url} requires a token: give it with --token or LAKEHAND_TOKEN ({message})"
        if status >= 500:
            return f"{self.url} answered {status}: {message}; its log says more"
        return message

    def code_and_message(self) -> tuple[str | None, str]:
        try:
            body = json.loads(self.body)
        except ValueError:
            return None, f"{self.status} {self.phrase}"
        error = body.get("error", body) if isinstance(body, dict) else {}
        if not isinstance(error, dict):
            return None, str(error)
        return error.get("code"), str(error.get("message") or error.get("detail") or body)


def late(url: str) -> str:
    return f"the service at {url} did not answer in time: try again, or see its log"


def unreachable(url: str, problem: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in problem:
        return f"the certificate of {url} is not trusted ({problem}): name its CA with --ca-file or LAKEHAND_CA_FILE"
    return (
        f"no service answers at {url} ({problem}): start one with lakehand serve --warehouse DIR, "
        "or name another with --url or LAKEHAND_URL"
    )
