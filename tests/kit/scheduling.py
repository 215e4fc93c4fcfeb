# SPDX-License-Identifier: Apache-2.0
"""Which tests run in one process of several (``--dist loadfile``): those that share tables which take long to make."""

import re

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

FORMATS = "hudi|iceberg|delta|paimon|lance"
ATTACKS = re.compile(rf"tests/attacks/test_(?:({FORMATS})_paths\.py::|attacks\.py::.*\[({FORMATS})[-\]])")
CLUSTERS = "tests/cluster/"  # each starts a dozen JVMs: one after the other


class SharedTables(LoadFileScheduling):  # type: ignore[misc]
    """A file is run by one process; attacks are divided by format instead, since their files share a table of each.
    All tests of clusters are one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(CLUSTERS):
            return CLUSTERS
        attack = ATTACKS.match(nodeid)
        return f"attacks on {attack[1] or attack[2]}" if attack else str(super()._split_scope(nodeid))
