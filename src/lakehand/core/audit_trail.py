# SPDX-License-Identifier: Apache-2.0
"""Records what people ask for: the request before it is carried out, the answer after it."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakehand.core.pages import Page
from lakehand.core.ports import AuditFilter, Store
from lakehand.domain.audit import OK, AuditAnswer, AuditEntry, AuditId, AuditRequest
from lakehand.domain.errors import LakehandError
from lakehand.domain.processes import Json

log = logging.getLogger(__name__)


@dataclass(slots=True)
class AuditOutcome:
    """Filled in by what is recorded."""

    after: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AuditTrail:
    store: Store

    @contextmanager
    def record(self, request: AuditRequest) -> Iterator[AuditOutcome]:
        """Nothing is carried out unless the request could be stored."""
        number, outcome = self.store.audit.begin(request, now=self.store.clock.estimate()), AuditOutcome()
        try:
            yield outcome
        except LakehandError as error:
            self.finish(number, AuditAnswer(code=error.code, message=str(error)))
            raise
        except BaseException:
            self.finish(number, AuditAnswer(code="error", message="it failed unexpectedly: see the log of the service"))
            raise
        self.finish(number, AuditAnswer(code=OK, after=outcome.after))

    def finish(self, id: AuditId, answer: AuditAnswer) -> None:
        """An answer that cannot be stored stays unknown: the request was carried out all the same."""
        try:
            self.store.audit.finish(id, answer, now=self.store.clock.estimate())
        except LakehandError as error:
            log.warning("an answer is missing in the audit trail", extra={"audit": id, "error": str(error)})

    def list(self, wanted: AuditFilter, *, limit: int, cursor: str | None) -> Page[AuditEntry]:
        return self.store.audit.list(wanted, limit=limit, cursor=cursor)
