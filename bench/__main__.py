# SPDX-License-Identifier: Apache-2.0
"""``python -m bench NAME``: measures, shows a table; ``--json`` stores it. Without a name: all that take no minutes."""

from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import (
    catalogs,
    check,
    commit_events,
    decide,
    dispatch,
    fleet,
    fleet_pages,
    idle,
    large_metadata,
    notify,
    races,
    report,
    requests,
    rewrites,
    routing,
    rows,
    stray_keys,
    watching,
    writers,
)

Benches = dict[str, Callable[..., list[report.Figure]]]
BENCHES: Benches = {
    "notify": notify.run,
    "idle": idle.run,
    "decide": decide.run,
    "check": check.run,
    "fleet": fleet.run,
    "writers": writers.run,
    "pages": fleet_pages.run,
    "watching": watching.run,
    "commits": commit_events.run,
    "rows": rows.run,
    "rewrites": rewrites.run,
    "routing": routing.run,
    "requests": requests.run,
    "races": races.run,
    "dispatch": dispatch.run,
    "stray-keys": stray_keys.run,
    "large-metadata": large_metadata.run,
    "catalog": catalogs.run,
}
# These take minutes: only by name.
LONG = (
    "writers", "pages", "watching", "commits", "rows", "rewrites", "routing", "races", "dispatch", "stray-keys",
    "large-metadata", "catalog",
)  # fmt: skip


def main() -> None:
    parser = ArgumentParser(
        prog="bench", description="Measure the service, side by side with what it is compared with."
    )
    parser.add_argument("which", nargs="?", default="all", choices=["all", *BENCHES])
    parser.add_argument("--quick", action="store_true", help="small and short: to see that it works, not for figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures here, too")
    parser.add_argument("--large", action="store_true", help="of rewrites: tables of about 2 GB, fewer rounds")
    parser.add_argument(
        "--only", metavar="NAMES", default="", help="of races and stray-keys: these, separated by commas"
    )
    commit_events.add_options(parser)
    wanted = parser.parse_args()
    benches: Benches = {**BENCHES, "commits": partial(commit_events.run, wanted=wanted)}
    names = [name for name in wanted.only.split(",") if name]
    benches["races"] = partial(races.run, names=names)
    benches["stray-keys"] = partial(stray_keys.run, names=names)
    benches["rewrites"] = partial(rewrites.run, large=wanted.large)
    figures: list[report.Figure] = []
    for name, run in benches.items():
        if wanted.which == name or (wanted.which == "all" and name not in LONG):
            with TemporaryDirectory(prefix=f"lakehand-{name}-", ignore_cleanup_errors=True) as folder:
                figures += run(Path(folder), quick=wanted.quick)
    report.show(figures)
    if wanted.json:
        report.store(figures, wanted.json)


if __name__ == "__main__":
    main()
