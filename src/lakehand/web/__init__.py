# SPDX-License-Identifier: Apache-2.0
"""The dashboard: pages that the service renders itself. They call the services of the core, as the API does."""

from lakehand.web.app import build_pages
from lakehand.web.context import NoDiscovery, PageContext, TableDiscovery
from lakehand.web.live import LivePages

__all__ = ["LivePages", "NoDiscovery", "PageContext", "TableDiscovery", "build_pages"]
