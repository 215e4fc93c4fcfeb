# SPDX-License-Identifier: Apache-2.0
"""Which tests run in one process of several (``--dist loadfile``): those that share tables which take long to make."""

import re

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

ATTACKS = re.compile(r"tests/attacks/test_(?:attacks|s3|without_attacks)\.py::.*\[(hudi|iceberg|delta|paimon|lance)-")


class SharedTables(LoadFileScheduling):  # type: ignore[misc]
    """A file is run by one process; attacks are divided by format instead, since their files share tables."""

    def _split_scope(self, nodeid: str) -> str:
        attack = ATTACKS.match(nodeid)
        return f"attacks on {attack[1]}" if attack else str(super()._split_scope(nodeid))
