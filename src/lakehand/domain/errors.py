# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, in one family: each error has a code for machines and a sentence for people."""

from datetime import timedelta
from typing import ClassVar


class LakehandError(Exception):
    """Something went wrong in Lakehand."""

    code: ClassVar[str] = "error"
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


class IllegalStep(Conflict):
    """An operation was asked to take a step that its status does not allow."""

    code = "illegal-step"


class LeaseLost(LakehandError):
    """Someone else holds the row now: whoever sees this must stop working on it."""

    code = "lease-lost"


class Unauthorized(LakehandError):
    """The request carries no valid token."""

    code = "unauthorized"


class Unavailable(LakehandError):
    """A part of the world that we need does not answer right now."""

    code = "unavailable"
    retryable = True


class Moved(Unavailable):
    """What was decided on has changed meanwhile: read it again and decide anew."""


class PluginBroken(LakehandError):
    """A plugin did something that its contract does not allow."""

    code = "plugin-broken"


class PluginStuck(Unavailable):
    """A plugin did not come back from a call, and is left alone for a while."""

    def __init__(self, message: str | None = None, *, again: timedelta = timedelta(minutes=1)) -> None:
        super().__init__(message)
        self.again = again  # it is worth asking again after this long


class RecoverProcessFailed(LakehandError):
    """A stored operation cannot be turned into a process again."""

    code = "recover-failed"
