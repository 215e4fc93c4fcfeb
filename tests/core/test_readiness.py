# SPDX-License-Identifier: Apache-2.0
"""One check at a time for all who ask, whoever asks again first."""

import asyncio

from lakehand.core.services.readiness import ReadinessCheck


def test_somebody_who_asks_again_at_once_takes_no_answer_from_the_others() -> None:
    check = ReadinessCheck(lambda: {"database": "ok"})

    async def ask_twice() -> list[str]:
        return [(await check.parts())["database"] for _ in range(2)]

    async def ask_together() -> list[list[str]]:
        return await asyncio.gather(*(ask_twice() for _ in range(5)))

    assert asyncio.run(ask_together()) == [["ok", "ok"]] * 5
    check.close()
