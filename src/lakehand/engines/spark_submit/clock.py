# SPDX-License-Identifier: Apache-2.0
"""Heartbeat tokens from the clock of this machine; ``MachineClock`` in ``jobs/leases.py`` reads them.

An application is younger than the lease of its work, so it cannot have published a heartbeat for it. But it is a child
of this machine's service, and all processes of a machine share one clock that no one sets.
"""

import os
import time
from pathlib import Path

from lakehand.spi.engines import LeaseGrant

BOOT_ID, TIME_NAMESPACE = "/proc/sys/kernel/random/boot_id", "/proc/self/ns/time"


def now() -> float:
    """Seconds on the clock that also runs while the machine sleeps, where there is one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def machine() -> str:
    boot = Path(BOOT_ID).read_text().strip() if Path(BOOT_ID).exists() else os.uname().nodename
    namespace = os.readlink(TIME_NAMESPACE) if os.path.lexists(TIME_NAMESPACE) else ""  # noqa: PTH115
    return f"{boot}-{''.join(filter(str.isdecimal, namespace))}"


def token() -> str:
    """Rounded down: a lease that counts from it can only end earlier."""
    return f"{machine()}:{int(now() * 1000) / 1000:.3f}"


def ends_at(grant: LeaseGrant) -> float:
    """When the lease is over; in the past for a token that is not of this machine."""
    name, _, seconds = (grant.heartbeat_token or "").rpartition(":")
    is_ours = name == machine() and seconds.replace(".", "", 1).isdecimal()
    return float(seconds) + grant.time_to_live.total_seconds() if is_ours else float("-inf")
