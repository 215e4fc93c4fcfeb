# SPDX-License-Identifier: Apache-2.0
"""Builds the service: every object is made here, once, and given to those that need it."""

import gc
import logging
import os
import platform
import secrets
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import random
from typing import Any

import lakehand
from lakehand.api.service import VersionAnswer
from lakehand.app.alerting import Alerting
from lakehand.app.home import Identity, own_paths, prepare_database_file, take_identity
from lakehand.app.locations import PathResolver, boundaries, keep_apart, path_guard, recogniser, warehouses_of
from lakehand.app.plugins import EVERY, PluginConfig, load, storage_properties
from lakehand.app.setting_groups import OidcSettings, TelemetrySettings
from lakehand.app.settings import Settings
from lakehand.core.cpu_share import CpuShare
from lakehand.core.feed import ChangeFeed
from lakehand.core.intake.commit_events import CommitIntake
from lakehand.core.intake.notifications import Intake, IntakeCache
from lakehand.core.loops.cleaning import FleetRecorder, HistoryCleaner
from lakehand.core.loops.completer import Completer
from lakehand.core.loops.coordinator import Coordinator
from lakehand.core.loops.dispatcher import Dispatcher
from lakehand.core.loops.draining import Drain
from lakehand.core.loops.engine_supervisor import EngineSupervisor
from lakehand.core.loops.loop import Loop
from lakehand.core.loops.monitor import Monitor
from lakehand.core.loops.prober import Prober
from lakehand.core.loops.rescuer import Rescuer
from lakehand.core.loops.telemetry import RunSink, Telemetry
from lakehand.core.plugins.health_reader import HealthReader
from lakehand.core.plugins.pools import WorkerPools
from lakehand.core.plugins.recovery import Recovery
from lakehand.core.plugins.registry import Plugins
from lakehand.core.plugins.runtimes import Runtimes
from lakehand.core.ports import NoVerifier, PluginReport, Store, TokenVerifier
from lakehand.core.rate_limits import RateLimiter
from lakehand.core.services.access import AccessService
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.core.services.catalogs import CatalogService
from lakehand.core.services.drains import DrainService
from lakehand.core.services.explain import Explainer, effective_settings
from lakehand.core.services.fleet import FleetService
from lakehand.core.services.operations import OperationService
from lakehand.core.services.services import Services
from lakehand.core.services.tables import HealthService, TableService
from lakehand.domain.access import RESERVED, Role
from lakehand.domain.errors import Invalid
from lakehand.domain.operations import Handle, InstanceState, Operation
from lakehand.formats.hudi.notifications import HudiNotifications
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.spi.engines import EngineContext
from lakehand.storage import WITHIN
from lakehand.store import migrate, open_store

log = logging.getLogger(__name__)
BUSY_PACE, IDLE_PACE = 0.1, 1.0  # seconds between two rounds of the monitor
DISPATCH_PACE, COORDINATE_PACE, PROBE_PACE, RESCUE_PACE = 1.0, 1.0, 1.0, 5.0
SUPERVISE_PACE, ALIVE_PACE, CLEAN_PACE, RECORD_PACE = 1.0, 20.0, 600.0, 60.0
ALERT_PACE, SEND_PACE = 15.0, 5.0
DRAIN_PACE = 2.0  # seconds between two reports of an instance that is draining
THREADS = 8  # that evaluate tables of one format at once
FEW = 4  # for other calls into one plugin
# Seconds for one call into a plugin before it is abandoned. Less than a lease, where one is held meanwhile.
EVALUATE_TIMEOUT, ADMIT_TIMEOUT, VERIFY_TIMEOUT, ENGINE_TIMEOUT = 60.0, 45.0, 120.0, 30.0
HAND_OVER = timedelta(seconds=15)  # for work that was stopped to be verified and handed over
CLOSE_TIMEOUT = 10.0  # seconds for the calls that are under way when the service stops
CACHE_TIME = timedelta(seconds=1)  # of known tables and the database's time in the intake
CLAIMING = ("coordinator", "dispatcher", "prober", "monitor", "rescuer", "alert-sender", "catalogs")
HUDI_NOTIFICATIONS = HudiNotifications()
TELEMETRY_ADVICE = "install it with: pip install 'lakehand[telemetry]'"


class Service:
    """A running instance: the services that interfaces call, and the loops behind them."""

    def __init__(
        self, settings: Settings, identity: Identity, store: Store, plugins: Plugins, metrics: PrometheusMetrics
    ) -> None:
        self.settings, self.identity, self.store, self.plugins, self.metrics = (
            settings,
            identity,
            store,
            plugins,
            metrics,
        )
        self.loops: dict[str, Loop] = {}
        self.shared: dict[str, Any] = {"store": store, "plugins": plugins, "metrics": metrics}
        warehouses, own = warehouses_of(settings.all_warehouses), own_paths(settings)
        keep_apart(warehouses, own)
        resolver = PathResolver()
        check_path = path_guard(warehouses, own, resolver)
        self.runtimes = Runtimes(
            store=store, plugins=plugins, check_path=check_path, catalogs=settings.catalog_map(),
            draw_boundary=boundaries(warehouses, check_path), real_path=resolver.realpath,
            warehouses=warehouses.prefixes,
        )  # fmt: skip
        self.recovery = Recovery(plugins=plugins, runtimes=self.runtimes, since=store.clock.now())
        self.drain, self.audit = Drain(), AuditTrail(store=store)
        self.drains = DrainService(
            store=store, audit=self.audit, drain=self.drain, holder=identity.id, evaluations=self.count_unfinished,
            messages=lambda: self.alerting.sender.unfinished, wake=self.wake_up("alive", *CLAIMING),
        )  # fmt: skip
        self.alerting = Alerting(settings, store, metrics, identity.id, self.wake_up("alert-sender"), audit=self.audit)
        self.alerting.sender.drain = self.drain
        self.telemetry = build_telemetry(settings.telemetry, store, identity.id)
        self.make_pools()
        self.health_reader = HealthReader(plugins=plugins, pools=self.count_pools)
        self.audit = AuditTrail(store=store)
        self.tables = TableService(
            store=store, audit=self.audit, plugins=plugins, warehouses=warehouses, check_path=check_path,
            wake=self.wake_up("coordinator"), real_path=resolver.realpath,
            recognise=recogniser(plugins.formats, storage_properties(settings.plugin_configs()), check_path),
            first_actions={HUDI_NOTIFICATIONS.format: HUDI_NOTIFICATIONS.first_actions},
            heartbeat_timeout=settings.heartbeat_timeout,
        )  # fmt: skip
        self.catalogs = CatalogService(
            store=store, plugins=plugins, tables=self.tables, audit=self.audit, catalogs=settings.served_catalogs(),
            heartbeat_timeout=settings.heartbeat_timeout,
        )  # fmt: skip
        self.operations = OperationService(
            store=store, plugins=plugins, tables=self.tables, rules=HUDI_NOTIFICATIONS, audit=self.audit,
            wake=self.wake_up("dispatcher", "monitor"),
        )  # fmt: skip
        self.fleet = FleetService(store=store)
        self.intake = Intake(
            store=store, warehouses=warehouses, heartbeat_timeout=settings.heartbeat_timeout, rules=HUDI_NOTIFICATIONS,
            rate_limiter=RateLimiter(per_minute=settings.new_tables_per_minute),
            wake=self.wake_up("coordinator", "dispatcher"), cache=IntakeCache(store=store, keep=CACHE_TIME),
            cpu_share=self.cpu_share,
        )  # fmt: skip
        self.commits = CommitIntake(
            intake=self.intake, plugins=plugins, catalogs=settings.served_catalogs(),
            sync_catalogs=self.wake_up("catalogs"), on_results=self.metrics.notifications,
        )  # fmt: skip
        self.health = HealthService(store=store)
        self.access = AccessService(
            store=store, audit=self.audit, tokens=settings.token_secrets(), verifier=build_verifier(settings)
        )
        self.make_loops()
        self.services = self.build_services()
        self.feed = ChangeFeed(store=store)

    def make_pools(self) -> None:
        lease, self.cpu_share = self.settings.lease.total_seconds(), CpuShare()
        rest = self.cpu_share.rest
        self.engine_pools = WorkerPools(purpose="engine", size=1, timeout=min(ENGINE_TIMEOUT, lease / 2))
        self.evaluate_pools = WorkerPools(purpose="evaluate", size=THREADS, timeout=EVALUATE_TIMEOUT, rest=rest)
        self.dispatch_pools = WorkerPools(purpose="dispatch", size=FEW, timeout=min(ADMIT_TIMEOUT, lease * 0.75))
        self.complete_pools = WorkerPools(purpose="complete", size=FEW, timeout=VERIFY_TIMEOUT)
        self.count_pools = WorkerPools(purpose="count", size=FEW, timeout=EVALUATE_TIMEOUT, rest=rest)
        self.pools = (
            self.engine_pools, self.evaluate_pools, self.dispatch_pools, self.complete_pools, self.count_pools,
            self.alerting.pools, self.alerting.test_pools,
        )  # fmt: skip

    def make_loops(self) -> None:
        settings, monitor = self.settings, self.build_monitor()
        dispatcher = self.dispatcher = self.build_dispatcher()
        self.explainer = Explainer(store=self.store, plugins=self.plugins, waits=dispatcher.waits)
        self.rescuer = Rescuer(
            store=self.store, metrics=self.metrics, holder=self.identity.id, time_to_live=settings.lease,
            margin=settings.lease_margin, recovery=self.recovery, drain=self.drain,
        )  # fmt: skip
        prober = self.prober = Prober(
            **self.shared, runtimes=self.runtimes, pools=self.evaluate_pools, on_change=self.wake_up("coordinator"),
            drain=self.drain,
        )  # fmt: skip
        coordinator = self.coordinator = Coordinator(
            **self.shared, runtimes=self.runtimes, holder=self.identity.id, pools=self.evaluate_pools,
            health=self.health_reader, on_stored=self.wake_up("dispatcher"), drain=self.drain,
        )  # fmt: skip
        supervisor = self.supervisor = EngineSupervisor(
            **self.shared, holder=self.identity.id, host=os.uname().nodename, version=lakehand.__version__,
            pools=self.pools, state_of_drain=lambda: self.drains.report().state,
        )  # fmt: skip
        cleaner = HistoryCleaner(store=self.store, keep_history=settings.keep_history, keep_audit=settings.keep_audit)
        recorder = FleetRecorder(store=self.store, metrics=self.metrics, keep_history=settings.keep_history)
        alerts = self.alerting.build_monitor(self.plugins, lambda: dict(supervisor.healths))
        steps: dict[str, tuple[Callable[[], bool], Callable[[], float]]] = {
            "prober": (prober.run_once, lambda: PROBE_PACE),
            "coordinator": (coordinator.run_once, lambda: COORDINATE_PACE),
            "dispatcher": (dispatcher.run_once, lambda: DISPATCH_PACE),
            "monitor": (monitor.run_once, lambda: BUSY_PACE if monitor.live else IDLE_PACE),
            "rescuer": (self.rescuer.run_once, lambda: RESCUE_PACE),
            "engine-supervisor": (supervisor.run_once, lambda: SUPERVISE_PACE),
            "alive": (supervisor.report_alive, lambda: DRAIN_PACE if self.drain.is_on else ALIVE_PACE),
            "history-cleaner": (cleaner.run_once, lambda: CLEAN_PACE),
            "fleet-recorder": (recorder.run_once, lambda: RECORD_PACE),
            "alerts": (alerts.run_once, lambda: ALERT_PACE),
            "alert-sender": (self.alerting.sender.run_once, lambda: SEND_PACE),
            "catalogs": (self.sync_catalogs, settings.catalog_sync.total_seconds),
        }
        for name, (step, pace) in steps.items():
            self.loops[name] = Loop(name=name, run_once=step, pause=pace, metrics=self.metrics)
        for name in ("prober", "coordinator"):
            self.loops[name].rest = self.cpu_share.rest

    def build_dispatcher(self) -> Dispatcher:
        return Dispatcher(
            **self.shared, runtimes=self.runtimes, ids=SystemIdSource(), holder=self.identity.id,
            time_to_live=self.settings.lease, limits=self.settings.dispatch_limits(self.plugins),
            pools=self.dispatch_pools, recovery=self.recovery, on_submitted=self.wake_up("monitor"),
            observer=self.telemetry, drain=self.drain,
        )  # fmt: skip

    def build_monitor(self) -> Monitor:
        completer = Completer(
            **self.shared, runtimes=self.runtimes, ids=SystemIdSource(), policy=self.settings.retry_policy(),
            recovery=self.recovery, health=self.health_reader, on_completed=self.wake_up("dispatcher", "coordinator"),
            observer=self.telemetry, drain=self.drain,
        )  # fmt: skip
        return Monitor(
            **self.shared, completer=completer, recovery=self.recovery, holder=self.identity.id,
            time_to_live=self.settings.lease, engine_pools=self.engine_pools, table_pools=self.complete_pools,
            drain=self.drain,
        )  # fmt: skip

    def build_services(self) -> Services:
        store, python = self.store, platform.python_version()
        return Services(
            about=VersionAnswer(version=lakehand.__version__, instance=self.identity.id, python=python),
            tables=self.tables, operations=self.operations, alerts=self.alerting.service, catalogs=self.catalogs,
            fleet=self.fleet, explainer=self.explainer, health=self.health, access=self.access, audit=self.audit,
            drains=self.drains, events=store.events, instances=store.instances,
            clock=store.clock, plugins=self.plugin_reports, settings_of=partial(effective_settings, self.plugins),
            readiness=self.readiness,
        )  # fmt: skip

    def sync_catalogs(self) -> bool:
        return False if self.drain.is_on else self.catalogs.run_once()

    def count_unfinished(self) -> int:
        """Evaluations and dispatches that are under way here."""
        return self.coordinator.unfinished + self.prober.unfinished + len(self.dispatcher.in_flight)

    def wake_up(self, *names: str) -> Callable[[], None]:
        """A function that wakes these loops, also before they are built."""

        def wake() -> None:
            for name in names:
                if name in self.loops:
                    self.loops[name].wake()

        return wake

    def start(self, only: Collection[str] = ()) -> None:
        """Take up what a former process of this home left, then run: all loops, or only those that are named."""
        self.rescuer.adopt()
        self.alerting.sender.adopt()
        for name, loop in self.loops.items():
            if not only or name in only:
                loop.start()

    def finish_work(self) -> None:
        """On SIGTERM, while requests are still answered: claim nothing new, and let running work end in time."""
        settings, drain = self.settings, self.drain
        if settings.drain_timeout is None and not settings.stop_driver:
            return  # a restart finds all that the engines have
        if not drain.is_on:
            self.drains.begin_now(by="SIGTERM")
        if not self.drains.wait(settings.drain_timeout or timedelta()) and settings.stop_driver:
            self.drains.begin_now(by=drain.by, timeout=timedelta())
            self.drains.wait(HAND_OVER)

    def stop(self) -> None:
        """Stop all loops, and hand back what no engine has.

        What runs goes on under its lease, for a restart to find, unless ``stop_driver`` is set.
        """
        stops = self.settings.stop_driver
        self.drain.begin(by="stop", timeout=timedelta() if stops else None, takes_back=stops)
        self.feed.close(timeout=CLOSE_TIMEOUT)
        for name, loop in self.loops.items():
            if name != "monitor":
                loop.stop()
        if self.settings.stop_driver:
            self.stop_engines()
        self.loops["monitor"].stop()
        for pools in self.pools:
            # Counting and tests change nothing.
            pools.close(timeout=0.0 if pools.purpose in ("count", "alert-test") else CLOSE_TIMEOUT)
        self.hand_back()
        self.alerting.close()
        self.telemetry.close()
        self.plugins.close()
        self.identity.release()

    def stop_engines(self) -> None:
        """With the monitor still running: it verifies what was stopped, and hands it over."""
        for engine in self.plugins.engines.values():
            try:
                getattr(engine, "stop", lambda: None)()
            except Exception:  # what it runs keeps its lease
                log.exception("an engine was not stopped", extra={"engine": engine.name})
        self.drains.wait(HAND_OVER)

    def hand_back(self) -> None:
        """Without a database the others wait until the leases end."""
        try:
            self.rescuer.hand_back()
            if not self.alerting.sender.unfinished:
                self.store.alerts.release(self.identity.id)
            self.supervisor.report_alive(InstanceState.STOPPED)
        except Exception as error:  # whatever it is, the process ends
            log.warning("the leases were not handed back", extra={"reason": str(error)})

    def plugin_reports(self) -> Sequence[PluginReport]:
        """Every plugin as it is now, and each receiver of alerts with its alerter."""
        return [*self.plugins.listing(), *self.alerting.reports()]

    def readiness(self) -> Mapping[str, str]:
        """Each part that requests need, with "ok" or what is wrong."""
        parts = {"database": self.database_problem(), "plugins": self.plugin_problem()}
        return parts | ({"instance": f"draining, asked by {self.drain.by}"} if self.drain.is_on else {})

    def database_problem(self) -> str:
        """Reading may work while writing does not, for instance on a full disk or a standby."""
        if problem := self.store.problem():
            return problem
        try:
            self.store.check_writes()
        except Exception as error:
            return self.settings.masks().hide(f"{type(error).__name__}: {error}")
        return "ok"

    def plugin_problem(self) -> str:
        """What is on still serves: only a service without an engine or without a factory is not ready."""
        if self.plugins.engines and self.plugins.factories:
            return "ok"
        broken = [r for r in self.plugins.reports if r.state == "broken"]
        return "; ".join(f"{r.name}: {r.reason}" for r in broken) or "nothing is on"


def build(settings: Settings, identity: Identity | None = None, *, umask: int | None = None) -> Service:
    """Wire one instance. The database must have been migrated, best by ``migrated``."""
    identity = identity or take_identity(settings.home)
    store: Store = open_store(settings.database_url)
    metrics = PrometheusMetrics()
    plugins = load(bounded_configs(settings), engine_context(settings, umask), masks=settings.masks())
    metrics.add_plugin_metrics(plugins.metrics)
    gc.collect()
    gc.freeze()  # what was loaded so far stays: the collector need not walk through it again and again
    return Service(settings, identity, store, plugins, metrics)


def bounded_configs(settings: Settings) -> Mapping[tuple[str, str], PluginConfig]:
    """Formats read nothing outside of the warehouses, whatever a table's metadata names."""
    configs = dict(settings.plugin_configs())
    every = configs["table-format", EVERY]
    within = {WITHIN: "\n".join(warehouses_of(settings.all_warehouses).prefixes)}
    configs["table-format", EVERY] = replace(every, properties={**every.properties, **within})
    return configs


def migrated(settings: Settings) -> Identity:
    """Take the home, then bring its database up to date: nobody migrates under a service that runs."""
    identity = take_identity(settings.home)
    try:
        keep_apart(warehouses_of(settings.all_warehouses), own_paths(settings))
        prepare_database_file(settings.database_url)
        migrate.upgrade(settings.database_url)
    except BaseException:
        identity.release()
        raise
    return identity


def engine_context(settings: Settings, umask: int | None) -> Callable[[str, tuple[str, ...]], EngineContext]:
    def context(engine: str, formats: tuple[str, ...]) -> EngineContext:
        home: Path = settings.home / "engines" / engine
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        catalogs = tuple(settings.catalog_map().values())
        return EngineContext(
            home=home, formats=formats, jars=settings.jar_folder, catalogs=catalogs, umask=umask,
            storage=settings.storage.properties(), storage_schemes=settings.storage_schemes,
        )  # fmt: skip

    return context


class SystemIdSource:
    """Fresh handles, and random numbers for jitter."""

    def handle(self, operation: Operation) -> Handle:
        return Handle(f"op-{operation.id}-{operation.run_times + 1}-{secrets.token_hex(4)}")

    def random(self) -> float:
        return random()


def build_telemetry(settings: TelemetrySettings, store: Store, instance: str) -> Telemetry:
    return Telemetry(store, list(sinks(settings, store, instance)))


def sinks(settings: TelemetrySettings, store: Store, instance: str) -> Iterator[RunSink]:
    """The libraries are imported only where they are wanted."""
    timeout = settings.timeout.total_seconds()
    if settings.otlp_endpoint:
        try:
            from lakehand.observe.traces import TraceSink
        except ImportError as error:
            raise Invalid(
                f"telemetry.otlp_endpoint is set, but OpenTelemetry is missing ({error}): {TELEMETRY_ADVICE}"
            ) from error
        about = {"service.version": lakehand.__version__, "service.instance.id": instance}
        headers = {name: secret.get_secret_value() for name, secret in settings.otlp_headers.items()}
        yield TraceSink(settings.otlp_endpoint, headers=headers, timeout=timeout, about=about, now=store.clock.estimate)
    if settings.openlineage_url:
        try:
            from lakehand.observe.lineage import LineageSink
        except ImportError as error:
            raise Invalid(
                f"telemetry.openlineage_url is set, but OpenLineage is missing ({error}): {TELEMETRY_ADVICE}"
            ) from error
        key = settings.openlineage_api_key.get_secret_value() if settings.openlineage_api_key else ""
        yield LineageSink(
            settings.openlineage_url, namespace=settings.namespace, api_key=key, timeout=timeout,
            now=store.clock.estimate,
        )  # fmt: skip


def build_verifier(settings: Settings) -> TokenVerifier:
    """It begins to read the issuer's keys at once, and does not wait for them."""
    return build_oidc(settings.oidc) if settings.oidc.issuer else NoVerifier()


def build_oidc(oidc: OidcSettings) -> TokenVerifier:
    from lakehand.oidc import ClaimRules, Documents, Issuer, IssuerKeys, OidcVerifier

    assert oidc.issuer is not None
    documents = Documents(verify=trusted(oidc.ca_file) if oidc.ca_file else None)
    keys = IssuerKeys(Issuer(url=oidc.issuer, documents=documents, jwks_url=oidc.jwks_url or "").read_keys)
    keys.read_again()
    rules = ClaimRules(
        roles={value: Role(role) for value, role in oidc.roles.items()},
        roles_claim=oidc.roles_claim,
        name_claim=oidc.name_claim or "",
        owner_claim=oidc.owner_claim or "",
        default_role=Role(oidc.default_role) if oidc.default_role else None,
        reserved=RESERVED,
    )
    return OidcVerifier(
        issuer=oidc.issuer,
        audience=tuple(oidc.audience),
        algorithms=frozenset(oidc.algorithms),
        keys=keys,
        rules=rules,
    )


def trusted(file: Path) -> ssl.SSLContext:
    """Trusts what these CAs have signed, and nothing else."""
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:  # also if there is no certificate in it
        raise Invalid(
            f"oidc.ca_file: {file} cannot be used ({error.strerror or error}): it must hold certificates in PEM"
        ) from None
