# SPDX-License-Identifier: Apache-2.0
"""The lakehand command, one file per group of subcommands."""

from lakehand.cli.main import app

__all__ = ["app"]
