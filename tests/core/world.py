# SPDX-License-Identifier: Apache-2.0
"""A small world for the loops: a real SQLite store, passed time, and tables and an engine that tests script."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from lakehand.api.tables import ChangedTable
from lakehand.core.intake.notifications import Intake
from lakehand.core.loops.completer import Completer
from lakehand.core.loops.coordinator import Coordinator
from lakehand.core.loops.dispatcher import Dispatcher
from lakehand.core.loops.draining import Drain
from lakehand.core.loops.monitor import Monitor
from lakehand.core.loops.prober import Prober
from lakehand.core.loops.rescuer import Rescuer
from lakehand.core.loops.telemetry import NoObserver, RunObserver
from lakehand.core.overlaps import unresolved
from lakehand.core.plugins.health_reader import HealthReader
from lakehand.core.plugins.pools import Task, WorkerPools
from lakehand.core.plugins.proxies import proxy_of
from lakehand.core.plugins.recovery import Recovery
from lakehand.core.plugins.registry import Plugins
from lakehand.core.plugins.runtimes import Runtimes
from lakehand.core.ports import Store
from lakehand.core.rate_limits import RateLimiter
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.core.services.drains import DrainService
from lakehand.core.services.operations import OperationService
from lakehand.core.services.tables import TableService
from lakehand.domain.access import Caller, Role
from lakehand.domain.actions import Action
from lakehand.domain.locations import Boundary, Warehouses
from lakehand.domain.operations import Handle, InstanceId, Operation, Status
from lakehand.domain.processes import Drop, Finding, Instant, Json, RetryPolicy, Skip, TableProcess, Verdict
from lakehand.domain.rules import Limits
from lakehand.domain.tables import Format, Table, TableReference, TableSpec
from lakehand.formats.hudi.notifications import HudiNotifications
from lakehand.spi import (
    METADATA_TRIGGER,
    EngineContext,
    EngineHealth,
    EngineState,
    EngineStatus,
    ExecuteEngine,
    LeaseGrant,
    ProcessFactory,
    ProcessTriggerStrategy,
    TableFormat,
    TableRuntime,
    Work,
)
from tests.domain.words import COMPACTION

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)
ANN = Caller(name="ann", role=Role.ADMIN)
HUDI = Format("hudi")
CLEAN = Action.register("clean")
TIME_TO_LIVE = timedelta(seconds=60)


@dataclass
class PassedClock:
    """Time that moves when a test says so."""

    at: datetime = NOON

    def now(self) -> datetime:
        return self.at

    estimate = now

    def pass_by(self, **amount: float) -> None:
        self.at += timedelta(**amount)


class AtOnce(WorkerPools):
    """WorkerPools that do what they are given on the spot."""

    def __init__(self) -> None:
        super().__init__(purpose="test", size=1, timeout=60.0)

    def submit_all(self, name: str, tasks: Sequence[Task]) -> None:
        for task in tasks:
            task.run()


@dataclass(frozen=True)
class PretendSnapshot:
    token: str
    numbers: Mapping[str, Json] = field(default_factory=dict)


class PretendTables(TableFormat):
    """Tables in memory: what their timelines hold is up to the test."""

    format = HUDI

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}
        self.plans: dict[str, set[str]] = {}
        self.completed: dict[str, list[str]] = {}
        self.broken: set[str] = set()
        self.numbers: dict[str, Mapping[str, Json]] = {}
        self.probes = 0

    def probe(self, reference: TableReference) -> str:
        location = reference.location
        self.probes += 1
        if location in self.broken:
            raise OSError("the storage is on fire")
        return self.tokens.get(location, "t0")

    def inspect(self, reference: TableReference) -> PretendSnapshot:
        return PretendSnapshot(token=self.probe(reference), numbers=self.numbers.get(reference.location, {}))

    def plan(self, location: str, instant: str) -> None:
        self.plans.setdefault(location, set()).add(instant)
        self.tokens[location] = f"planned {instant}"

    def complete(self, location: str, instant: str) -> None:
        self.plans[location].discard(instant)
        self.completed.setdefault(location, []).append(instant)
        self.tokens[location] = f"completed {instant}"


class PretendFactory(ProcessFactory):
    """Runs the plans that its pretend tables hold, by the strategies that a test sets; ``says`` overrides an action."""

    name = "pretend"

    def __init__(self, tables: PretendTables) -> None:
        self.tables = tables
        self.triggered = 0
        self.asked: list[tuple[datetime, Action]] = []
        self.strategies: dict[Action, ProcessTriggerStrategy] = {}
        self.says: dict[Action, Callable[[TableRuntime], Any]] = {}

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {HUDI: frozenset({COMPACTION, CLEAN})}

    def trigger_strategy(self, format: Format, action: Action) -> ProcessTriggerStrategy:
        return self.strategies.get(action, METADATA_TRIGGER)

    def times_asked(self, action: Action) -> list[datetime]:
        return [at for at, about in self.asked if about == action]

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        self.triggered += 1
        self.asked.append((table.now, action))
        if action in self.says:
            return self.says[action](table)  # type: ignore[no-any-return]
        table.snapshot()
        known = {o.instant for o in table.operations() if o.status is not Status.DROPPED or o.is_deleted}
        todo = sorted(self.tables.plans.get(table.table.location, set()) - known)
        if not todo or action != COMPACTION:
            return Skip(reason="no pending plan")
        return TableProcess(action=action, job="pretend.run", instant=Instant(todo[0]), reason="a plan waits")

    def admit(self, table: TableRuntime, operation: Operation) -> TableProcess | Skip | Drop:
        if operation.instant not in self.tables.plans.get(table.table.location, set()):
            return Drop(reason="the plan is gone from the timeline")
        return replace(operation.process, job="pretend.run")

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        location = table.table.location
        if location in self.tables.broken:
            raise OSError("the storage is on fire")
        if process.instant in self.tables.completed.get(location, []):
            return Verdict(finding=Finding.DONE, reason="completed", numbers={"files": 1})
        if process.instant in self.tables.plans.get(location, set()):
            return Verdict(finding=Finding.NOT_DONE, reason="still pending")
        return Verdict(finding=Finding.GONE, reason="gone")


class PretendEngine(ExecuteEngine):
    """An engine in memory: keeps the contract, runs nothing; tests say what happened to each handle."""

    name = "spark"

    def __init__(self) -> None:
        self.works: dict[Handle, Work] = {}
        self.statuses: dict[Handle, EngineStatus] = {}
        self.untils: dict[Handle, LeaseGrant] = {}
        self.canceled: list[Handle] = []
        self.forgotten: list[Handle] = []
        self.beat = 0
        self.slots = 8
        self.is_deaf = False

    def open(self, properties: Mapping[str, str], context: EngineContext) -> None: ...

    def close(self) -> None: ...

    @property
    def capacity(self) -> int:
        return self.slots

    def heartbeat_token(self) -> str | None:
        self.beat += 1
        return f"boot:{self.beat}"

    def submit(self, work: Work, handle: Handle, grant: LeaseGrant) -> None:
        if self.is_deaf or handle in self.works:
            return
        self.works[handle] = work
        self.untils[handle] = grant
        self.statuses[handle] = EngineStatus(state=EngineState.QUEUED)

    def renew(self, handles: Collection[Handle], grant: LeaseGrant) -> None:
        self.untils.update(dict.fromkeys(handles, grant))

    def status(self, handles: Collection[Handle]) -> Mapping[Handle, EngineStatus]:
        return {h: self.statuses.get(h, EngineStatus(state=EngineState.ABSENT)) for h in handles}

    def cancel(self, handle: Handle) -> None:
        self.canceled.append(handle)

    def logs(self, handle: Handle, *, offset: int = 0, limit: int = 65536) -> str:
        return f"log of {handle}"[offset : offset + limit]

    def forget(self, handles: Collection[Handle]) -> None:
        self.forgotten.extend(handles)

    def health(self) -> EngineHealth:
        return EngineHealth(is_up=True, detail="pretends to be up")

    def says(self, state: EngineState, **rest: Any) -> None:
        """Everything it has is now in this state."""
        for handle in self.works:
            if handle not in self.forgotten:
                self.statuses[handle] = EngineStatus(state=state, **rest)


class Counting:
    """Metrics that remember the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **_: self.calls.append((name, args))

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [args for called, args in self.calls if called == name]


class Numbered:
    """Handles in order, and no jitter."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.count = 0

    def handle(self, operation: Operation) -> Handle:
        self.count += 1
        return Handle(f"{self.prefix}-{operation.id}-{operation.run_times + 1}-{self.count}")

    def random(self) -> float:
        return 0.0


class TimedStore:
    """A store whose clock is a test's."""

    def __init__(self, store: Any, clock: PassedClock) -> None:
        self._store = store
        self.clock: Any = clock
        self.operations: Any = TimedOperations(store.operations, clock)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class TimedOperations:
    """Claims that begin at a test's time."""

    def __init__(self, operations: Any, clock: PassedClock) -> None:
        self._operations, self._clock = operations, clock

    def claim(self, operation: Operation, **values: Any) -> Operation | None:
        found: Operation | None = self._operations.claim(operation, **{"now": self._clock.now(), **values})
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)


class World:
    """One instance with all its loops, stepped by hand. Several worlds may share one store, clock and tables."""

    def __init__(
        self,
        store: Any,
        *,
        name: str = "one",
        clock: PassedClock | None = None,
        tables: PretendTables | None = None,
        limits: Limits | None = None,
        pools: Callable[[], WorkerPools] | None = None,
        real_path: Callable[[str], str] = unresolved,
    ) -> None:
        self.clock = clock or PassedClock()
        self.store: Store = TimedStore(store, self.clock)
        self.holder = InstanceId(name)
        self.tables = tables or PretendTables()
        self.factory = PretendFactory(self.tables)
        self.engine = PretendEngine()
        self.metrics: Any = Counting()
        self.limits = limits or Limits()
        self.real_path = real_path
        self.make_pools = pools or AtOnce
        self.observer: RunObserver = NoObserver()
        factory = proxy_of(self.factory)
        pairs: dict[tuple[Format, Action], ProcessFactory] = {(HUDI, COMPACTION): factory, (HUDI, CLEAN): factory}
        self.plugins = Plugins(
            formats={HUDI: proxy_of(self.tables)}, factories=pairs, engines={"spark": proxy_of(self.engine)}
        )
        self.restart()

    def restart(self) -> None:
        """A new process: all memory is gone, the store and the engine are not."""
        warehouses = Warehouses(prefixes=("/lake",))
        runtimes = Runtimes(
            store=self.store, plugins=self.plugins, draw_boundary=self.draw_boundary,
            check_path=lambda location: self.check_path(location),  # noqa: PLW0108 - a test may exchange it later
            real_path=self.real_path,
        )  # fmt: skip
        ids = Numbered(self.holder)
        nothing = lambda: None  # noqa: E731
        self.pools = [self.make_pools() for _ in range(5)]
        self.evaluate_pools, self.dispatch_pools, self.engine_pools, self.complete_pools = self.pools[:4]
        self.count_pools = self.pools[4]
        self.drain = Drain()
        shared: dict[str, Any] = {"store": self.store, "metrics": self.metrics, "holder": self.holder}
        self.recovery = Recovery(plugins=self.plugins, runtimes=runtimes, since=self.clock.now())
        self.health = HealthReader(plugins=self.plugins, pools=self.count_pools)
        self.prober = Prober(
            store=self.store, plugins=self.plugins, runtimes=runtimes, metrics=self.metrics,
            pools=self.evaluate_pools, on_change=nothing, drain=self.drain,
        )  # fmt: skip
        self.coordinator = Coordinator(
            plugins=self.plugins, runtimes=runtimes, pools=self.evaluate_pools, health=self.health, on_stored=nothing,
            drain=self.drain, **shared,
        )  # fmt: skip
        self.dispatcher = Dispatcher(
            plugins=self.plugins, runtimes=runtimes, ids=ids, time_to_live=TIME_TO_LIVE, limits=self.limits,
            pools=self.dispatch_pools, recovery=self.recovery, on_submitted=nothing,
            observer=self.observer, drain=self.drain, **shared,
        )  # fmt: skip
        completer = Completer(
            store=self.store, plugins=self.plugins, runtimes=runtimes, metrics=self.metrics, ids=ids,
            recovery=self.recovery, policy=RetryPolicy(max_attempts=3), health=self.health,
            on_completed=nothing, observer=self.observer, drain=self.drain,
        )  # fmt: skip
        self.monitor = Monitor(
            plugins=self.plugins, completer=completer, recovery=self.recovery, time_to_live=TIME_TO_LIVE,
            engine_pools=self.engine_pools, table_pools=self.complete_pools, drain=self.drain,
            **shared,
        )  # fmt: skip
        self.rescuer = Rescuer(
            time_to_live=TIME_TO_LIVE, margin=timedelta(seconds=10), recovery=self.recovery, drain=self.drain,
            **shared,
        )  # fmt: skip
        self.drains = DrainService(
            store=self.store, audit=AuditTrail(store=self.store), drain=self.drain, holder=self.holder,
            evaluations=lambda: self.coordinator.unfinished + self.prober.unfinished + len(self.dispatcher.in_flight),
        )  # fmt: skip
        self.table_service = TableService(
            store=self.store, audit=AuditTrail(store=self.store), plugins=self.plugins, warehouses=warehouses,
            wake=nothing, real_path=self.real_path,
        )  # fmt: skip
        self.operations = OperationService(
            store=self.store, plugins=self.plugins, tables=self.table_service, rules=HudiNotifications(),
            audit=AuditTrail(store=self.store), wake=nothing,
        )  # fmt: skip
        self.intake = Intake(
            store=self.store, warehouses=warehouses, heartbeat_timeout=timedelta(minutes=10),
            rate_limiter=RateLimiter(per_minute=100), wake=nothing, rules=HudiNotifications(),
        )  # fmt: skip

    def check_path(self, location: str) -> None:
        """Every place is fine, unless a test says otherwise."""

    def draw_boundary(self, location: str, extra: Sequence[str]) -> Boundary:
        return Boundary(location=location, real=location, warehouses=("/lake",), extra=tuple(extra))

    def add_table(self, name: str = "trips", **changes: Any) -> Table:
        values: dict[str, Any] = {"location": f"/lake/{name}", "format": HUDI, "action_types": frozenset({COMPACTION})}
        return self.table_service.register(TableSpec(**{**values, **changes}))[0]

    def change(self, table: Table, **changes: Any) -> None:
        self.table_service.change(ANN, table.id, ChangedTable(**changes))

    def look(self) -> None:
        """The loops that find and decide, once each."""
        self.prober.run_once()
        self.coordinator.run_once()

    def turn(self) -> None:
        """Each loop once, in order."""
        self.look()
        self.dispatcher.run_once()
        self.monitor.run_once()

    def the_operation(self, table: Table) -> Operation:
        [operation] = self.store.operations.of_table(table.id, recent=10)
        return operation
