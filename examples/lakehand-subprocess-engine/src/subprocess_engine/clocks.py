# SPDX-License-Identifier: Apache-2.0
"""One clock for the engine and its programs: that of the machine since it was started, which goes on while it sleeps.

A heartbeat token is ``BOOT:NANOSECONDS``. A token of another start of the machine is worthless.
"""

import time
from pathlib import Path

from lakehand.spi import LeaseGrant

NEVER = 0
SECOND = 1_000_000_000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boot() -> str:
    return _BOOT_ID.read_text().strip()


def heartbeat_token() -> str:
    return f"{boot()}:{now()}"


def end_of(grant: LeaseGrant) -> int:
    """When the lease ends on this clock; NEVER when its heartbeat token is missing or not of this start."""
    of, _, moment = (grant.heartbeat_token or "").partition(":")
    if of != boot() or not moment.isdecimal():
        return NEVER
    return int(moment) + int(grant.time_to_live.total_seconds() * SECOND)
