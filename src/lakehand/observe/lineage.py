# SPDX-License-Identifier: Apache-2.0
"""Sends OpenLineage events of each attempt, so that rewrites show in Marquez, DataHub and their like."""

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlsplit
from uuid import UUID, uuid5

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    error_message_run,
    job_type_job,
    nominal_time_run,
    output_statistics_output_dataset,
    ownership_dataset,
    processing_engine_run,
    symlinks_dataset,
    tags_run,
)
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport

import lakehand
from lakehand.domain.operations import Attempt, Operation, Status
from lakehand.domain.tables import Table
from lakehand.spi.health import BYTES_REWRITTEN

PRODUCER = f"https://lakehand.dev/{lakehand.__version__}"
NAMES = UUID("5d2f9a86-6c0b-4a58-9a55-0f6c5a4f4d11")  # of run ids: made once, at random
STATES = {Status.SUCCEEDED: RunState.COMPLETE, Status.CANCELED: RunState.ABORT, Status.DROPPED: RunState.ABORT}


class LineageSink:
    name = "lineage"

    def __init__(self, url: str, *, namespace: str, api_key: str, timeout: float, now: Callable[[], datetime]) -> None:
        config = HttpConfig(url=url, timeout=timeout, retry={"total": 1})
        if api_key:
            config.auth = ApiKeyTokenProvider({"apiKey": api_key})
        self.client = OpenLineageClient(transport=HttpTransport(config))
        self.namespace, self.now = namespace, now

    def started(self, operation: Operation, table: Table) -> None:
        self.client.emit(self.event(RunState.START, operation, table, operation.submitted_at or self.now()))

    def ended(self, operation: Operation, table: Table, attempts: Sequence[Attempt]) -> None:
        """One that ended before an engine had it was not a run."""
        if attempts:
            state, last = STATES.get(operation.status, RunState.FAIL), attempts[-1]
            self.client.emit(self.event(state, operation, table, last.finished_at or self.now(), last))

    def event(
        self, state: RunState, operation: Operation, table: Table, at: datetime, attempt: Attempt | None = None
    ) -> RunEvent:
        handle = attempt.handle if attempt else operation.handle
        job = Job(self.namespace, f"{operation.process.action}.{table.name}", facets=job_facets())
        return RunEvent(
            eventType=state, eventTime=iso(at), producer=PRODUCER, job=job,
            run=Run(str(uuid5(NAMES, f"{operation.tag}:{handle}")), facets=run_facets(operation, attempt)),
            inputs=[InputDataset(*dataset_name(table.location), facets=self.facets(table))],
            outputs=[
                OutputDataset(*dataset_name(table.location), statistics(operation), facets=self.facets(table))
            ],
        )  # fmt: skip

    def facets(self, table: Table) -> dict[str, DatasetFacet]:
        where = f"{self.namespace}/{table.spec.catalog}" if table.spec.catalog else self.namespace
        known = symlinks_dataset.Identifier(namespace=where, name=table.name, type="TABLE")
        owner = ownership_dataset.Owner(name=table.spec.owner)
        return {
            "symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[known]),
            "ownership": ownership_dataset.OwnershipDatasetFacet(owners=[owner]),
        }

    def close(self) -> None:
        self.client.close()


def dataset_name(location: str) -> tuple[str, str]:
    """Namespace and name by OpenLineage's rules: a rewrite reads and writes one dataset."""
    parts = urlsplit(location)
    if not parts.scheme or parts.scheme == "file":
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/") or "/"


def job_facets() -> dict[str, JobFacet]:
    return {
        "jobType": job_type_job.JobTypeJobFacet(processingType="BATCH", integration="LAKEHAND", jobType="MAINTENANCE")
    }


def run_facets(operation: Operation, attempt: Attempt | None) -> dict[str, RunFacet]:
    tag, engine = tags_run.TagsRunFacetFields, operation.process.engine
    facets: dict[str, RunFacet] = {
        "nominalTime": nominal_time_run.NominalTimeRunFacet(nominalStartTime=iso(operation.due_at)),
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=engine_version(engine), name=engine, openlineageAdapterVersion=lakehand.__version__
        ),
        "tags": tags_run.TagsRunFacet(tags=[
            tag(key="operation", value=str(operation.id)), tag(key="attempt", value=str(operation.run_times)),
            tag(key="asked_by", value=operation.origin), tag(key="why", value=operation.process.reason),
        ]),
    }  # fmt: skip
    if attempt and attempt.failure:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(attempt.failure.message, "PYTHON")
    return facets


def statistics(operation: Operation) -> dict[str, OutputDatasetFacet]:
    size = operation.result.get(BYTES_REWRITTEN)
    if not isinstance(size, int):
        return {}
    return {"outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(size=size)}


def engine_version(engine: str) -> str:
    try:
        return version("pyspark") if engine in ("spark", "spark-submit") else "unknown"
    except PackageNotFoundError:
        return "unknown"


def iso(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
