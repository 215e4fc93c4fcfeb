# SPDX-License-Identifier: Apache-2.0
"""What a command says when it cannot do its work: one line that names the thing and the next step."""

from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from lakehand.domain.errors import LakehandError


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
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"lakehand: {message}", markup=False)
