# SPDX-License-Identifier: Apache-2.0
"""Decides when the manifests of a Delta table must be written anew, and tells from the table whether they were."""

from collections.abc import Mapping
from typing import ClassVar

from delta_manifest.manifests import Names, live_files, named_files, newest_version
from lakehand.spi import (
    Action,
    Finding,
    Format,
    Invalid,
    Json,
    ProcessFactory,
    Skip,
    TableConfig,
    TableProcess,
    TableRuntime,
    Verdict,
    health,
    pause,
)

DELTA = Format("delta")
GENERATE_MANIFEST = Action.register("generate-manifest")
ENGINE = "delta-manifest.engine"  # property of the plugin or of a table
JOBS = {"spark": "delta_manifest.jobs:generate_on_spark", "subprocess": "delta_manifest.jobs:generate_in_python"}
VERSIONS_LOOKED_AT = 50  # by a verdict: a writer may have gone on since the job


class DeltaManifestFactory(ProcessFactory):
    """The default strategy suits it: manifests can only become wrong when the table changes."""

    name: ClassVar[str] = "delta-manifest"

    def open(self, properties: Mapping[str, str]) -> None:
        engine_of(properties.get(ENGINE, "spark"))

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {DELTA: frozenset({GENERATE_MANIFEST})}

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        if waits := pause(table, action):
            return waits
        if vectors := table.snapshot().numbers.get(health.DELETION_VECTORS):
            return Skip(reason=f"{vectors} files have deletion vectors, which a manifest cannot express: purge them")
        version = newest_version(table.reference.location)
        live, named = live_files(table.reference.location, version), named_files(table.reference.location)
        if live == named:
            return Skip(reason=f"the manifest names all {len(live)} files of version {version}")
        return generation(table.config, table.reference.location, version, told(live, named, version))

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
        try:
            table.snapshot()  # the format knows a table that is gone from one that cannot be read
            return judged(table.reference.location, int(str(process.parameters["version"])))
        except Invalid as error:
            return Verdict(finding=Finding.GONE, reason=str(error))
        except OSError as error:
            return Verdict(finding=Finding.UNREADABLE, reason=f"the manifest cannot be compared: {error}")


def engine_of(name: str) -> str:
    if name not in JOBS:
        raise Invalid(f"{ENGINE} is {name!r}: say one of {', '.join(JOBS)}")
    return name


def generation(config: TableConfig, location: str, version: int, reason: str) -> TableProcess:
    engine = engine_of(config.text(ENGINE, "spark"))
    parameters: dict[str, Json] = {"location": location, "version": version}
    return TableProcess(
        action=GENERATE_MANIFEST, engine=engine, job=JOBS[engine], parameters=parameters, reason=reason,
        conflict_class="manifest",
    )  # fmt: skip


def judged(location: str, since: int) -> Verdict:
    """Done when the manifests are those of a version that came after the decision: writers go on meanwhile."""
    named, newest = named_files(location), newest_version(location)
    for version in range(newest, max(since, newest - VERSIONS_LOOKED_AT) - 1, -1):
        if live_files(location, version) == named:
            numbers: dict[str, Json] = {"changed": True, "files": len(named), "version": version}
            reason = f"the manifest names all {len(named)} files of version {version}"
            return Verdict(finding=Finding.DONE, reason=reason, numbers=numbers)
    return Verdict(finding=Finding.NOT_DONE, reason=told(live_files(location, newest), named, newest))


def told(live: Names, named: Names, version: int) -> str:
    gone = f" and {len(named - live)} that are gone" if named - live else ""
    return f"the manifest names {len(live & named)} of {len(live)} files of version {version}{gone}"
