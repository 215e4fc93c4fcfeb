# SPDX-License-Identifier: Apache-2.0
"""What every process factory must do. A test class inherits the contract and provides the fixture ``subject``.

``subject`` is a ``PluginHarness`` of a table in a folder on this machine, best of one that needs something done.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakehand import spi
from lakehand.domain.actions import LONGEST
from lakehand.testing.formats import unreadable_folder, untouched
from lakehand.testing.harness import PluginHarness

ENDED = spi.EngineStatus(state=spi.EngineState.FAILED, error_class="SomeError", message="something unforeseen")


class ProcessFactoryContract:
    def unreadable(self, subject: PluginHarness) -> spi.TableReference:
        """Where a table is that cannot be read. Override it where a broken folder is not the way."""
        return spi.TableReference(location=str(unreadable_folder(Path(subject.spec.location))))

    def missing(self, subject: PluginHarness) -> spi.TableReference:
        return spi.TableReference(location=f"{subject.spec.location}-that-was-dropped")

    def test_it_has_a_name(self, subject: PluginHarness) -> None:
        name = subject.factory.name
        assert isinstance(name, str)
        assert name == name.strip().lower() != ""

    def test_its_actions_are_registered_words_of_at_most_32_characters(self, subject: PluginHarness) -> None:
        supported = subject.factory.supported_actions()
        assert actions_of(subject), f"{subject.factory.name} has nothing for {subject.format.format}"
        for actions in supported.values():
            assert isinstance(actions, frozenset)
            for action in actions:
                assert isinstance(action, spi.Action), f"{action!r} is a text: make it with Action.register"
                assert action.is_registered, f"{action} is not registered: make it with Action.register"
                assert len(action) <= LONGEST

    def test_its_strategies_can_come_true(self, subject: PluginHarness) -> None:
        for action in actions_of(subject):
            strategy = subject.factory.trigger_strategy(subject.format.format, action)
            assert isinstance(strategy, spi.ProcessTriggerStrategy), action
            assert strategy.parallelism >= 0, action
            assert strategy.interval is None or strategy.interval.total_seconds() > 0, action
            assert strategy.interval or strategy.on_new_snapshot, f"{action} would never be evaluated"

    def test_its_state_survives_being_stored(self, subject: PluginHarness) -> None:
        keys = subject.factory.required_states()
        assert len({key.name for key in keys}) == len(keys)
        for key in keys:
            text = key.encode(key.default)
            assert isinstance(text, str)
            assert key.decode(text) == key.default, key.name

    def test_it_uses_only_the_state_that_it_declares(self, subject: PluginHarness) -> None:
        try:
            for process in processes(subject):
                subject.factory.verify(subject.runtime(), process, {})
        except spi.UndeclaredState as error:
            raise AssertionError(str(error)) from error

    def test_its_metrics_are_valid_and_the_same_every_time(self, subject: PluginHarness) -> None:
        found = subject.factory.metrics()
        assert all(isinstance(one, spi.PluginMetric) for one in found)
        assert len({one.name for one in found}) == len(found), "two metrics have one name"
        assert list(map(id, subject.factory.metrics())) == list(map(id, found)), "make them once, not at each call"

    def test_its_dry_runs_and_optional_actions_are_among_its_actions(self, subject: PluginHarness) -> None:
        every = {action for actions in subject.factory.supported_actions().values() for action in actions}
        assert subject.factory.dry_run_actions() <= every
        assert subject.factory.optional_actions() <= every

    def test_a_decision_asked_for_twice_is_the_same_and_writes_nothing(self, subject: PluginHarness) -> None:
        now = subject.now()
        frozen = replace(subject, now=lambda: now)
        for action in actions_of(subject):
            with untouched(Path(subject.spec.location)):
                answers = [frozen.wants(action) for _ in range(2)]
            assert answers[0] == answers[1], f"{action} is decided differently the second time"

    def test_a_decision_is_a_process_or_a_skip_and_says_why(self, subject: PluginHarness) -> None:
        for action in actions_of(subject):
            answer = subject.wants(action)
            assert isinstance(answer, (spi.TableProcess, spi.Skip)), f"{action}: {type(answer).__name__}"
            assert has_words(answer.reason), f"{action} gives no reason"
            if isinstance(answer, spi.TableProcess):
                assert answer.action == action
                assert answer.job, f"{action}: a process that is wanted has a job"
                assert is_json(answer.parameters), f"{action}: the parameters are not JSON"

    def test_what_is_wanted_is_admitted_as_a_whole_process_or_refused_with_a_reason(
        self, subject: PluginHarness
    ) -> None:
        for operation in wanted(subject):
            check_admission(operation, admitted(subject, operation))

    def test_what_a_person_asks_for_is_admitted_or_refused_with_a_reason(self, subject: PluginHarness) -> None:
        for action in actions_of(subject):
            operation = subject.asked(action)
            check_admission(operation, admitted(subject, operation))

    def test_without_a_result_an_untouched_table_does_not_show_the_effect(self, subject: PluginHarness) -> None:
        for operation in wanted(subject):
            answer = admitted(subject, operation)
            if isinstance(answer, spi.TableProcess):
                verdict = subject.factory.verify(subject.runtime(), answer, {})
                check_verdict(verdict)
                assert verdict.finding in (spi.Finding.NOT_DONE, spi.Finding.GONE), (
                    f"{operation.process.action}: {verdict}"
                )

    def test_a_table_that_cannot_be_read_is_unreadable_and_not_undone(self, subject: PluginHarness) -> None:
        for process in processes(subject):
            verdict = subject.factory.verify(moved(subject, self.unreadable(subject)), process, {})
            check_verdict(verdict)
            assert verdict.finding is spi.Finding.UNREADABLE, f"{process.action}: {verdict}"

    def test_a_table_that_was_dropped_is_gone(self, subject: PluginHarness) -> None:
        for process in processes(subject):
            verdict = subject.factory.verify(moved(subject, self.missing(subject)), process, {})
            check_verdict(verdict)
            assert verdict.finding is spi.Finding.GONE, f"{process.action}: {verdict}"

    def test_an_unforeseen_failure_has_a_message(self, subject: PluginHarness) -> None:
        for operation in [subject.stored(process) for process in processes(subject)]:
            failure = subject.factory.classify(subject.runtime(), operation, ENDED)
            assert isinstance(failure, spi.Failure)
            assert failure.reason
            assert has_words(failure.message)

    def test_a_stored_process_is_recovered_as_it_was(self, subject: PluginHarness) -> None:
        for process in processes(subject):
            parameters = json.loads(json.dumps(process.parameters))
            stored = subject.stored(replace(process, parameters=parameters))
            assert subject.factory.recover(subject.runtime(), stored) == stored.process


def actions_of(subject: PluginHarness) -> list[spi.Action]:
    return sorted(subject.factory.supported_actions().get(subject.format.format, ()))


def wanted(subject: PluginHarness) -> list[spi.Operation]:
    """An operation for each action that the table needs now."""
    answers = [subject.wants(action) for action in actions_of(subject)]
    return [subject.stored(answer) for answer in answers if isinstance(answer, spi.TableProcess)]


def processes(subject: PluginHarness) -> list[spi.TableProcess]:
    """For each action the process that an engine would get now: what the table needs, or what a person asks for."""
    requests = [*wanted(subject), *(subject.asked(action) for action in actions_of(subject))]
    answers = {o.process.action: admitted(subject, o) for o in reversed(requests)}
    found = [answer for answer in answers.values() if isinstance(answer, spi.TableProcess)]
    assert found, f"the table needs nothing, and nothing can be asked for: {answers}"
    return found


def admitted(subject: PluginHarness, operation: spi.Operation) -> spi.TableProcess | spi.Skip | spi.Drop | spi.Failure:
    with untouched(Path(subject.spec.location)):
        return subject.factory.admit(subject.runtime(left_out=operation.id), operation)


def check_admission(operation: spi.Operation, answer: object) -> None:
    action = operation.process.action
    assert isinstance(answer, (spi.TableProcess, spi.Skip, spi.Drop, spi.Failure)), f"{action}: {type(answer).__name__}"
    if isinstance(answer, spi.TableProcess):
        assert answer.action == action
        assert answer.job, f"{action}: an admitted process names its job"
        assert is_json(answer.parameters), f"{action}: the parameters are not JSON"
    else:
        assert has_words(answer.message if isinstance(answer, spi.Failure) else answer.reason), f"{action}: no reason"


def check_verdict(verdict: Any) -> None:
    assert isinstance(verdict, spi.Verdict)
    assert has_words(verdict.reason)
    assert is_json(verdict.numbers)


def moved(subject: PluginHarness, reference: spi.TableReference) -> spi.DetachedRuntime:
    """A runtime of the table, were it there."""
    return replace(subject, spec=replace(subject.spec, location=reference.location), reference=reference).runtime()


def has_words(reason: str) -> bool:
    return any(len(word) > 1 and word[0].isalpha() for word in reason.split())


def is_json(value: spi.Json) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
