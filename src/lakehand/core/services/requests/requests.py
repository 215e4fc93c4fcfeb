# SPDX-License-Identifier: Apache-2.0
"""All requests of people, by what they are about."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakehand.api.alerts import SilenceRequest, TestRequest
from lakehand.core.loops.draining import DrainReport, DrainService
from lakehand.core.ports import AuditFilter, Page
from lakehand.core.services.access import AccessService
from lakehand.core.services.alerts import AlertService, TestResult
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.core.services.catalogs import CatalogService, SyncReport
from lakehand.core.services.requests.tokens import TokenRequests
from lakehand.domain.access import AuditEntry, AuditRequest, Caller, Role
from lakehand.domain.alerts import Alert, AlertId
from lakehand.domain.cached_property import cached_property


@dataclass(frozen=True, kw_only=True)
class Requests:
    access: AccessService
    catalog_service: CatalogService
    alert_service: AlertService
    drain_service: DrainService
    audit: AuditTrail

    @cached_property
    def tokens(self) -> TokenRequests:
        return TokenRequests(access=self.access, audit=self.audit)

    def sync_catalog(
        self, caller: Caller, name: str, *, dry_run: bool = False, accept_empty: bool = False
    ) -> SyncReport:
        self.catalog_service.get(name)
        detail = {"dry_run": dry_run, "accept_empty": accept_empty}
        request = AuditRequest(caller=caller, action="catalog.sync", subject=name, detail=detail)
        with self.audit.record(request, lambda: need_operator_of_all(caller)) as outcome:
            report = self.catalog_service.sync(name, dry_run=dry_run, accept_empty=accept_empty, by=caller.name)
            counts = {"added": report.added, "renamed": report.renamed, "retired": report.retired}
            outcome.after = {"problem": report.problem, **{key: len(names) for key, names in counts.items()}}
        return report

    def silence_alert(self, caller: Caller, id: AlertId, wanted: SilenceRequest) -> Alert:
        alert = self.alert_service.store.alerts.get(id)
        cause = alert.cause
        request = AuditRequest(
            caller=caller, action="alert.silence", subject=cause.title, table=cause.table, operation=cause.operation,
            detail={"alert": id, "seconds": timedelta(seconds=wanted.duration).total_seconds()},
        )  # fmt: skip

        def allow() -> None:
            caller.need(Role.OPERATOR)
            if cause.owner:
                caller.need_owner(cause.owner)
            else:
                caller.need_everything()

        with self.audit.record(request, allow) as outcome:
            silenced = self.alert_service.silence(id, wanted, by=caller.name)
            outcome.after = {"until": f"{silenced.silenced_until:%Y-%m-%dT%H:%M:%SZ}"}
        return silenced

    def test_alerts(self, caller: Caller, wanted: TestRequest) -> Sequence[TestResult]:
        request = AuditRequest(caller=caller, action="alert.test", subject=wanted.receiver or "all receivers")
        with self.audit.record(request, lambda: need_operator_of_all(caller)) as outcome:
            results = self.alert_service.test(wanted.receiver, by=caller.name)
            outcome.after = {one.receiver: one.problem or "sent" for one in results}
        return results

    def begin_drain(self, caller: Caller, timeout: timedelta | None) -> DrainReport:
        detail = {"seconds": timeout.total_seconds()} if timeout is not None else {}
        request = AuditRequest(
            caller=caller, action="instance.drain", subject=self.drain_service.holder, detail=detail
        )  # fmt: skip
        with self.audit.record(request, lambda: need_operator_of_all(caller)) as outcome:
            report = self.drain_service.begin(by=caller.name, timeout=timeout)
            outcome.after = {"state": str(report.state), "operations": report.operations}
        return report

    def end_drain(self, caller: Caller) -> DrainReport:
        request = AuditRequest(caller=caller, action="instance.resume", subject=self.drain_service.holder)
        with self.audit.record(request, lambda: need_operator_of_all(caller)) as outcome:
            report = self.drain_service.end(by=caller.name)
            outcome.after = {"state": str(report.state)}
        return report

    def list_audit(self, caller: Caller, wanted: AuditFilter, *, limit: int, cursor: str | None) -> Page[AuditEntry]:
        """What people asked for, newest first. It names people and addresses, so that viewers do not see it."""
        caller.need(Role.OPERATOR)
        return self.audit.list(wanted, limit=limit, cursor=cursor)


def need_operator_of_all(caller: Caller) -> None:
    caller.need(Role.OPERATOR)
    caller.need_everything()
