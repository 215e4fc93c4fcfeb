# SPDX-License-Identifier: Apache-2.0
"""Makes the code of the gRPC API before Lakehand is built or installed."""

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProtoBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        try:
            from tools.protos import generate

            generate()
        finally:
            sys.path.remove(self.root)
