# SPDX-License-Identifier: Apache-2.0
"""Leases in the driver's own time."""

from lakehand.jobs.leases import Heartbeats, Leases

BEFORE = 100.0


def heartbeats() -> Heartbeats:
    heartbeats = Heartbeats("boot")
    heartbeats.tick(BEFORE)
    return heartbeats


def test_a_lease_counts_from_the_moment_its_token_was_published_however_late_it_arrives() -> None:
    leases = Leases(heartbeats())
    leases.grant("h", "boot:1", 30.0)

    assert leases.overdue("h", BEFORE + 29) < 0
    assert leases.overdue("h", BEFORE + 30) >= 0


def test_a_token_of_another_driver_grants_nothing() -> None:
    leases = Leases(heartbeats())
    leases.grant("h", "former:1", 30.0)

    assert leases.overdue("h", BEFORE) > 0


def test_no_token_and_nonsense_grant_nothing() -> None:
    leases = Leases(heartbeats())
    for token in (None, "", "boot", "boot:", "boot:x", "boot:2", "boot:-1", "boot:1:1"):
        leases.grant("h", token, 30.0)

    assert leases.overdue("h", BEFORE) > 0


def test_a_beat_that_was_forgotten_grants_nothing() -> None:
    few = Heartbeats("boot", keep=2)
    for second in range(3):
        few.tick(BEFORE + second)

    assert few.moment("boot:1") is None
    assert few.moment("boot:3") == BEFORE + 2


def test_a_renewal_that_was_overtaken_shortens_nothing() -> None:
    leases = Leases(heartbeats())
    leases.grant("h", "boot:1", 60.0)
    leases.grant("h", "boot:1", 10.0)

    assert leases.overdue("h", BEFORE + 59) < 0


def test_a_dropped_lease_is_none() -> None:
    leases = Leases(heartbeats())
    leases.grant("h", "boot:1", 60.0)
    leases.drop("h")

    assert leases.overdue("h", BEFORE) == float("inf")
