# SPDX-License-Identifier: Apache-2.0
"""The client's names of answers that have another name in the API's schemas."""

from lakehand.api import access, alerts, catalogs, fleet, service

AuditEntry = access.AuditEntryAnswer
Caller = access.CallerAnswer
NewToken = access.NewTokenAnswer
Token = access.TokenAnswer
Alert = alerts.AlertAnswer
ReceiverTest = alerts.TestAnswer
Catalog = catalogs.CatalogAnswer
CatalogSync = catalogs.SyncAnswer
Done = fleet.DoneAnswer
Fleet = fleet.FleetAnswer
FleetProblem = fleet.FleetProblemAnswer
FleetProblems = fleet.ProblemsAnswer
Queue = fleet.QueueAnswer
Totals = fleet.TotalsAnswer
Drain = service.DrainAnswer
Instance = service.InstanceAnswer
Plugin = service.PluginAnswer
Strategy = service.PairAnswer
Version = service.VersionAnswer
