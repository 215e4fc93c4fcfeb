# SPDX-License-Identifier: Apache-2.0
"""What people ask for: each request is allowed or refused, carried out and recorded. All interfaces call it."""

from lakehand.core.services.requests.requests import Requests

__all__ = ["Requests"]
