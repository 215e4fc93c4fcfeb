# SPDX-License-Identifier: Apache-2.0
"""The storage of each location: one client for each store, and a store that cannot be opened stops no other."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from lakehand.storage import LocalStorage, Storage, Storages


class SlowStores(Storages):
    """Whose bucket ``slow`` does not answer until a test says so."""

    def __init__(self) -> None:
        super().__init__({})
        self.began, self.go_on = Event(), Event()
        self.opened: list[str] = []

    def _connect(self, scheme: str, authority: str) -> tuple[Storage, str]:
        if authority == "slow":
            self.began.set()
            assert self.go_on.wait(60)
        self.opened.append(authority)
        return LocalStorage(), authority


def test_a_store_that_hangs_while_it_is_opened_stops_no_other() -> None:
    stores = SlowStores()
    with ThreadPoolExecutor(3) as pool:
        stuck = [pool.submit(stores.of, "s3://slow/t") for _ in range(2)]
        try:
            assert stores.began.wait(60)
            assert pool.submit(stores.of, "s3://quick/t").result(10)[1] == "quick/t"
        finally:
            stores.go_on.set()
        assert [one.result(60)[1] for one in stuck] == ["slow/t", "slow/t"]
    assert sorted(stores.opened) == ["quick", "slow"], "one client for each store"
