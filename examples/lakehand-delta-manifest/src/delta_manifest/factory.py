# SPDX-License-Identifier: Apache-2.0
"""Decides when the manifests of a Delta table must be written anew, and verifies from the table that they were."""

from dataclasses import replace

from delta_manifest.manifests import Names, live_files, named_files, newest_version
from lakehand.spi import METADATA_TRIGGER, Action, Format, Skip, TableProcess, Verdict, health
from lakehand.spi.kit import DecisionContext, Effect, Need, PlanningFactory, choice_setting
from lakehand.spi.kit.verdicts import done, not_done

DELTA = Format("delta")
GENERATE_MANIFEST = Action.register("generate-manifest")
ENGINE = choice_setting("delta-manifest.engine", "where the manifests are written", "spark", "subprocess")
STRATEGIES = {GENERATE_MANIFEST: METADATA_TRIGGER}
JOBS = {"spark": "delta_manifest.jobs:generate_on_spark", "subprocess": "delta_manifest.jobs:generate_in_python"}
VERSIONS_READ = 50  # by a verdict: a writer may have gone on since the job


class DeltaManifestFactory(PlanningFactory[object]):
    """The default strategy suits it: manifests can only become wrong when the table changes."""

    name = "delta-manifest"
    format = DELTA
    strategies = STRATEGIES
    rows = (ENGINE,)
    snapshot_type = object

    def decide(self, context: DecisionContext[object]) -> Need | Skip:
        location = context.table.reference.location
        if vectors := context.table.snapshot().numbers.get(health.DELETION_VECTORS):
            return Skip(reason=f"{vectors} files have deletion vectors, which a manifest cannot express: purge them")
        version = newest_version(location)
        live, named = live_files(location, version), named_files(location)
        if live == named and not context.by_person:
            return Skip(reason=f"the manifest names all {len(live)} files of version {version}")
        return Need(reason=describe(live, named, version), parameters={"location": location, "version": version})

    def process(self, context: DecisionContext[object], need: Need) -> TableProcess:
        engine = context.values[ENGINE]
        return replace(super().process(context, need), engine=engine, job=JOBS[engine], conflict_class="manifest")

    def verify_effect(self, effect: Effect[object]) -> Verdict:
        """Done when the manifests are those of a version that came after the decision: writers go on meanwhile."""
        location, since = effect.table.reference.location, int(str(effect.parameters["version"]))
        named, newest = named_files(location), newest_version(location)
        for version in range(newest, max(since, newest - VERSIONS_READ) - 1, -1):
            if live_files(location, version) == named:
                reason = f"the manifest names all {len(named)} files of version {version}"
                return done(reason, {"files": len(named), "version": version})
        return not_done(describe(live_files(location, newest), named, newest))


def describe(live: Names, named: Names, version: int) -> str:
    gone = f" and {len(named - live)} that are gone" if named - live else ""
    return f"the manifest names {len(live & named)} of {len(live)} files of version {version}{gone}"
