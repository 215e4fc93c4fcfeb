# SPDX-License-Identifier: Apache-2.0
"""After a restart, has the factory of each unfinished operation rebuild its process, once, before it goes on."""

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime

from lakehand.core.plugins.registry import Plugins
from lakehand.core.plugins.runtimes import Runtimes
from lakehand.domain.errors import RecoverProcessFailed, Unavailable
from lakehand.domain.operations import Operation, OperationId
from lakehand.domain.processes import Failure, Remedy
from lakehand.domain.tables import Table

log = logging.getLogger(__name__)
REASON = "recover-failed"


@dataclass(kw_only=True)
class Recovery:
    """Operations stored before this process started, or taken over from another, and whether they were recovered."""

    plugins: Plugins
    runtimes: Runtimes
    since: datetime  # when this process started, by the database's clock
    failed: dict[OperationId, str] = field(default_factory=dict)  # why each of them could not be recovered
    _taken: set[OperationId] = field(default_factory=set)  # from instances that went away
    _done: set[OperationId] = field(default_factory=set)

    def take(self, operation: Operation) -> None:
        """It was another process's: recover it again."""
        self._taken.add(operation.id)
        self._done.discard(operation.id)
        self.failed.pop(operation.id, None)

    def is_needed(self, operation: Operation) -> bool:
        if operation.id in self._done or operation.id in self.failed:
            return False
        return operation.created_at <= self.since or operation.id in self._taken

    def recover(self, table: Table, operation: Operation, now: datetime) -> Operation:
        """The operation with its process rebuilt. Raises RecoverProcessFailed where that is impossible.

        Where the plugin is off, or the storage does not answer, it is only too early: those errors are passed on.
        """
        factory = self.plugins.factory(table.format, operation.process.action)
        runtime = self.runtimes.open(table, factory, now=now, left_out=operation.id)
        try:
            process = factory.recover(runtime, operation)
        except (OSError, Unavailable):
            raise
        except Exception as error:
            raise RecoverProcessFailed(f"{factory.name} cannot recover operation {operation.id}: {error}") from error
        self._done.add(operation.id)
        self._taken.discard(operation.id)
        # What holds its slot in the database stays as it is.
        return replace(operation, process=replace(process, conflict_class=operation.process.conflict_class))

    def recover_if_needed(self, table: Table, operation: Operation, now: datetime) -> Operation:
        """For an operation that no engine has: a failed recovery is tried again on retry."""
        self.failed.pop(operation.id, None)
        return self.recover(table, operation, now) if self.is_needed(operation) else operation

    def give_up(self, operation: Operation, error: RecoverProcessFailed) -> None:
        """For an operation that an engine may have: its table decides the outcome; it is not submitted again."""
        log.error("an operation cannot be recovered", extra={"operation": operation.id, "reason": str(error)})
        self.failed[operation.id] = str(error)

    def failure(self, operation: Operation) -> Failure | None:
        """Why the operation must not be tried again, if it could not be recovered."""
        why = self.failed.get(operation.id)
        return None if why is None else unrecoverable(why)

    def forget(self, operation: Operation) -> None:
        """Forget an operation that is over."""
        self.failed.pop(operation.id, None)


def unrecoverable(why: str) -> Failure:
    return Failure(reason=REASON, message=why, remedy=Remedy.FATAL)
