# SPDX-License-Identifier: Apache-2.0
"""Removes versions that are old and that no tag or branch holds, with the files that only they need."""

from datetime import timedelta

from lakehand.formats.lance.context import LanceContext, LanceEffect, cool_down, why_gone
from lakehand.spi import Action, Json, Skip, Verdict, at_fixed_rate, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import fields, milliseconds, moment_of, whole_number
from lakehand.spi.kit.verdicts import done, gone, not_done

DAY = timedelta(days=1)
MAX_AGE = kit.retention_setting("lance.clean-versions.max-age", "versions are kept this long", 14 * DAY, DAY)
RETAIN = kit.retained_count_setting(
    "lance.clean-versions.retain-versions", "newest versions that are kept whatever their age", 1, 1
)
MIN_VERSIONS = kit.count_setting(
    "lance.clean-versions.min-versions", "versions past their age that make it worth it", 1, floor=1
)
COOL_DOWN = cool_down("clean-versions")


def decide(context: LanceContext) -> Need | Skip:
    snapshot, max_age = context.snapshot, context.values[MAX_AGE]
    expired = snapshot.expired(context.table.now - max_age, context.values[RETAIN])
    age, least = duration_text(max_age), context.values[MIN_VERSIONS]
    text = f"{len(expired)} of {len(snapshot.history)} versions are older than {age} and held by nothing"
    if len(expired) >= least:
        return Need(reason=text)
    held = f"; {len(snapshot.held)} held by tags and branches" if snapshot.held else ""
    return Skip(reason=f"{text}; {least} make it worth it{held}")


def limits(context: LanceContext) -> dict[str, Json]:
    """A request may keep more than the table does, never less."""
    snapshot, retained = context.snapshot, context.values[RETAIN]
    cutoff = context.table.now - context.values[MAX_AGE]
    return {
        "cutoff_ms": milliseconds(cutoff),
        "retain_versions": retained,
        "seen": {"versions": len(snapshot.history), "expired": len(snapshot.expired(cutoff, retained))},
    }


def verify(effect: LanceEffect) -> Verdict:
    if why := why_gone(effect):
        return gone(why)
    snapshot, parameters, result = effect.snapshot, effect.parameters, effect.result
    cutoff = moment_of(whole_number(parameters.get("cutoff_ms")))
    left = len(snapshot.expired(cutoff, whole_number(parameters.get("retain_versions"))))
    before = whole_number(fields(parameters.get("seen")).get("expired"))
    removed = whole_number(result.get("versions_removed"))
    numbers: dict[str, Json] = {
        "changed": removed > 0 or whole_number(result.get("files_removed")) > 0 or before > left,
        "expired_before": before,
        "expired_after": left,
        "versions_after": len(snapshot.history),
        **kit.work_numbers(files_removed=result.get("files_removed")),
    }
    age = f"versions older than {cutoff:%Y-%m-%d %H:%M} UTC"
    # Lance goes by the time in the manifest, we by the file's: its result counts where the two differ.
    if left and result.get("expired_after") != 0:
        return not_done(f"{left} of {before} {age} are still there", numbers)
    held = f", {len(snapshot.held)} held by tags and branches" if snapshot.held else ""
    return done(f"{removed or before} {age} are gone; {len(snapshot.history)} are kept{held}", numbers)


CLEAN_VERSIONS = kit.ActionDefinition(
    name=Action.register("clean-versions"), strategy=at_fixed_rate(DAY), settings=(MAX_AGE, RETAIN, MIN_VERSIONS),
    cool_down=COOL_DOWN, decide=decide, limits=limits, verify=verify, has_dry_run=True,
)  # fmt: skip
