# SPDX-License-Identifier: Apache-2.0
"""The lakehand command; it speaks REST like any client, apart from serve, migrate, doctor and demo."""

from lakehand.cli.main import app

__all__ = ["app"]
