# SPDX-License-Identifier: Apache-2.0
"""Builds the service: every object is made here, once, and handed to those who need it."""

import gc
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lakehand
from lakehand.app.boundaries import boundaries
from lakehand.app.home import own_paths, prepare_database_file
from lakehand.app.identity import Identity, SystemIdSource, take_identity
from lakehand.app.path_guard import keep_apart, path_guard, warehouses_of
from lakehand.app.plugins import load, storage_properties
from lakehand.app.recognition import recogniser
from lakehand.app.settings import Settings
from lakehand.core.catalog_service import CatalogService
from lakehand.core.completer import Completer
from lakehand.core.coordinator import Coordinator
from lakehand.core.dispatcher import Dispatcher
from lakehand.core.engine_supervisor import EngineSupervisor
from lakehand.core.explain import Explainer
from lakehand.core.history_cleaner import HistoryCleaner
from lakehand.core.intake import Intake
from lakehand.core.intake_cache import IntakeCache
from lakehand.core.loop import Loop
from lakehand.core.monitor import Monitor
from lakehand.core.operation_service import OperationService
from lakehand.core.plugin_calls.pools import WorkerPools
from lakehand.core.plugins import Plugins
from lakehand.core.ports import Store
from lakehand.core.prober import Prober
from lakehand.core.rate_limits import RateLimiter
from lakehand.core.recovery import Recovery
from lakehand.core.rescuer import Rescuer
from lakehand.core.runtimes import Runtimes
from lakehand.core.table_service import TableService
from lakehand.formats.hudi.notifications import HudiNotifications
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.spi.engines import EngineContext
from lakehand.store import migrate, open_store

BUSY_PACE, IDLE_PACE = 0.1, 1.0  # seconds between two rounds of the monitor
DISPATCH_PACE, COORDINATE_PACE, PROBE_PACE, RESCUE_PACE = 1.0, 1.0, 1.0, 5.0
CARE_PACE, ALIVE_PACE, HOUSE_PACE = 1.0, 20.0, 600.0
THREADS = 8  # that evaluate tables of one format at once
FEW = 4  # for other calls into one plugin
# Seconds for one call into a plugin before it is abandoned. Less than a lease, where one is held meanwhile.
EVALUATE_TIMEOUT, ADMIT_TIMEOUT, VERIFY_TIMEOUT, ENGINE_TIMEOUT = 60.0, 45.0, 120.0, 30.0
CACHE_TIME = timedelta(seconds=1)  # of known tables and the database's time in the intake
HUDI_NOTIFICATIONS = HudiNotifications()


@dataclass(kw_only=True)
class Service:
    """A running instance: the services that interfaces call, and the loops behind them."""

    settings: Settings
    identity: Identity
    store: Store
    plugins: Plugins
    metrics: PrometheusMetrics
    tables: TableService
    operations: OperationService
    catalogs: CatalogService
    explainer: Explainer
    intake: Intake
    rescuer: Rescuer
    loops: Mapping[str, Loop]
    pools: tuple[WorkerPools, ...]

    @property
    def instance_id(self) -> str:
        return self.identity.id

    def start(self, only: Collection[str] = ()) -> None:
        """Take up what a former process of this home left, then run: all loops, or only those that are named."""
        self.rescuer.adopt()
        for name, loop in self.loops.items():
            if not only or name in only:
                loop.start()

    def stop(self) -> None:
        """Stop moving things. What runs goes on under its lease; a restart finds it again."""
        for loop in self.loops.values():
            loop.stop()
        for pools in self.pools:
            pools.close()
        self.plugins.close()
        self.identity.release()

    def readiness(self) -> Mapping[str, str]:
        """Each part that requests need, with "ok" or what is wrong."""
        return {"database": self.database_problem(), "plugins": self.plugin_problem()}

    def database_problem(self) -> str:
        """Reading may work while writing does not, for instance on a full disk."""
        return self.store.problem() or problem_of(self.store.clock.now)

    def plugin_problem(self) -> str:
        broken = [r for r in self.plugins.reports if r.state == "broken"]
        none_on = not self.plugins.engines or not self.plugins.factories
        return "; ".join(f"{r.name}: {r.reason}" for r in broken) or "nothing is on" if none_on else "ok"


def build(settings: Settings, identity: Identity | None = None, *, umask: int | None = None) -> Service:
    """Wire one instance. The database must have been migrated, best by ``migrated``."""
    identity = identity or take_identity(settings.home)
    store: Store = open_store(settings.database_url)
    metrics = PrometheusMetrics()
    plugins = load(settings.plugin_configs(), engine_context(settings, umask))
    gc.collect()
    gc.freeze()  # what was loaded so far stays: the collector need not walk through it again and again
    return wire(settings, identity, store, plugins, metrics)


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


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What the loops share."""

    settings: Settings
    identity: Identity
    store: Store
    plugins: Plugins
    metrics: PrometheusMetrics
    runtimes: Runtimes
    recovery: Recovery
    wake: "Wake"
    engine_pools: WorkerPools
    evaluate_pools: WorkerPools
    dispatch_pools: WorkerPools
    complete_pools: WorkerPools

    @property
    def shared(self) -> Mapping[str, Any]:
        return {"store": self.store, "plugins": self.plugins, "metrics": self.metrics}

    @property
    def pools(self) -> tuple[WorkerPools, ...]:
        return (self.engine_pools, self.evaluate_pools, self.dispatch_pools, self.complete_pools)


def wire(settings: Settings, identity: Identity, store: Store, plugins: Plugins, metrics: PrometheusMetrics) -> Service:
    warehouses, own = warehouses_of(settings.all_warehouses), own_paths(settings)
    keep_apart(warehouses, own)
    loops: dict[str, Loop] = {}
    wake = wake_up(loops)
    check_path = path_guard(warehouses, own)
    runtimes = Runtimes(
        store=store, plugins=plugins, check_path=check_path, catalogs=settings.catalog_map(),
        draw_boundary=boundaries(warehouses, check_path),
    )  # fmt: skip
    recovery = Recovery(plugins=plugins, runtimes=runtimes, since=store.clock.now())
    lease = settings.lease.total_seconds()
    parts = Parts(
        settings=settings, identity=identity, store=store, plugins=plugins, metrics=metrics, wake=wake,
        runtimes=runtimes, recovery=recovery,
        engine_pools=WorkerPools(purpose="engine", size=1, timeout=min(ENGINE_TIMEOUT, lease / 2)),
        evaluate_pools=WorkerPools(purpose="evaluate", size=THREADS, timeout=EVALUATE_TIMEOUT),
        dispatch_pools=WorkerPools(purpose="dispatch", size=FEW, timeout=min(ADMIT_TIMEOUT, lease * 0.75)),
        complete_pools=WorkerPools(purpose="complete", size=FEW, timeout=VERIFY_TIMEOUT),
    )  # fmt: skip
    rescuer = Rescuer(
        store=store, metrics=metrics, holder=identity.id, time_to_live=settings.lease, margin=settings.lease_margin,
        recovery=recovery,
    )  # fmt: skip
    dispatcher = build_dispatcher(parts)
    tables = TableService(
        store=store, plugins=plugins, warehouses=warehouses, wake=wake("coordinator"), check_path=check_path,
        recognise=recogniser(plugins.formats, storage_properties(settings.plugin_configs()), check_path),
        first_actions={HUDI_NOTIFICATIONS.format: HUDI_NOTIFICATIONS.first_actions},
    )  # fmt: skip
    catalogs = CatalogService(
        store=store, plugins=plugins, tables=tables, catalogs=settings.served_catalogs(),
        heartbeat_timeout=settings.heartbeat_timeout,
    )  # fmt: skip
    loops.update(build_loops(parts, rescuer, dispatcher))
    loops["catalogs"] = Loop(
        name="catalogs", run_once=catalogs.run_once, pause=settings.catalog_sync.total_seconds, metrics=metrics
    )
    return Service(
        settings=settings, identity=identity, store=store, plugins=plugins, metrics=metrics, rescuer=rescuer,
        tables=tables, catalogs=catalogs,
        operations=OperationService(store=store, plugins=plugins, wake=wake("dispatcher", "monitor")),
        explainer=Explainer(store=store, plugins=plugins, waits=dispatcher.waits),
        intake=Intake(
            store=store, warehouses=warehouses, heartbeat_timeout=settings.heartbeat_timeout,
            rate_limiter=RateLimiter(per_minute=settings.new_tables_per_minute), wake=wake("coordinator", "dispatcher"),
            cache=IntakeCache(store=store, keep=CACHE_TIME), rules=HUDI_NOTIFICATIONS,
        ),
        loops=loops, pools=parts.pools,
    )  # fmt: skip


Wake = Callable[..., Callable[[], None]]


def wake_up(loops: Mapping[str, Loop]) -> Wake:
    """``wake("dispatcher")`` makes a function that wakes that loop, also before the loop is built."""

    def wake(*names: str) -> Callable[[], None]:
        def wake_loops() -> None:
            for name in names:
                if name in loops:
                    loops[name].wake()

        return wake_loops

    return wake


def build_loops(parts: Parts, rescuer: Rescuer, dispatcher: Dispatcher) -> Mapping[str, Loop]:
    monitor = build_monitor(parts)
    house = HistoryCleaner(store=parts.store, keep_history=parts.settings.keep_history)
    care = EngineSupervisor(
        **parts.shared, holder=parts.identity.id, host=os.uname().nodename, version=lakehand.__version__,
        pools=parts.pools,
    )  # fmt: skip
    steps: dict[str, tuple[Callable[[], bool], Callable[[], float]]] = {
        "prober": (build_prober(parts).run_once, lambda: PROBE_PACE),
        "coordinator": (build_coordinator(parts).run_once, lambda: COORDINATE_PACE),
        "dispatcher": (dispatcher.run_once, lambda: DISPATCH_PACE),
        "monitor": (monitor.run_once, lambda: BUSY_PACE if monitor.live else IDLE_PACE),
        "rescuer": (rescuer.run_once, lambda: RESCUE_PACE),
        "engine-supervisor": (care.run_once, lambda: CARE_PACE),
        "alive": (care.report_alive, lambda: ALIVE_PACE),
        "history-cleaner": (house.run_once, lambda: HOUSE_PACE),
    }
    return {n: Loop(name=n, run_once=step, pause=pace, metrics=parts.metrics) for n, (step, pace) in steps.items()}


def build_prober(parts: Parts) -> Prober:
    return Prober(
        **parts.shared, runtimes=parts.runtimes, pools=parts.evaluate_pools, on_change=parts.wake("coordinator"),
    )  # fmt: skip


def build_coordinator(parts: Parts) -> Coordinator:
    return Coordinator(
        **parts.shared, runtimes=parts.runtimes, holder=parts.identity.id, pools=parts.evaluate_pools,
        on_stored=parts.wake("dispatcher"),
    )  # fmt: skip


def build_dispatcher(parts: Parts) -> Dispatcher:
    return Dispatcher(
        **parts.shared, runtimes=parts.runtimes, ids=SystemIdSource(), holder=parts.identity.id,
        time_to_live=parts.settings.lease, limits=parts.settings.dispatch_limits(parts.plugins),
        pools=parts.dispatch_pools, recovery=parts.recovery, on_submitted=parts.wake("monitor"),
    )  # fmt: skip


def build_monitor(parts: Parts) -> Monitor:
    completer = Completer(
        **parts.shared, runtimes=parts.runtimes, ids=SystemIdSource(), policy=parts.settings.retry_policy(),
        recovery=parts.recovery, on_completed=parts.wake("dispatcher", "coordinator"),
    )  # fmt: skip
    return Monitor(
        **parts.shared, completer=completer, recovery=parts.recovery, holder=parts.identity.id,
        time_to_live=parts.settings.lease, engine_pools=parts.engine_pools, table_pools=parts.complete_pools,
    )  # fmt: skip


def engine_context(settings: Settings, umask: int | None) -> Callable[[str, tuple[str, ...]], EngineContext]:
    def context(engine: str, formats: tuple[str, ...]) -> EngineContext:
        home: Path = settings.home / "engines" / engine
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        catalogs = tuple(settings.catalog_map().values())
        return EngineContext(home=home, formats=formats, jars=settings.jar_folder, catalogs=catalogs, umask=umask)

    return context


def problem_of(question: Callable[[], object]) -> str:
    try:
        question()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ok"
