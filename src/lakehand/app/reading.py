# SPDX-License-Identifier: Apache-2.0
"""Opens what reads and decides, and nothing that runs: for a look at tables without a service, in a moment."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakehand.app.config_file import choose_config
from lakehand.app.discovery import DiscoveredTable, Finder, UnreadableFolder, reason_of, storage_properties
from lakehand.app.plugins import Configs
from lakehand.app.plugins import load as load_plugins
from lakehand.core.plugins import Plugins
from lakehand.domain.errors import Invalid, NotFound
from lakehand.domain.references import Catalog

HOME = Path("~/.lakehand")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The formats and factories that are on, and the catalogs of the settings."""

    plugins: Plugins
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)
    config: Path | None = None  # the file that all of it comes from
    warnings: tuple[str, ...] = ()  # about that file, and about one that is not used
    storage: Mapping[str, str] = field(default_factory=dict)  # how to reach buckets: properties of the formats

    def finder(self) -> Finder:
        return Finder(self.plugins.formats, self.storage)

    def tables_of(self, text: str, finder: Finder) -> Iterator[DiscoveredTable | UnreadableFolder]:
        """The tables that a person names: by a folder, by ``CATALOG:``, ``CATALOG:db`` or ``CATALOG:db.table``.

        Raises NotFound when there is nothing of that name.
        """
        name, colon, inside = text.partition(":")
        if colon and not inside.startswith("/"):
            yield from self.tables_in(self.catalog(name), inside)
            return
        try:
            yield from finder.under(text)
        except FileNotFoundError:
            raise NotFound(f"there is no {text}") from None
        except OSError as error:
            raise NotFound(f"{text} cannot be read: {reason_of(error)}") from error

    def catalog(self, name: str) -> Catalog:
        if name not in self.catalogs:
            known = ", ".join(sorted(self.catalogs)) or "none"
            raise NotFound(f"no catalog is called {name!r}: the settings have {known}")
        return self.catalogs[name]

    def tables_in(self, catalog: Catalog, inside: str) -> Iterator[DiscoveredTable | UnreadableFolder]:
        """All tables of a catalog, those of a namespace, or one."""
        reader = self.plugins.format(catalog.format)
        try:
            for reference in reader.tables(catalog):
                if inside in ("", reference.db_name, f"{reference.db_name}.{reference.table_name}"):
                    yield DiscoveredTable(reference=reference, format=catalog.format)
        except OSError as error:
            yield UnreadableFolder(location=f"{catalog.name}:", reason=reason_of(error))


def open_reading(config: Path | None = None) -> Reading:
    """As the settings say. Reading settings costs more than a look: where there are none, none are read."""
    home = Path(os.environ.get("LAKEHAND_HOME") or HOME)
    choice = choose_config(config, home)
    if choice.file is None and not is_set_by_environment():
        return replace(reading_of({}), warnings=choice.warnings)
    from lakehand.app.settings import load

    settings = load(config=choice.file)
    warnings = tuple(dict.fromkeys((*choice.warnings, *settings.config.warnings)))
    reading = reading_of(settings.plugin_configs(), settings.catalog_map())
    return replace(reading, config=choice.file, warnings=warnings)


def is_set_by_environment() -> bool:
    return any(name.startswith(("LAKEHAND_PLUGINS", "LAKEHAND_CATALOGS")) for name in os.environ)


def reading_of(configs: Configs, catalogs: Mapping[str, Catalog] | None = None) -> Reading:
    plugins = load_plugins(configs, None)
    if not plugins.formats:
        raise Invalid(f"no format can be read: {'; '.join(f'{r.name}: {r.reason}' for r in plugins.reports)}")
    return Reading(plugins=plugins, catalogs=catalogs or {}, storage=storage_properties(configs))


def broken(reading: Reading) -> Iterator[str]:
    """What is to be said of the settings, and of plugins that could not be opened."""
    yield from reading.warnings
    for report in reading.plugins.reports:
        if report.state == "broken":
            yield f"the {report.kind} {report.name} is broken and left out: {report.reason}"
