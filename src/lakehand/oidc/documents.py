# SPDX-License-Identifier: Apache-2.0
"""Reads small JSON documents by HTTP, within bounds of time and size."""

import json
import ssl
import time
from typing import Any

import httpx

from lakehand.domain.errors import Unavailable

STEP_TIMEOUT = 5.0  # seconds to connect, and to wait for each part of an answer
LONGEST_TIME = 10.0  # seconds for a whole answer
LARGEST = 512 * 1024  # bytes


class Documents:
    """Follows no redirect, and uses the proxy of the environment."""

    def __init__(
        self, *, verify: ssl.SSLContext | None = None, step: float = STEP_TIMEOUT, longest: float = LONGEST_TIME
    ) -> None:
        self._http = httpx.Client(timeout=step, follow_redirects=False, verify=verify or ssl.create_default_context())
        self._longest = longest

    def read(self, url: str) -> dict[str, Any]:
        """Raises Unavailable with the reason."""
        try:
            document = json.loads(self._content(url))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{url} cannot be read: {str(error) or type(error).__name__}") from None
        except (ValueError, RecursionError):
            raise Unavailable(f"{url} did not answer with JSON") from None
        if not isinstance(document, dict):
            raise Unavailable(f"{url} did not answer with a JSON object")
        return document

    def _content(self, url: str) -> bytes:
        deadline, content = time.monotonic() + self._longest, b""
        # Not compressed: a small answer could become a large one.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        with self._http.stream("GET", url, headers=headers) as answer:
            if answer.status_code != 200:
                raise Unavailable(f"{url} answered {answer.status_code}")
            for part in answer.iter_raw():
                content += part
                if len(content) > LARGEST:
                    raise Unavailable(f"the answer of {url} is larger than {LARGEST} bytes")
                if time.monotonic() > deadline:
                    raise Unavailable(f"{url} did not answer within {self._longest:.0f} s")
        return content
