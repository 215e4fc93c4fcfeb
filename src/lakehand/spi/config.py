# SPDX-License-Identifier: Apache-2.0
"""The effective configuration of one table: each value knows where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehand.domain.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    value: str
    origin: str  # "default", "plugin", "table", "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """Values by key. Readers name their default, so that a key is documented where it is used."""

    settings: Mapping[str, Setting] = field(default_factory=dict)

    def text(self, key: str, default: str = "") -> str:
        found = self.settings.get(key)
        return found.value if found else default

    def number(self, key: str, default: int) -> int:
        """For a factory without the kit, whose setting rows know more types."""
        found = self.settings.get(key)
        try:
            return int(found.value) if found else default
        except ValueError:
            raise Invalid(f"{key} is {self.text(key)!r} (from {self.origin(key)}): use a whole number") from None

    def origin(self, key: str) -> str:
        found = self.settings.get(key)
        return found.origin if found else "default"

    def starting_with(self, prefix: str) -> Mapping[str, str]:
        return {key: s.value for key, s in self.settings.items() if key.startswith(prefix)}


def layered(*layers: tuple[str, Mapping[str, str]]) -> TableConfig:
    """Later layers win. Each layer is (origin, values)."""
    settings: dict[str, Setting] = {}
    for origin, values in layers:
        settings.update({key: Setting(value=value, origin=origin) for key, value in values.items()})
    return TableConfig(settings=settings)
