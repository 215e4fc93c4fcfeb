# SPDX-License-Identifier: Apache-2.0
"""All that may be asked of an instance: every interface is given the same services."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakehand.api.service import VersionAnswer
from lakehand.api.tables import SettingAnswer
from lakehand.core.ports import Clock, Events, Instances, PluginReport
from lakehand.core.services.access import AccessService
from lakehand.core.services.alerts import AlertService
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.core.services.catalogs import CatalogService
from lakehand.core.services.drains import DrainService
from lakehand.core.services.explain import Explainer
from lakehand.core.services.fleet import FleetService
from lakehand.core.services.operations import OperationService
from lakehand.core.services.tables import HealthService, TableService
from lakehand.domain.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    about: VersionAnswer
    tables: TableService
    operations: OperationService
    alerts: AlertService
    catalogs: CatalogService
    fleet: FleetService
    explainer: Explainer
    health: HealthService
    access: AccessService
    audit: AuditTrail
    drains: DrainService
    events: Events
    instances: Instances
    clock: Clock
    plugins: Callable[[], Sequence[PluginReport]]  # as they are now
    settings_of: Callable[[Table], Sequence[SettingAnswer]]
    readiness: Callable[[], Mapping[str, str]]  # part → "ok", or what is wrong with it
