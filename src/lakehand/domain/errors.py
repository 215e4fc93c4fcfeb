# SPDX-License-Identifier: Apache-2.0
"""All errors of Lakehand: each has a code for machines and a sentence for people."""

from datetime import timedelta
from typing import ClassVar


class LakehandError(Exception):
    """Something went wrong in Lakehand."""

    code: str = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)


class NotFound(LakehandError):
    """There is no such thing."""

    code = "not-found"


class Invalid(LakehandError):
    """The request does not make sense."""

    code = "invalid"


class LocationRefused(Invalid):
    """The location may not be served."""

    code = "location-refused"


class Conflict(LakehandError):
    """The request contradicts what is stored."""

    code = "conflict"


class LocationTaken(Conflict):
    """Another registered table is at this location, in it or above it."""

    code = "location-taken"


class IllegalStep(Conflict):
    """An operation was asked to take a step that its status does not allow."""

    code = "illegal-step"


class LeaseLost(LakehandError):
    """Another instance holds the row now: stop working on it."""

    code = "lease-lost"


class Unauthorized(LakehandError):
    """The request carries no valid token."""

    code = "unauthorized"


class Forbidden(LakehandError):
    """The caller's token does not allow this."""

    code = "forbidden"


class Unavailable(LakehandError):
    """Something that the service needs does not answer right now."""

    code = "unavailable"
    retryable = True


class Moved(Unavailable):
    """The state behind a decision has changed: read it again and decide again."""


class PluginBroken(LakehandError):
    """A plugin did something that its contract does not allow."""

    code = "plugin-broken"


class TryLater(Unavailable):
    """This cannot be done right now, and nothing is wrong with it."""

    def __init__(self, message: str | None = None, *, again: timedelta = timedelta(minutes=1)) -> None:
        super().__init__(message)
        self.again = again  # retry after this long


class PluginStuck(TryLater):
    """A call into a plugin did not return; the plugin is not called for a while."""


class Busy(TryLater):
    """What this needs is in use by others."""


class RecoverProcessFailed(LakehandError):
    """A stored operation cannot be turned into a process again."""

    code = "recover-failed"
