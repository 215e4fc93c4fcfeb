# SPDX-License-Identifier: Apache-2.0
"""An engine of Lakehand: each job is a Python process of its own on this machine. For jobs that need no Spark."""

from subprocess_engine.engine import SubprocessEngine

__all__ = ["SubprocessEngine"]
