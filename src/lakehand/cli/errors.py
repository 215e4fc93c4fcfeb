# SPDX-License-Identifier: Apache-2.0
"""Turns errors into one line and exit code 1, for every command."""

from typing import Any

import typer
from typer.core import TyperGroup

from lakehand.domain.errors import LakehandError
from lakehand.output import print_error


class CommandFailed(LakehandError):
    """The command cannot do what was asked."""

    code = "command-failed"


class Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (LakehandError, ValueError) as error:
            print_error(str(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
