# SPDX-License-Identifier: Apache-2.0
"""The instances of the service on one database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lakehand.domain.instances import STATE
from lakehand.domain.operations import (
    InstanceId,
)
from lakehand.domain.processes import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    id: InstanceId
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    detail: Mapping[str, Json]

    @property
    def state(self) -> str | None:
        """As it last reported. Versions that could not drain reported none."""
        found = self.detail.get(STATE)
        return None if found is None else str(found)


class Instances(Protocol):
    def heartbeat(
        self, id: InstanceId, *, host: str, version: str, detail: Mapping[str, Json], now: datetime
    ) -> None: ...

    def list(self) -> Sequence[Instance]: ...

    def remove_before(self, before: datetime) -> int: ...
