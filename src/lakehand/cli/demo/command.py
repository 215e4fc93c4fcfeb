# SPDX-License-Identifier: Apache-2.0
"""lakehand demo: starts everything, tells the story, shows the result, and leaves nothing behind."""

from typing import Annotated

import typer


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up afterwards, until Ctrl-C.")] = False,
) -> None:
    """Watch two Hudi tables become healthy: a real writer, a real service, real Spark, all on this machine."""
    from lakehand.cli.demo.performance import perform

    raise typer.Exit(perform(keep=keep))
