# SPDX-License-Identifier: Apache-2.0
"""The contracts themselves: each finds the plugin that breaks it, and its message names what is wrong."""

import random
import threading
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.hudi import HudiFormat, HudiProcessFactory
from lakehand.spi import (
    Action,
    Counter,
    Failure,
    Finding,
    Format,
    Operation,
    ProcessTriggerStrategy,
    Skip,
    StateKey,
    TableProcess,
    TableReference,
    TableRuntime,
    TableSpec,
    Verdict,
)
from lakehand.testing import FormatUnderTest, PluginHarness, ProcessFactoryContract, TableFormatContract, untouched
from tests.formats.hudi.runtime import commit, copied

HUDI = Format("hudi")
UNHEARD = Action("never-registered")


class Factory(HudiProcessFactory):
    """Hudi's own, as someone might have written it."""


def make_factory(**members: Any) -> type[Factory]:
    return type("BadFactory", (Factory,), members)


def decided(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """A ``trigger`` that spoils the right answer."""

    def trigger(self: Factory, table: TableRuntime, action: Action) -> Any:
        return change(HudiProcessFactory.trigger(self, table, action))

    return trigger


def writing(self: Factory, table: TableRuntime, action: Action) -> Any:
    Path(table.reference.location, "seen-by-me").touch()
    return HudiProcessFactory.trigger(self, table, action)


def remembering(self: Factory, table: TableRuntime, action: Action) -> Any:
    table.update_state(StateKey(name="seen", default=0, encode=str, decode=int), lambda count: count + 1)
    return HudiProcessFactory.trigger(self, table, action)


def verdict(finding: Finding) -> Callable[..., Verdict]:
    return lambda *_: Verdict(finding=finding, reason="I say so")


def recovered(self: Factory, table: TableRuntime, stored: Operation) -> TableProcess:
    return replace(stored.process, parameters={})


def forgetful(text: str) -> int:
    return 0


def unstorable(answer: TableProcess | Skip) -> Any:
    anything: Any = {"at": {1}}
    return replace(answer, parameters=anything) if isinstance(answer, TableProcess) else answer


BAD_FACTORIES: Mapping[str, tuple[type[Factory], str]] = {
    "no name": (make_factory(name=""), "test_it_has_a_name"),
    "an action that nobody registered": (
        make_factory(supported_actions=lambda _: {HUDI: frozenset({UNHEARD})}),
        "test_its_actions_are_registered_words_of_at_most_32_characters",
    ),
    "an action that is a text": (
        make_factory(supported_actions=lambda _: {HUDI: frozenset({"compaction"})}),
        "test_its_actions_are_registered_words_of_at_most_32_characters",
    ),
    "nothing for its format": (
        make_factory(supported_actions=lambda _: {}), "test_its_actions_are_registered_words_of_at_most_32_characters",
    ),
    "a strategy that never asks": (
        make_factory(trigger_strategy=lambda *_: ProcessTriggerStrategy(on_new_snapshot=False)),
        "test_its_strategies_can_come_true",
    ),
    "an interval of nothing": (
        make_factory(trigger_strategy=lambda *_: ProcessTriggerStrategy(interval=timedelta())),
        "test_its_strategies_can_come_true",
    ),
    "state that does not survive": (
        make_factory(required_states=lambda _: {StateKey(name="seen", default=7, encode=str, decode=forgetful)}),
        "test_its_state_survives_being_stored",
    ),
    "a state that it has not declared": (
        make_factory(trigger=remembering), "test_it_uses_only_the_state_that_it_declares",
    ),
    "metrics that are made anew each time": (
        make_factory(metrics=lambda _: [Counter("seen", "Tables seen.")]),
        "test_its_metrics_are_valid_and_the_same_every_time",
    ),
    "a dry run of another's action": (
        make_factory(dry_run_actions=lambda _: frozenset({UNHEARD})),
        "test_its_dry_runs_and_optional_actions_are_among_its_actions",
    ),
    "an optional action that is another's": (
        make_factory(optional_actions=lambda _: frozenset({UNHEARD})),
        "test_its_dry_runs_and_optional_actions_are_among_its_actions",
    ),
    "a decision by chance": (
        make_factory(trigger=decided(lambda answer: replace(answer, reason=f"{answer.reason} {random.random()}"))),
        "test_a_decision_asked_for_twice_is_the_same_and_writes_nothing",
    ),
    "a decision that writes": (
        make_factory(trigger=writing), "test_a_decision_asked_for_twice_is_the_same_and_writes_nothing",
    ),
    "a decision that is no answer": (
        make_factory(trigger=decided(lambda answer: None)), "test_a_decision_is_a_process_or_a_skip_and_says_why",
    ),
    "a decision without words": (
        make_factory(trigger=decided(lambda answer: Skip(reason="17 4"))),
        "test_a_decision_is_a_process_or_a_skip_and_says_why",
    ),
    "parameters that cannot be stored": (
        make_factory(trigger=decided(unstorable)),
        "test_a_decision_is_a_process_or_a_skip_and_says_why",
    ),
    "an admission without a job": (
        make_factory(admit=lambda _, table, operation: replace(operation.process, job="")),
        "test_what_is_wanted_is_admitted_as_a_whole_process_or_refused_with_a_reason",
    ),
    "a refusal without a reason": (
        make_factory(admit=lambda *_: Failure(reason="no", message="")),
        "test_what_a_person_asks_for_is_admitted_or_refused_with_a_reason",
    ),
    "success without effect": (
        make_factory(verify=verdict(Finding.DONE)), "test_without_a_result_an_untouched_table_does_not_show_the_effect",
    ),
    "an unreadable table that is undone": (
        make_factory(verify=verdict(Finding.NOT_DONE)), "test_a_table_that_cannot_be_read_is_unreadable_and_not_undone",
    ),
    "a dropped table that is unreadable": (
        make_factory(verify=verdict(Finding.UNREADABLE)), "test_a_table_that_was_dropped_is_gone",
    ),
    "a failure without words": (
        make_factory(classify=lambda *_: Failure(reason="x", message="")),
        "test_an_unforeseen_failure_has_a_message",
    ),
    "a recovery that forgets": (make_factory(recover=recovered), "test_a_stored_process_is_recovered_as_it_was"),
}  # fmt: skip


def factory_tests() -> set[str]:
    return {name for name in vars(ProcessFactoryContract) if name.startswith("test_")}


@pytest.mark.parametrize("fault", BAD_FACTORIES)
def test_the_contract_of_factories_finds(fault: str, tmp_path: Path) -> None:
    factory, test = BAD_FACTORIES[fault]
    spec = TableSpec(location=str(copied("orders_v9", tmp_path)), format=HUDI)
    subject = PluginHarness(factory=factory(), format=HudiFormat(), spec=spec)
    with pytest.raises(AssertionError):
        getattr(ProcessFactoryContract(), test)(subject)


def test_every_test_of_the_contract_of_factories_was_seen_to_fail() -> None:
    assert {test for _, test in BAD_FACTORIES.values()} == factory_tests()


class Reader(HudiFormat):
    """Hudi's own reader, as someone might have written it."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Changed:
    """A snapshot of which something is not as it should be."""

    def __init__(self, snapshot: Any, **members: Any) -> None:
        self.token, self.numbers = snapshot.token, snapshot.numbers
        vars(self).update(members)


def inspecting(**members: Any) -> Callable[..., Any]:
    return lambda self, reference: Changed(HudiFormat.inspect(self, reference), **members)


def swallowing(call: Callable[..., Any]) -> Callable[..., Any]:
    def quiet(self: Reader, reference: TableReference) -> Any:
        try:
            return call(self, reference)
        except Exception as error:
            raise RuntimeError("something went wrong") from error

    return quiet


def touching(self: Reader, reference: TableReference) -> Any:
    Path(reference.location, ".cache").touch()
    return HudiFormat.inspect(self, reference)


def one_at_a_time(self: Reader, reference: TableReference) -> Any:
    if not self.lock.acquire(blocking=False):
        raise RuntimeError("I was not made for this")
    with_threads.wait(0.02)
    self.lock.release()
    return HudiFormat.probe(self, reference)


with_threads = threading.Event()


def folder_of_anyone(self: Reader, location: str, names: Collection[str]) -> bool:
    return True


BAD_READERS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a sign by chance": (
        {"probe": lambda *_: str(random.random())}, "test_the_token_stays_while_nothing_changes",
    ),
    "a sign that never changes": (
        {"probe": lambda *_: "here"}, "test_the_token_changes_with_every_commit_for_old_and_new_readers",
    ),
    "an inspection with another sign": (
        {"inspect": inspecting(token="mine")}, "test_an_inspection_has_the_token_of_the_table_that_it_read",
    ),
    "numbers under unknown names only": (
        {"inspect": inspecting(numbers={"happiness": 7})}, "test_health_is_reported_in_numbers_whose_names_are_known",
    ),
    "a number that is none": (
        {"inspect": inspecting(numbers={"files": "many"})}, "test_health_is_reported_in_numbers_whose_names_are_known",
    ),
    "an error of its own for storage": (
        {"probe": swallowing(HudiFormat.probe)}, "test_an_unreadable_table_is_an_operating_system_error",
    ),
    "an error of its own for what is not a table": (
        {"inspect": swallowing(HudiFormat.inspect)}, "test_a_folder_that_is_no_table_is_invalid",
    ),
    "an error of its own for what is missing": (
        {"inspect": swallowing(HudiFormat.inspect)}, "test_a_missing_folder_is_no_table",
    ),
    "not knowing its own": ({"recognise": lambda *_: False}, "test_its_own_folder_is_recognised"),
    "taking everything": ({"recognise": folder_of_anyone}, "test_the_folders_of_others_are_not_recognised"),
    "one thread at a time": ({"probe": one_at_a_time}, "test_one_reader_serves_several_threads_at_once"),
    "a cache in the table": ({"inspect": touching}, "test_reading_writes_nothing"),
}  # fmt: skip


class Subject(FormatUnderTest):
    def __init__(self, folder: Path, members: Mapping[str, Any]) -> None:
        self.reference = TableReference(location=str(folder))
        self._reader = type("BadReader", (Reader,), dict(members))
        self._instant = 20991115120000000

    def reader(self) -> Any:
        return self._reader()

    def commit(self) -> None:
        self._instant += 1000
        commit(self.folder, str(self._instant))


@pytest.mark.parametrize("fault", BAD_READERS)
def test_the_contract_of_formats_finds(fault: str, tmp_path: Path) -> None:
    members, test = BAD_READERS[fault]
    needs: Set[str] = set(getattr(TableFormatContract, test).__annotations__)
    more = {"tmp_path": tmp_path, "kind": "delta"}
    with pytest.raises((AssertionError, RuntimeError, pytest.fail.Exception)):
        getattr(TableFormatContract(), test)(
            Subject(copied("orders_v9", tmp_path), members), **{k: v for k, v in more.items() if k in needs}
        )


def test_every_test_of_the_contract_of_formats_was_seen_to_fail() -> None:
    tests = {name for name in vars(TableFormatContract) if name.startswith("test_")}
    assert {test for _, test in BAD_READERS.values()} == tests


@pytest.mark.parametrize("change", ["touch", "unlink", "write"])
def test_a_folder_is_watched_for_new_changed_and_removed_files(tmp_path: Path, change: str) -> None:
    (tmp_path / "old").touch()
    changes: dict[str, Callable[[], object]] = {
        "touch": (tmp_path / "new").touch,
        "unlink": (tmp_path / "old").unlink,
        "write": lambda: (tmp_path / "old").write_text("more"),
    }
    with pytest.raises(AssertionError, match=r"old|new"), untouched(tmp_path):
        changes[change]()
