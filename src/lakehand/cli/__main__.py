# SPDX-License-Identifier: Apache-2.0
"""python -m lakehand.cli: the same as the lakehand command."""

from lakehand.cli.main import app

app(prog_name="lakehand")
