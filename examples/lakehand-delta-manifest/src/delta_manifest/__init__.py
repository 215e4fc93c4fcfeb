# SPDX-License-Identifier: Apache-2.0
"""A plugin of Lakehand: a new action, ``generate-manifest``, for a format that Lakehand knows already."""

from delta_manifest.factory import DeltaManifestFactory

__all__ = ["DeltaManifestFactory"]
