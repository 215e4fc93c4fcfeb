# SPDX-License-Identifier: Apache-2.0
"""Raises the limit on open files for the configured connections, or lowers the number of connections."""

import logging
import resource
from dataclasses import replace

from lakehand.app.connections import Bounds

log = logging.getLogger(__name__)
RESERVED = 512  # files for everything but connections: database, storage, logs, pipes
FEWEST = 64


def fitting(bounds: Bounds) -> Bounds:
    """The bounds within the limit on open files, which is raised as far as needed and allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = bounds.total + RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    total = bounds.total if soft == resource.RLIM_INFINITY else min(bounds.total, max(soft - RESERVED, FEWEST))
    if total < bounds.total:
        log.warning("fewer connections than max_connections: raise ulimit -n", extra={"total": total, "files": soft})
    return replace(bounds, total=total, per_client=min(bounds.per_client, max(total // 2, 1)))
