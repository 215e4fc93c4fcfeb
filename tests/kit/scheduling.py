# SPDX-License-Identifier: Apache-2.0
"""Which tests run in one process of several (``--dist loadfile``): those that share tables which take long to make."""

import re

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

ATTACKS = re.compile(r"tests/attacks/test_(?:attacks|s3|without_attacks)\.py::.*\[(hudi|iceberg|delta|paimon|lance)-")


CLUSTERS = "tests/cluster/"  # each starts a dozen JVMs: one after the other


class SharedTables(LoadFileScheduling):  # type: ignore[misc]
    """A file is run by one process; attacks are divided by format instead, since their files share tables. All tests
    of clusters are one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(CLUSTERS):
            return CLUSTERS
        attack = ATTACKS.match(nodeid)
        return f"attacks on {attack[1]}" if attack else str(super()._split_scope(nodeid))
