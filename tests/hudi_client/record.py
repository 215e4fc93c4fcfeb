# SPDX-License-Identifier: Apache-2.0
"""Writes recorded.json anew from runs of the real client: `python -m tests.hudi_client.record`."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from tests.hudi_client.project import build, say_on_stderr
from tests.hudi_client.recorded import RecordedRequest, Recording, save
from tests.hudi_client.recorder import Recorder, recording
from tests.hudi_client.writer import run

ALL_ACTIONS = ("compaction", "clustering", "clean")
CLUSTERING = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "2"}
CLEAN = {"hoodie.clean.commits.retained": "1"}
DEPLOY = {
    "hoodie.database.name": "sales",
    "hoodie.table.service.manager.deploy.username": "ana",
    "hoodie.table.service.manager.deploy.queue": "night jobs",
    "hoodie.table.service.manager.deploy.resources": "8g:4g",
    "hoodie.table.service.manager.deploy.parallelism": "7",
    "hoodie.table.service.manager.deploy.extra.params": "spark.executor.cores=2;spark.sql.shuffle.partitions=8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    about: str
    runs: tuple[Mapping[str, Any], ...]  # one set of arguments for each start of the writer
    folder: str = "trips"
    prefix: str = ""
    query: str = ""
    with_manager: bool = True
    with_callback: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


SCENARIOS = (
    Scenario(
        name="compaction",
        about="inline compaction: nothing pending after the first commit, then the same plan after every commit",
        runs=({"commits": 4},),
    ),
    Scenario(
        name="compaction-schedule-only",
        about="the writer asks only until a plan is pending: the request of the second commit is the last one",
        runs=({"commits": 4},),
        options={"hoodie.compact.inline": "false", "hoodie.compact.schedule.inline": "true"},
    ),
    Scenario(
        name="several-pending",
        about="a second plan for a new partition: both instants in one request",
        runs=({"commits": 2}, {"commits": 2, "start_commit": 3, "partitions": 2}),
    ),
    Scenario(
        name="odd-path",
        about="space, percent, plus, ampersand, hash and letters beyond ASCII in the base path, on both ways",
        runs=({"commits": 2},),
        folder="my trips/100% ça+va&x=1#ü",
        with_callback=True,
    ),
    Scenario(
        name="escaped-path",
        about="a folder whose name holds the text %20: one decoding gives the name, two give another folder",
        runs=({"commits": 1},),
        folder="north%20sea",
        with_callback=True,
    ),
    Scenario(
        name="file-uri",
        about="written as file:///: the client says file:/ and the callback says file:///",
        runs=({"commits": 2},),
        prefix="file://",
        with_callback=True,
    ),
    Scenario(
        name="untidy-path",
        about="written with a double and a trailing slash: the client tidies up, the callback does not",
        runs=({"commits": 1},),
        folder="/trips/",
        with_callback=True,
    ),
    Scenario(
        name="database-and-deployment",
        about="a database name, each deploy option, and a token in the query of the manager's address",
        runs=({"commits": 2},),
        query="/?token=open-sesame",
        options=DEPLOY,
    ),
    Scenario(
        name="clustering",
        about="copy on write, all actions are ours: the clustering plan stays requested",
        runs=({"commits": 3, "table_type": "COPY_ON_WRITE", "actions": ALL_ACTIONS},),
        options=CLUSTERING,
    ),
    Scenario(
        name="clustering-not-ours",
        about="actions=compaction: clustering is announced all the same, and the writer runs it itself at once",
        runs=({"commits": 3, "table_type": "COPY_ON_WRITE"},),
        options=CLUSTERING,
    ),
    Scenario(
        name="clean",
        about="copy on write, all actions are ours: yet the next commit of the writer runs the clean that it left",
        runs=({"commits": 5, "table_type": "COPY_ON_WRITE", "actions": ALL_ACTIONS},),
        options=CLEAN,
    ),
    Scenario(
        name="clean-not-ours",
        about="actions=compaction: a clean is announced all the same, and the writer runs it itself at once",
        runs=({"commits": 4, "table_type": "COPY_ON_WRITE"},),
        options=CLEAN,
    ),
    Scenario(
        name="compaction-and-clustering",
        about="merge on read with both: two requests after each commit, one of them with nothing pending",
        runs=({"commits": 2, "actions": ALL_ACTIONS},),
        options=CLUSTERING,
    ),
    Scenario(
        name="callback",
        about="the commit callback alone, with a key and a header of its own",
        runs=({"commits": 3, "partitions": 2},),
        with_manager=False,
        with_callback=True,
        options={
            "hoodie.write.commit.callback.http.api.key": "open-sesame",
            "hoodie.write.commit.callback.http.custom.headers": "X-Team:sales;X-Stage:test",
        },
    ),
)


def main() -> None:
    jar = build()
    taken = []
    for scenario in SCENARIOS:
        say_on_stderr(f"recording {scenario.name}")
        with tempfile.TemporaryDirectory() as folder, recording() as recorder:
            play(scenario, Path(folder), recorder, jar)
            requests = tuple(neutral(recorder.requests, folder))
        taken.append(Recording(scenario=scenario.name, about=scenario.about, requests=requests))
    save(taken)


def play(scenario: Scenario, folder: Path, recorder: Recorder, jar: Path) -> None:
    for arguments in scenario.runs:
        ended = run(
            f"{scenario.prefix}{folder}/{scenario.folder}",
            uri=recorder.uri + scenario.query if scenario.with_manager else None,
            callback=recorder.callback if scenario.with_callback else None,
            options=scenario.options,
            jar=jar,
            **arguments,
        )
        if not ended.ok:
            raise SystemExit(f"{scenario.name}: {ended.errors}")


def neutral(requests: list[RecordedRequest], folder: str) -> Iterator[RecordedRequest]:
    """The same requests as if the tables lay under /data; headers that belong to one connection are left out."""
    for request in requests:
        yield replace(
            request,
            target=request.target.replace(quote_plus(folder), quote_plus("/data")),
            headers=tuple(pair for pair in request.headers if pair[0] not in {"Host", "Content-Length"}),
            body=request.body.replace(folder, "/data"),
        )


if __name__ == "__main__":
    main()
