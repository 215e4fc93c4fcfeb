# SPDX-License-Identifier: Apache-2.0
"""What a command says when it cannot do its work: one line that names the thing and the next step."""

from typing import Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from lakehand.cli.screen import Screen
from lakehand.domain.errors import LakehandError
from lakehand.domain.texts import visible


class CommandFailed(LakehandError):
    """The command could not do its work."""

    code = "command-failed"


class Commands(TyperGroup):
    """Turns our errors into one line and exit code 1, for every command at once."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (LakehandError, ValueError) as problem:
            complain(str(problem))
            raise typer.Exit(1) from problem
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def complain(message: str) -> None:
    """Further lines are indented, so that none of them passes for a message of its own."""
    lines = "\n  ".join(visible(line, keep="\t") for line in message.split("\n"))
    Screen(stderr=True, soft_wrap=True).print(Text(f"lakehand: {lines}"))
