# SPDX-License-Identifier: Apache-2.0
"""Opens the formats and factories of the settings, without engines or a database: all that reading a table needs."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakehand.app.config_file import choose_config
from lakehand.app.plugins import Configs, storage_properties
from lakehand.app.plugins import load as load_plugins
from lakehand.core.plugins.registry import Plugins
from lakehand.domain.errors import Invalid, NotFound
from lakehand.domain.masks import Masks
from lakehand.domain.tables import Catalog
from lakehand.local.discovery import DiscoveredTable, Finder, UnreadableFolder, one_line

HOME = Path("~/.lakehand")


@dataclass(frozen=True, kw_only=True)
class LocalReader:
    """The formats and factories that are on, and the catalogs of the settings."""

    plugins: Plugins
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)
    config: Path | None = None  # the settings file that was used
    warnings: tuple[str, ...] = ()  # about that file, or one that was ignored
    storage: Mapping[str, str] = field(default_factory=dict)  # how to reach buckets: properties of the formats

    def finder(self) -> Finder:
        return Finder(self.plugins.formats, self.storage)

    def tables_of(self, text: str, finder: Finder) -> Iterator[DiscoveredTable | UnreadableFolder]:
        """The tables named by a folder, ``CATALOG:``, ``CATALOG:db`` or ``CATALOG:db.table``.

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
            raise NotFound(f"{text} cannot be read: {one_line(error)}") from error

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
                name = f"{reference.db_name}.{reference.table_name}"
                if inside in ("", reference.db_name, name) and reference.problem:
                    yield UnreadableFolder(location=f"{catalog.name}:{name}", reason=reference.problem)
                elif inside in ("", reference.db_name, name):
                    yield DiscoveredTable(reference=reference, format=catalog.format)
        except OSError as error:
            yield UnreadableFolder(location=f"{catalog.name}:", reason=one_line(error))

    def problems(self) -> Iterator[str]:
        """Warnings about the settings, and plugins that could not be opened."""
        yield from self.warnings
        for report in self.plugins.reports:
            if report.state == "broken":
                yield f"the {report.kind} {report.name} is broken and left out: {report.reason}"


def open_reader(config: Path | None = None) -> LocalReader:
    """With the settings, if there are any. Importing them takes longer than reading a table, so skip it otherwise."""
    home = Path(os.environ.get("LAKEHAND_HOME") or HOME)
    choice = choose_config(config, home)
    is_set = any(name.startswith(("LAKEHAND_PLUGINS", "LAKEHAND_CATALOGS", "LAKEHAND_STORAGE")) for name in os.environ)
    if choice.file is None and not is_set:
        return replace(reader_of({}), warnings=choice.warnings)
    from lakehand.app.settings import load

    settings = load(config=choice.file)
    warnings = tuple(dict.fromkeys((*choice.warnings, *settings.config.warnings)))
    reader = reader_of(settings.plugin_configs(), settings.catalog_map(), settings.masks())
    return replace(reader, config=choice.file, warnings=warnings)


def reader_of(
    configs: Configs, catalogs: Mapping[str, Catalog] | None = None, masks: Masks | None = None
) -> LocalReader:
    plugins = load_plugins(configs, None, masks=masks)
    if not plugins.formats:
        raise Invalid(f"no format can be read: {'; '.join(f'{r.name}: {r.reason}' for r in plugins.reports)}")
    return LocalReader(plugins=plugins, catalogs=catalogs or {}, storage=storage_properties(configs))
