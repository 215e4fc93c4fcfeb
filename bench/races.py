# SPDX-License-Identifier: Apache-2.0
"""Commits that are lost when a writer and our rewrites race for one table on S3: none where the rule allows it, and
some where it does not. Writer and jobs are Spark applications of their own, the S3 server (moto) a third process. A
proxy in front of it makes the files slow that make commits visible, for all alike."""

import json
from pathlib import Path

from bench.report import Figure, print_line
from tests.e2e.contests import contests, slow_store
from tests.e2e.race_servers import race_servers
from tests.e2e.races import Spec, race

COMMITS = 30  # of each, at least
LONGEST = 900.0  # seconds of one race, unless the writer has fewer commits than it should by then


def run(folder: Path, *, quick: bool, names: list[str] | None = None, commits: int = COMMITS) -> list[Figure]:
    count = 5 if quick else commits
    with slow_store() as store, race_servers(store, folder) as servers:
        spec = Spec(
            endpoint=store.endpoint, folder=str(folder), commits=count, rewrites=3 if quick else count, longest=LONGEST,
            servers=servers, names=names or [one.name for one in contests(folder, {}, servers)],
        )  # fmt: skip
        found = race(spec, lambda one: print_line(f"races: {json.dumps(one)}"))
    return [figure for one in found for figure in figures(one)]


def figures(found: dict[str, object]) -> list[Figure]:
    lost = len(found["lost_appends"]) + int(found["lost_rewrites"])  # type: ignore[arg-type, call-overload]
    all_of_them = f"{found['appends']} appends, {found['rewrites']} rewrites"
    name = f"{found['name']}: lost of {all_of_them}"
    if found["is_safe"]:
        return [Figure(bench="races", name=name, value=float(lost), at_most=0)]
    return [Figure(bench="races", name=f"{name}, forced", value=float(lost), at_least=1)]
