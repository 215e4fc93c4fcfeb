# SPDX-License-Identifier: Apache-2.0
"""The driver's processes: the JVM is our parent and leads a session that the engine made for this driver alone."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NoReturn


class ProcessGroup:
    def __init__(self, jvm: int, exit_reason: Path) -> None:
        if jvm <= 1:  # the parent is dead already; and to a signal, group 1 means every process there is
            raise ValueError("the driver has no JVM")
        self.jvm = jvm
        self._exit_reason = exit_reason

    @property
    def is_orphaned(self) -> bool:
        return os.getppid() != self.jvm

    def end(self, reason: str) -> NoReturn:
        """Kill the JVM, store the reason, and kill what is left of the session.

        The reason does not go to standard output, which is a pipe to the JVM.
        """
        with suppress(OSError):
            if not self.is_orphaned:
                os.kill(self.jvm, signal.SIGKILL)
        with suppress(OSError):
            draft = self._exit_reason.with_name(f".{self._exit_reason.name}.{os.getpid()}")
            draft.write_text(f"{reason}\n")
            draft.replace(self._exit_reason)  # whole at once: that it is there says that the driver is gone
        with suppress(OSError):
            if os.getpgrp() == self.jvm == os.getsid(0):
                os.killpg(self.jvm, signal.SIGKILL)
        os._exit(1)
