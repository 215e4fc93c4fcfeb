# SPDX-License-Identifier: Apache-2.0
"""lakehand demo: runs the demo of lakehand.demo."""

from typing import Annotated

import typer

from lakehand.cli.options import words


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Keep everything running afterwards, until Ctrl-C.")] = False,
    formats: Annotated[
        str, typer.Option("--formats", help="Only these formats, for example hudi,delta.", show_default="all five")
    ] = "",
    storage: Annotated[
        str, typer.Option("--storage", help="Where the tables are: disk, or s3 (a bucket of moto, which it starts).")
    ] = "disk",
) -> None:
    """Watch Lakehand repair tables of five formats: real writers, a real service and real Spark, on this machine."""
    from lakehand.demo.run import run_demo

    raise typer.Exit(run_demo(keep=keep, wanted=words(formats), storage=storage))
