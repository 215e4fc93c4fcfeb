# SPDX-License-Identifier: Apache-2.0
"""Which formats the demo shows, and how their metadata is read: by the very plugins of the service."""

from collections.abc import Mapping, Sequence

from lakehand.app.plugins import load_kind
from lakehand.cli.problems import CommandFailed
from lakehand.spi import TableFormat

SHOWN = ("hudi", "iceberg", "delta", "paimon", "lance")


def readers(wanted: Sequence[str]) -> Mapping[str, TableFormat]:
    """Those that were asked for, or all; in the order of the show."""
    if unknown := [name for name in wanted if name not in SHOWN]:
        raise CommandFailed(f"--formats {unknown[0]}: the demo has {', '.join(SHOWN)}")
    loaded = load_kind("table-format", {}, lambda plugin, config: plugin.open(config.properties))
    known = {one.report.name: one for one in loaded}
    for name in wanted or SHOWN:
        if name not in known or not known[name].plugin:
            why = known[name].report.reason if name in known else "it is not installed"
            raise CommandFailed(f"the format {name} cannot be shown: {why}")
    return {name: known[name].plugin for name in SHOWN if name in (wanted or SHOWN)}


def left_out(shown: Mapping[str, TableFormat]) -> list[str]:
    return [name for name in SHOWN if name not in shown]
