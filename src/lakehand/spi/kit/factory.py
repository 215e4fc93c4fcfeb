# SPDX-License-Identifier: Apache-2.0
"""The process factory of a format: settings, pauses, admission, refusals, dry runs and failures in one way.

A format brings its setting rows, its failure rules, and for each action how to ``decide`` and how to ``verify``.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, RecoverProcessFailed
from lakehand.domain.operations import Operation
from lakehand.domain.processes import Drop, Failure, Finding, Json, Remedy, Skip, TableProcess, Verdict
from lakehand.domain.routing import ESTIMATE
from lakehand.domain.tables import Format
from lakehand.spi.engines import EngineStatus
from lakehand.spi.factories import ProcessFactory, ProcessTriggerStrategy
from lakehand.spi.kit.failures import REFUSED, FailureRule, classify
from lakehand.spi.kit.partitions import texts
from lakehand.spi.kit.rows import SettingRow
from lakehand.spi.kit.settings import FormatSettings, Values, switches
from lakehand.spi.kit.triggers import NUM, Trigger, TriggerSettings
from lakehand.spi.kit.verdicts import dry_run_verdict, gone
from lakehand.spi.pauses import COOL_DOWN, DRY_RUN, pause
from lakehand.spi.runtimes import StateKey, TableRuntime

S = TypeVar("S")
CONFIRM = "confirm"  # in the parameters of a request: do it although the job finds it implausible
BEFORE = "before"  # in the parameters of a process: the table as the first attempt found it
CHANGED = "changed_partitions"  # in the parameters of a process: what events had named when it was decided
TAG = "operation_tag"  # in the parameters of a process: what its commits carry
KEPT = ("resource", "parallelism", "options")  # of a request: for engines that size each job, and for the next attempt
OWN_ORIGIN = "coordinator"
Admission = TableProcess | Skip | Drop | Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a table needs: why, in numbers, and what the job must know."""

    reason: str
    parameters: Mapping[str, Json] = field(default_factory=dict)
    bytes: int | None = None  # what the job reads, if metadata says so; by it the service chooses an engine

    @property
    def estimate(self) -> dict[str, Json]:
        return {} if self.bytes is None else {ESTIMATE: self.bytes}


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
        return snapshot_of(self.table, self.snapshot_type)

    @property
    def by_person(self) -> bool:
        """Then no threshold counts, only what is possible and safe."""
        return self.operation is not None and is_by_person(self.operation)

    def trigger(self, settings: TriggerSettings) -> Trigger:
        """What makes the action due. No request waits for its time."""
        strategy = NUM if self.by_person else self.values[settings.strategy]
        return Trigger(self.table.now, strategy, self.values[settings.max_age])

    @property
    def was_tried(self) -> bool:
        """Whether an earlier attempt of the operation has started."""
        return self.operation is not None and self.operation.run_times > 0

    @property
    def changed_partitions(self) -> Sequence[str]:
        """What events had named when the operation was decided; for a request, what they have named by now."""
        if self.operation is None or self.by_person:
            return self.table.changed_partitions()
        return texts(self.operation.process.parameters.get(CHANGED))

    @property
    def admitted_parameters(self) -> Mapping[str, Json]:
        """The parameters that an earlier admission stored; empty when this is the first."""
        operation = self.operation
        if operation is None or not operation.process.job or operation.process.parameters.get(TAG) != operation.tag:
            return {}
        return operation.process.parameters

    def first(self, key: str, now: Json) -> Json:
        """A parameter as the first admission stored it; ``now`` when this is the first."""
        return self.admitted_parameters.get(key, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect(Generic[S]):
    """What one verdict reads: the table after an attempt, its process, and the engine's result, if there is one."""

    table: TableRuntime
    snapshot: S
    process: TableProcess
    result: Mapping[str, Json]

    @property
    def parameters(self) -> Mapping[str, Json]:
        return self.process.parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDefinition(Generic[S]):
    """One action of a format, whole: its name and settings, when it is evaluated, what it needs, what its job must
    know, and what it has done."""

    name: Action
    settings: Sequence[SettingRow[Any]] = ()  # beside the switch, which every action has
    cool_down: SettingRow[timedelta] | None = None  # the pause after a run that changed nothing; None: the usual one
    strategy: ProcessTriggerStrategy
    decide: Callable[[DecisionContext[S]], Need | Skip]
    verify: Callable[[Effect[S]], Verdict]
    limits: Callable[[DecisionContext[S]], Mapping[str, Json]] = lambda context: {}  # beside the need's parameters
    impossible: Callable[[DecisionContext[S]], str | None] = lambda context: None  # why not, whoever asks
    not_now: Callable[[DecisionContext[S]], Skip | None] = lambda context: None  # why it waits although it is needed
    has_dry_run: bool = False
    commits: bool = True  # False: it adds no state to the table, so that no writer's commit can be lost to it
    is_optional: bool = False  # a table gets it only if somebody names it


Actions = Sequence[ActionDefinition[Any]]


class FormatFactory(ProcessFactory, Generic[S]):
    """What every factory of a format does in the same way: settings, verdicts, failures."""

    format: ClassVar[Format]
    strategies: ClassVar[Mapping[Action, ProcessTriggerStrategy]]
    dry_runs: ClassVar[frozenset[Action]] = frozenset()
    optional: ClassVar[frozenset[Action]] = frozenset()
    rows: ClassVar[Sequence[SettingRow[Any]]] = ()  # its settings
    rules: ClassVar[Sequence[FailureRule]] = ()
    states: ClassVar[Sequence[StateKey[Any]]] = ()  # what it keeps per table
    snapshot_type: type[S]

    def __init__(self) -> None:
        self.settings = self.make_settings()

    def make_settings(self) -> FormatSettings:
        """The rows of the format, before the operator's properties are known."""
        return FormatSettings(*self.rows)

    @abstractmethod
    def verify_effect(self, effect: Effect[S]) -> Verdict: ...

    def switches(self, action: Action) -> Sequence[SettingRow[bool]]:
        """The settings that switch an action off."""
        return [row for row in self.settings.rows if row.key == f"{self.name}.{action}.enabled"]

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

    def optional_actions(self) -> frozenset[Action]:
        return self.optional

    def context(self, table: TableRuntime, action: Action, operation: Operation | None = None) -> DecisionContext[S]:
        """Options, confirming and dry runs are for people: what the service planned itself has none."""
        requested = operation.process.parameters if operation and is_by_person(operation) else {}
        return DecisionContext(
            table=table, action=action, operation=operation, snapshot_type=self.snapshot_type,
            values=self.settings.of(table.config, self.options_of(action, operation) if operation else {}),
            is_dry_run=flag(requested, DRY_RUN), is_confirmed=flag(requested, CONFIRM),
        )  # fmt: skip

    def options_of(self, action: Action, operation: Operation) -> Mapping[str, str]:
        """The options of a request, by key; an unknown one is refused."""
        return self.settings.options_of(action, operation.process.parameters) if is_by_person(operation) else {}

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        try:
            snapshot = snapshot_of(table, self.snapshot_type)
            if process.parameters.get(DRY_RUN):
                return dry_run_verdict(process, result)
            return self.verify_effect(Effect(table=table, snapshot=snapshot, process=process, result=result))
        except Invalid as error:
            return gone(str(error))
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
    """For a format whose work the factory plans itself: pauses, then a decision, which admission repeats.

    A factory with ``actions`` needs no ``strategies``, ``dry_runs``, ``decide`` and ``verify_effect``; its ``rows``
    are the settings that several actions share.
    """

    actions: ClassVar[Actions] = ()
    _definitions: ClassVar[Mapping[Action, ActionDefinition[Any]]] = {}

    def __init_subclass__(cls) -> None:
        if "actions" in cls.__dict__:
            cls._definitions = {one.name: one for one in cls.actions}
            cls.strategies = {one.name: one.strategy for one in cls.actions}
            cls.dry_runs = frozenset(one.name for one in cls.actions if one.has_dry_run)
            cls.optional = frozenset(one.name for one in cls.actions if one.is_optional)
            cls.rows = (*switches(cls.name, cls._definitions), *cls.rows, *cls._rows_of_actions())

    @classmethod
    def _rows_of_actions(cls) -> Iterator[SettingRow[Any]]:
        for one in cls.actions:
            yield from one.settings
            if one.cool_down:
                yield one.cool_down

    def decide(self, context: DecisionContext[S]) -> Need | Skip:
        """What the table needs. For a person only what is impossible is a ``Skip``."""
        if why := self.why_impossible(context):
            return Skip(reason=why)
        return self._definitions[context.action].decide(context)

    def why_impossible(self, context: DecisionContext[S]) -> str | None:
        return self._definitions[context.action].impossible(context)

    def verify_effect(self, effect: Effect[S]) -> Verdict:
        return self._definitions[effect.process.action].verify(effect)

    def cool_down(self, context: DecisionContext[S]) -> timedelta:
        """The pause after a run that changed nothing."""
        known = self._definitions.get(context.action)
        return context.values[known.cool_down] if known and known.cool_down else COOL_DOWN

    def has_committed(self, context: DecisionContext[S]) -> bool:
        """Whether an earlier attempt of the operation is in the table: then its process runs as it was, and ends."""
        return False

    def parameters(self, context: DecisionContext[S], need: Need) -> Mapping[str, Json]:
        """What the job must know beside what every job gets; ``identity`` and ``before`` among it."""
        known = self._definitions.get(context.action)
        return {**need.parameters, **(known.limits(context) if known else {})}

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        try:
            context = self.context(table, action)
            if waiting := self.waiting(context):
                return waiting
        except Invalid as error:
            return Skip(reason=str(error))
        table.snapshot()  # nothing is decided about a table that cannot be read
        return self._decide_now(context)

    def waiting(self, context: DecisionContext[S]) -> Skip | None:
        """Why nothing is decided now, without reading the table."""
        if off := context.values.switched_off(*self.switches(context.action)):
            return Skip(reason=off)
        return pause(context.table, context.action, cool_down=self.cool_down(context))

    def _decide_now(self, context: DecisionContext[S]) -> TableProcess | Skip:
        try:
            need = self.decide(context)
        except Invalid as error:
            return Skip(reason=str(error))
        if isinstance(need, Skip):
            return need
        if risk := self.unsafe(context):
            return Skip(reason=f"{need.reason}; it is not done: {risk}")
        return self.not_now(context) or self.process(context, need)

    def process(self, context: DecisionContext[S], need: Need) -> TableProcess:
        job = f"{self.name}.{context.action.replace('-', '_')}"
        parameters = {**need.parameters, **need.estimate}
        return TableProcess(action=context.action, job=job, parameters=parameters, reason=need.reason)

    def admit(self, table: TableRuntime, operation: Operation) -> Admission:
        table.snapshot()
        try:
            return self._admit(self.context(table, operation.process.action, operation), operation)
        except Invalid as error:
            return refusal(operation, str(error))

    def _admit(self, context: DecisionContext[S], operation: Operation) -> Admission:
        if context.admitted_parameters and self.has_committed(context):
            return operation.process
        if off := context.values.switched_off(*self.switches(context.action)):
            return refusal(operation, off)
        if context.is_dry_run and context.action not in self.dry_runs:
            return refusal(operation, f"{context.action} has no dry run: it deletes nothing")
        need = self.decide(context)
        if isinstance(need, Need):
            if risk := self.unsafe(context):
                return refusal(operation, risk)
            waiting = None if context.by_person else self.not_now(context)
            return waiting or self._complete(context, operation, need)
        return refusal(operation, need.reason if context.by_person else f"no longer needed: {need.reason}")

    def commit_risk(self, context: DecisionContext[S]) -> str | None:
        """Why a commit could be lost when two drivers commit to this table at once, and the way out. None: it is safe.

        An action that commits is not run at this risk, whoever asks for it: a writer may commit at any time.
        """
        return None

    def unsafe(self, context: DecisionContext[S]) -> str | None:
        """The risk that a process would take; a dry run takes none."""
        known = self._definitions.get(context.action)
        is_harmless = context.is_dry_run or (known is not None and not known.commits)
        return None if is_harmless else self.commit_risk(context)

    def not_now(self, context: DecisionContext[S]) -> Skip | None:
        """Why what is needed waits. What a person asks for is done at once."""
        known = self._definitions.get(context.action)
        return known.not_now(context) if known else None

    def _complete(self, context: DecisionContext[S], operation: Operation, need: Need) -> TableProcess:
        """The process with all that the job needs, from the table as it is now."""
        requested = operation.process.parameters
        parameters: dict[str, Json] = {
            **{key: requested[key] for key in KEPT if key in requested and context.by_person},
            **self.parameters(context, need),
            **need.estimate,
            "location": context.table.table.location,
            TAG: operation.tag,
            DRY_RUN: context.is_dry_run,
            CONFIRM: context.is_confirmed,
        }
        wanted = self.process(context, need)
        stored = operation.process if operation.process.job else replace(wanted, instant=operation.process.instant)
        return replace(stored, job=wanted.job, parameters=parameters, reason=operation.process.reason or need.reason)


def snapshot_of(table: TableRuntime, kind: type[S]) -> S:
    snapshot = table.snapshot()
    assert isinstance(snapshot, kind)
    return snapshot


def refusal(operation: Operation, why: str) -> Drop | Failure:
    """What a person asked for and cannot have fails; what the service planned itself is dropped."""
    if is_by_person(operation):
        return Failure(reason=REFUSED, message=why, remedy=Remedy.FATAL)
    return Drop(reason=why)


def is_by_person(operation: Operation) -> bool:
    return operation.origin != OWN_ORIGIN


def flag(parameters: Mapping[str, Json], name: str) -> bool:
    """Only a plain true is a yes."""
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise Invalid(f"{name} is {value!r} (from request): use true or false")
    return value
