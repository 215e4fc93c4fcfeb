# SPDX-License-Identifier: Apache-2.0
"""The numbers of plugins: what is counted, what is refused, and where it ends."""

import threading

import pytest

from lakehand.spi import Counter, Gauge, Invalid


def test_a_counter_without_labels_begins_at_zero_and_counts_up() -> None:
    counter = Counter("rows", "Rows.")
    before = counter.samples()

    counter.add(2)
    counter.add()

    assert (before, counter.samples()) == ({(): 0.0}, {(): 3.0})


def test_each_combination_of_values_is_a_number_of_its_own_in_the_order_of_the_labels() -> None:
    counter = Counter("rows", "Rows.", labels=("table", "kind"))

    counter.add(kind="new", table="a")
    counter.add(kind="old", table="a")
    counter.add(table="a", kind="new")

    assert counter.samples() == {("a", "new"): 2.0, ("a", "old"): 1.0}


def test_a_label_full_of_strange_values_stays_within_its_bound() -> None:
    counter = Counter("rows", "Rows.", labels=("table", "kind"), most=3)

    for number in range(1000):
        counter.add(table=f"t{number}" * 100, kind="")

    found = counter.samples()
    assert len(found) == 4
    assert found["other", "other"] == 997
    assert max(len(value) for values in found for value in values) == 60
    assert ("t0" * 30, "none") in found


def test_a_gauge_has_the_last_value_and_forgets_what_is_removed() -> None:
    gauge = Gauge("lag", "Lag.", labels=("table",), most=1)

    gauge.set(5, table="a")
    gauge.set(-2, table="a")
    gauge.remove(table="a")
    gauge.set(3, table="b")

    assert gauge.samples() == {("b",): 3.0}


@pytest.mark.parametrize(
    ("labels", "amount"),
    [({}, 1), ({"table": "a", "more": "b"}, 1), ({"table": "a"}, -1), ({"table": "a"}, float("nan"))],
)
def test_what_is_not_declared_or_no_increase_is_an_error_of_the_plugin(labels: dict[str, str], amount: float) -> None:
    counter = Counter("rows", "Rows.", labels=("table",))

    with pytest.raises(ValueError, match="rows"):
        counter.add(amount, **labels)

    assert counter.samples() == {}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("", {}), ("Rows", {}), ("rows total", {}), ("rows_total", {}), ("r" * 61, {}),
        ("rows", {"labels": ("a", "a")}), ("rows", {"labels": tuple("abcde")}), ("rows", {"labels": ("__a",)}),
        ("rows", {"labels": ("instance",)}), ("rows", {"most": 0}), ("rows", {"most": 201}),
    ],
)  # fmt: skip
def test_a_metric_that_prometheus_would_not_take_cannot_be_made(name: str, more: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        Counter(name, "Rows.", **more)  # type: ignore[arg-type]


def test_threads_lose_no_count() -> None:
    counter = Counter("rows", "Rows.", labels=("table",))

    def count() -> None:
        for _ in range(2000):
            counter.add(table="a")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counter.samples() == {("a",): 8000.0}
