# SPDX-License-Identifier: Apache-2.0
"""REST: our API under /api/v1, and the wire protocol of Hudi's writers."""

from lakehand.rest.app import build_app
from lakehand.rest.context import ApiContext, Security

__all__ = ["ApiContext", "Security", "build_app"]
