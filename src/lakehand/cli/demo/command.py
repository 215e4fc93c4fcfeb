# SPDX-License-Identifier: Apache-2.0
"""lakehand demo: starts everything, tells the story, shows the result, and leaves nothing behind."""

from typing import Annotated

import typer


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up afterwards, until Ctrl-C.")] = False,
    formats: Annotated[
        str, typer.Option("--formats", help="Only these, for instance hudi,delta.", show_default="all five")
    ] = "",
) -> None:
    """Watch tables of five formats become healthy: real writers, a real service, real Spark, all on this machine."""
    from lakehand.cli.demo.performance import perform
    from lakehand.cli.options import words

    raise typer.Exit(perform(keep=keep, wanted=words(formats)))
