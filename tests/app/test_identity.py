# SPDX-License-Identifier: Apache-2.0
"""An instance keeps its name, and two processes never share it."""

from pathlib import Path

import pytest

from lakehand.app.home import take_identity
from lakehand.app.wiring import SystemIdSource
from lakehand.domain.errors import Conflict
from tests.domain.words import an_operation


def test_an_instance_has_the_same_name_after_a_restart(tmp_path: Path) -> None:
    first = take_identity(tmp_path)
    first.release()
    second = take_identity(tmp_path)
    second.release()
    assert second.id == first.id


def test_a_second_process_with_the_same_home_is_refused(tmp_path: Path) -> None:
    first = take_identity(tmp_path)
    with pytest.raises(Conflict, match="--home"):
        take_identity(tmp_path)
    first.release()


def test_two_homes_are_two_names(tmp_path: Path) -> None:
    one, two = take_identity(tmp_path / "a"), take_identity(tmp_path / "b")
    one.release()
    two.release()
    assert one.id != two.id


def test_a_handle_is_never_repeated_even_for_the_same_attempt() -> None:
    ids = SystemIdSource()
    assert len({ids.handle(an_operation()) for _ in range(100)}) == 100
