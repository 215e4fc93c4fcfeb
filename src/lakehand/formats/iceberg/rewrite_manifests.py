# SPDX-License-Identifier: Apache-2.0
"""Merges small manifests, each of which a reader opens. It changes no file, so that it is in no writer's way."""

from lakehand.formats.iceberg.context import IcebergContext, IcebergEffect
from lakehand.formats.iceberg.rewrites import ON_COMMIT, outputs, verify_rewrite
from lakehand.formats.iceberg.snapshot import whole_number
from lakehand.spi import Action, Skip, Verdict, amount, health, kit
from lakehand.spi.kit import Need

TARGET_BYTES = 8 * health.MB
MIN_MANIFESTS = kit.count_setting(
    "iceberg.rewrite-manifests.min-manifests", "manifests that make it worth it", 25, floor=2
)


def decide(context: IcebergContext) -> Need | Skip:
    snapshot, least = context.snapshot, context.values[MIN_MANIFESTS]
    target = whole_number(snapshot.properties, "commit.manifest.target-size-bytes", TARGET_BYTES)
    mine = [manifest for manifest in snapshot.manifests if manifest.spec == snapshot.spec]
    sizes = {kind: [m.size for m in mine if m.holds_deletes is kind] for kind in (False, True)}
    after = sum(outputs(sum(found), target) for found in sizes.values() if found)
    text = f"{len(mine)} manifests of {amount(sum(manifest.size for manifest in mine))} in all, {after} would do"
    if len(mine) >= least and len(mine) >= 2 * after:
        return Need(reason=text)
    return Skip(reason=f"{text}; {least} that become half as many are worth it")


def verify(effect: IcebergEffect) -> Verdict:
    return verify_rewrite(effect, "manifests", "manifests")


REWRITE_MANIFESTS = kit.ActionDefinition(
    name=Action.register("rewrite-manifests"), strategy=ON_COMMIT, settings=(MIN_MANIFESTS,), decide=decide,
    verify=verify,
)  # fmt: skip
