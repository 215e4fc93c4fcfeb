# SPDX-License-Identifier: Apache-2.0
"""The process factory of a format: settings, pauses, admission, refusals, dry runs and failures in one way.

A format brings its rows, its failure rules, and three functions: read (its snapshot), ``decide`` and ``verify_effect``.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, RecoverProcessFailed
from lakehand.domain.operations import Operation
from lakehand.domain.processes import Drop, Failure, Finding, Json, Remedy, Skip, TableProcess, Verdict
from lakehand.domain.tables import Format
from lakehand.spi.engines import EngineStatus
from lakehand.spi.factories import ProcessFactory, ProcessTriggerStrategy
from lakehand.spi.kit.failures import REFUSED, FailureRule, classify
from lakehand.spi.kit.rows import SettingRow
from lakehand.spi.kit.settings import FormatSettings, Values
from lakehand.spi.kit.verdicts import dry_run_verdict
from lakehand.spi.pauses import COOL_DOWN, DRY_RUN, pause
from lakehand.spi.runtimes import StateKey, TableRuntime

S = TypeVar("S")
CONFIRM = "confirm"  # in the parameters of a request: do it although the job finds it implausible
BEFORE = "before"  # in the parameters of a process: the table as the first attempt found it
KEPT = ("resource", "parallelism", "options")  # of a request: for engines that size each job, and for the next attempt
OWN_ORIGIN = "coordinator"
Admission = TableProcess | Skip | Drop | Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a table needs: why, in numbers, and what the job must know."""

    reason: str
    parameters: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext(Generic[S]):
    """What one decision reads: the table, its settings, and the operation that asks for it, if there is one."""

    table: TableRuntime
    action: Action
    values: Values
    snapshot_type: type[S]
    operation: Operation | None = None  # None: nothing is stored yet
    is_dry_run: bool = False
    is_confirmed: bool = False

    @property
    def snapshot(self) -> S:
        """Read at the first call, and the same for the whole decision."""
        snapshot = self.table.snapshot()
        assert isinstance(snapshot, self.snapshot_type)
        return snapshot

    @property
    def by_person(self) -> bool:
        """Then no threshold counts, only what is possible and safe."""
        return self.operation is not None and is_by_person(self.operation)

    @property
    def was_admitted(self) -> bool:
        """Whether the parameters are ours, and not only what someone asked for."""
        return self.operation is not None and was_admitted(self.operation)

    def first(self, key: str, now: Json) -> Json:
        """A parameter as the first admission stored it; ``now`` when this is the first."""
        assert self.operation is not None
        return self.operation.process.parameters.get(key, now) if self.was_admitted else now


class FormatFactory(ProcessFactory, Generic[S]):
    """What every factory of a format does in the same way: settings, verdicts, failures."""

    format: ClassVar[Format]
    strategies: ClassVar[Mapping[Action, ProcessTriggerStrategy]]
    dry_runs: ClassVar[frozenset[Action]] = frozenset()
    rules: ClassVar[Sequence[FailureRule]] = ()
    states: ClassVar[Sequence[StateKey[Any]]] = ()  # what it keeps per table
    snapshot_type: type[S]

    def __init__(self) -> None:
        self.settings = self.make_settings()

    @abstractmethod
    def make_settings(self) -> FormatSettings:
        """The rows of the format, before the operator's properties are known."""

    @abstractmethod
    def verify_effect(
        self, table: TableRuntime, snapshot: S, process: TableProcess, result: Mapping[str, Json]
    ) -> Verdict: ...

    def switches(self, action: Action) -> Sequence[SettingRow[bool]]:
        """The settings that switch an action off."""
        return [row for row in self.settings.rows if row.key == f"{self.name}.{action}.enabled"]

    def job_of(self, action: Action) -> str:
        return f"{self.name}.{action.replace('-', '_')}"

    def open(self, properties: Mapping[str, str]) -> None:
        self.settings.open(properties)

    def required_states(self) -> frozenset[StateKey[Any]]:
        return frozenset(self.states)

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {self.format: frozenset(self.strategies)}

    def trigger_strategy(self, format: Format, action: Action) -> ProcessTriggerStrategy:
        return self.strategies[action]

    def dry_run_actions(self) -> frozenset[Action]:
        return self.dry_runs

    def context(self, table: TableRuntime, action: Action, operation: Operation | None = None) -> DecisionContext[S]:
        """Options, confirming and trying out are for people: what the service thought of itself carries none."""
        asked = operation.process.parameters if operation and is_by_person(operation) else {}
        return DecisionContext(
            table=table, action=action, operation=operation, snapshot_type=self.snapshot_type,
            values=self.settings.of(table.config, self.options_of(action, operation) if operation else {}),
            is_dry_run=flag(asked, DRY_RUN), is_confirmed=flag(asked, CONFIRM),
        )  # fmt: skip

    def options_of(self, action: Action, operation: Operation) -> Mapping[str, str]:
        """The options of a request, by key; an unknown one is refused."""
        return self.settings.options_of(action, operation.process.parameters) if is_by_person(operation) else {}

    def snapshot_of(self, table: TableRuntime) -> S:
        snapshot = table.snapshot()
        assert isinstance(snapshot, self.snapshot_type)
        return snapshot

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        try:
            snapshot = self.snapshot_of(table)
            if process.parameters.get(DRY_RUN):
                return dry_run_verdict(process, result)
            return self.verify_effect(table, snapshot, process, result)
        except Invalid as error:
            return Verdict(finding=Finding.GONE, reason=str(error))
        except OSError as error:
            return Verdict(finding=Finding.UNREADABLE, reason=f"the table cannot be read: {error}")

    def classify(self, table: TableRuntime, operation: Operation, status: EngineStatus) -> Failure:
        return classify(self.rules, table.table, operation, status)

    def recover(self, table: TableRuntime, stored: Operation) -> TableProcess:
        if stored.process.action not in self.strategies:
            known = f"{stored.process.action}, which {self.name} does not have"
            raise RecoverProcessFailed(f"operation {stored.id} is a {known}")
        return stored.process


class PlanningFactory(FormatFactory[S]):
    """For a format whose work the factory plans itself: pauses, then a decision, which admission repeats."""

    @abstractmethod
    def decide(self, context: DecisionContext[S]) -> Need | Skip:
        """What the table needs. For a person only what is impossible is a ``Skip``."""

    def cool_down(self, values: Values, action: Action) -> timedelta:
        """The pause after a run that changed nothing."""
        return COOL_DOWN

    def has_committed(self, context: DecisionContext[S]) -> bool:
        """Whether an earlier attempt of the operation is in the table: then its process runs as it was, and ends."""
        return False

    def parameters(self, context: DecisionContext[S], need: Need) -> Mapping[str, Json]:
        """What the job must know beside what every job is told; ``identity`` and ``before`` among it."""
        return need.parameters

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        try:
            context = self.context(table, action)
            if waiting := self.waiting(context):
                return waiting
        except Invalid as error:
            return Skip(reason=str(error))
        table.snapshot()  # a table that cannot be read is no decision
        return self._wanted(context)

    def waiting(self, context: DecisionContext[S]) -> Skip | None:
        """Why nothing is decided now, without reading the table."""
        if off := context.values.switched_off(*self.switches(context.action)):
            return Skip(reason=off)
        return pause(context.table, context.action, cool_down=self.cool_down(context.values, context.action))

    def _wanted(self, context: DecisionContext[S]) -> TableProcess | Skip:
        try:
            answer = self.decide(context)
        except Invalid as error:
            return Skip(reason=str(error))
        if isinstance(answer, Skip):
            return answer
        if waiting := self.not_now(context):
            return waiting
        return self.process(context, answer)

    def process(self, context: DecisionContext[S], need: Need) -> TableProcess:
        job = self.job_of(context.action)
        return TableProcess(action=context.action, job=job, parameters=dict(need.parameters), reason=need.reason)

    def admit(self, table: TableRuntime, operation: Operation) -> Admission:
        table.snapshot()
        try:
            return self._admit(self.context(table, operation.process.action, operation), operation)
        except Invalid as error:
            return refused(operation, str(error))

    def _admit(self, context: DecisionContext[S], operation: Operation) -> Admission:
        if context.was_admitted and self.has_committed(context):
            return operation.process
        if off := context.values.switched_off(*self.switches(context.action)):
            return refused(operation, off)
        if context.is_dry_run and context.action not in self.dry_runs:
            return refused(operation, f"{context.action} has no dry run: it deletes nothing")
        need = self.decide(context)
        if isinstance(need, Need):
            waiting = None if context.by_person else self.not_now(context)
            return waiting or self._complete(context, operation, need)
        return refused(operation, need.reason if context.by_person else f"no longer needed: {need.reason}")

    def not_now(self, context: DecisionContext[S]) -> Skip | None:
        """Why what is needed waits. What a person asks for is done at once."""
        return None

    def _complete(self, context: DecisionContext[S], operation: Operation, need: Need) -> TableProcess:
        """The process with all that the job needs, from the table as it is now."""
        asked = operation.process.parameters
        parameters: dict[str, Json] = {
            **{key: asked[key] for key in KEPT if key in asked and context.by_person},
            **self.parameters(context, need),
            "location": context.table.table.location,
            "operation_tag": operation.tag,
            DRY_RUN: context.is_dry_run,
            CONFIRM: context.is_confirmed,
        }
        wanted = self.process(context, need)
        stored = operation.process if operation.process.job else replace(wanted, instant=operation.process.instant)
        return replace(stored, job=wanted.job, parameters=parameters, reason=operation.process.reason or need.reason)


def refused(operation: Operation, why: str) -> Drop | Failure:
    """What a person asked for and cannot have fails; what the service planned itself is dropped."""
    if is_by_person(operation):
        return Failure(reason=REFUSED, message=why, remedy=Remedy.FATAL)
    return Drop(reason=why)


def is_by_person(operation: Operation) -> bool:
    return operation.origin != OWN_ORIGIN


def was_admitted(operation: Operation) -> bool:
    return bool(operation.process.job) and operation.process.parameters.get("operation_tag") == operation.tag


def flag(parameters: Mapping[str, Json], name: str) -> bool:
    """Only a plain true is a yes."""
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise Invalid(f"{name} is {value!r} (from request): say true or false")
    return value
