# SPDX-License-Identifier: Apache-2.0
"""A role includes those before it, and a token of one owner touches nothing of another."""

import pytest

from lakehand.domain.access import Caller, Role
from lakehand.domain.errors import Forbidden


@pytest.mark.parametrize(
    ("has", "needs", "is_allowed"),
    [(has, needs, h >= n) for h, has in enumerate(Role) for n, needs in enumerate(Role)],
)
def test_a_role_may_do_what_those_before_it_may(has: Role, needs: Role, is_allowed: bool) -> None:
    caller = Caller(name="ann", role=has)
    assert has.includes(needs) is is_allowed
    if is_allowed:
        caller.need(needs)
    else:
        with pytest.raises(Forbidden, match=f"ann is an? {has}, and this needs an? {needs}"):
            caller.need(needs)


def test_a_token_of_an_owner_touches_its_own_tables_only() -> None:
    caller = Caller(name="ann", role=Role.OPERATOR, owner="sales")
    caller.need_owner("sales")
    with pytest.raises(Forbidden, match="for the tables of sales, and this belongs to web"):
        caller.need_owner("web")
    with pytest.raises(Forbidden, match="concerns all tables"):
        caller.need_everything()


def test_a_token_without_an_owner_touches_all() -> None:
    caller = Caller(name="ann", role=Role.OPERATOR)
    caller.need_owner("web")
    caller.need_everything()
